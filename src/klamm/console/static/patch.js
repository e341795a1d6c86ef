// Differences of values, as klamm/console/differing.py makes them.

export function patched(before, change) {
  if (Object.hasOwn(change, "$set")) return change.$set;
  if (Object.hasOwn(change, "$items")) return items(before, change);
  const after = { ...before };
  for (const [name, step] of Object.entries(change)) {
    if (step === null) delete after[name];
    else after[name] = patched(after[name], step);
  }
  return after;
}

function items(before, change) {
  const known = new Map(before.map((item) => [String(item.id), item]));
  for (const [id, step] of Object.entries(change.$items)) known.set(id, patched(known.get(id), step));
  const order = change.$order ?? before.map((item) => item.id);
  return order.map((id) => known.get(String(id))).filter((item) => item !== undefined);
}
