// The three state machines, drawn from the controller's own tables. The state now is lit; a move
// runs along its edge once. A move that is not in the tables stays, dashed and red.

import { root } from "./dom.js";
import { FORMATS } from "./formats.js";
import { watch } from "./live.js";

const SVG = "http://www.w3.org/2000/svg";
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function s(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// The point where a line from the middle of a node leaves it.
function border(node, machine, toX, toY) {
  const w = machine.node_width / 2 + 2, tall = machine.node_height / 2 + 2;
  const x = node.x + machine.node_width / 2, y = node.y + machine.node_height / 2;
  const dx = toX - x, dy = toY - y;
  const scale = Math.min(dx ? w / Math.abs(dx) : Infinity, dy ? tall / Math.abs(dy) : Infinity);
  return [x + dx * scale, y + dy * scale];
}

function path(machine, from, to, bend) {
  if (from === to) {
    const x = from.x + machine.node_width - 18, y = from.y;
    return `M${x - 8} ${y} c -4 -16, 20 -16, 12 0`;
  }
  const mid = (node) => [node.x + machine.node_width / 2, node.y + machine.node_height / 2];
  const [ax, ay] = mid(from), [bx, by] = mid(to);
  const length = Math.hypot(bx - ax, by - ay) || 1;
  const cx = (ax + bx) / 2 - ((by - ay) / length) * bend, cy = (ay + by) / 2 + ((bx - ax) / length) * bend;
  const [sx, sy] = border(from, machine, cx, cy), [ex, ey] = border(to, machine, cx, cy);
  return `M${sx} ${sy} Q${cx} ${cy} ${ex} ${ey}`;
}

export function drawing(machine) {
  const nodes = new Map(machine.nodes.map((node) => [node.state, node]));
  const pairs = new Set(machine.transitions.map((t) => `${t.before}>${t.after}`));
  const root = s("svg", { viewBox: `0 0 ${machine.width} ${machine.height}`, role: "img", "aria-label": `the ${machine.entity}'s state machine` });
  root.append(s("defs", {}, s("marker", { id: `arrow-${machine.id}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" }, s("path", { d: "M0 0 L8 4 L0 8 z", class: "tip" }))));
  const edges = new Map();
  for (const move of machine.transitions) {
    const from = nodes.get(move.before), to = nodes.get(move.after);
    if (!from || !to) continue;
    const both = move.before !== move.after && pairs.has(`${move.after}>${move.before}`);
    const edge = s("path", { class: "edge", d: path(machine, from, to, both ? 14 : 0), "marker-end": `url(#arrow-${machine.id})` }, s("title", {}, `${move.before} to ${move.after}: ${move.rule}`));
    edges.set(`${move.before}>${move.after}`, edge);
    root.append(edge);
  }
  const shapes = new Map();
  for (const node of machine.nodes) {
    const count = s("tspan", { class: "count" });
    const text = s("text", { x: node.x + machine.node_width / 2, y: node.y + machine.node_height / 2 + 4 }, node.state, count);
    const group = s("g", { class: "node" }, s("rect", { x: node.x, y: node.y, width: machine.node_width, height: machine.node_height, rx: 6 }), text);
    shapes.set(node.state, { group, count });
    root.append(group);
  }
  return { machine, root, nodes, edges, shapes };
}

// Lights the states that things are in: one, or many with their counts.
export function light(drawn, counts, before) {
  const states = Object.keys(counts), many = Object.values(counts).reduce((a, b) => a + b, 0) > 1;
  for (const [state, { group, count }] of drawn.shapes) {
    group.dataset.now = states.includes(state) ? "1" : "";
    group.dataset.before = state === before ? "1" : "";
    count.textContent = many && counts[state] ? ` ${FORMATS.number(counts[state])}` : "";
  }
  for (const [pair, edge] of drawn.edges) edge.dataset.next = states.some((state) => pair.startsWith(`${state}>`)) ? "1" : "";
}

export function run(drawn, before, after, illegal) {
  const edge = drawn.edges.get(`${before}>${after}`);
  if (!edge || illegal) {
    const from = drawn.nodes.get(before), to = drawn.nodes.get(after);
    if (!from || !to || before === "found") return;
    drawn.root.append(s("path", { class: "edge illegal", d: path(drawn.machine, from, to, 0), "marker-end": `url(#arrow-${drawn.machine.id})` }));
    return;
  }
  edge.classList.add("lit");
  setTimeout(() => edge.classList.remove("lit"), 2000);
  if (calm.matches) return;
  const dot = s("circle", { r: 4, class: "dot" });
  drawn.root.append(dot);
  const length = edge.getTotalLength(), begun = performance.now();
  const step = (now) => {
    const part = Math.min(1, (now - begun) / 600), point = edge.getPointAtLength(part * length);
    dot.setAttribute("cx", point.x);
    dot.setAttribute("cy", point.y);
    if (part < 1) requestAnimationFrame(step);
    else dot.remove();
  };
  requestAnimationFrame(step);
}

function kindOf(subject) {
  if (/ on broker \d+$/.test(subject)) return "replica";
  return subject.startsWith("topic ") ? "topic" : /-\d+$/.test(subject) ? "partition" : null;
}

function counted(states) {
  const found = {};
  for (const state of states) found[state] = (found[state] ?? 0) + 1;
  return found;
}

// What the chosen machine shows: one thing where one was chosen, else all of its kind.
function shownStates(values, kind, chosen) {
  if (kind === "topic") return { text: `${values.name}: ${values.state}`, counts: { [values.state]: 1 } };
  const row = chosen.p === null ? null : values.rows.find((each) => each.index === chosen.p);
  if (kind === "partition") {
    if (row) return { text: `${values.name}-${row.index}: ${row.state}`, counts: { [row.state]: 1 }, subject: `${values.name}-${row.index}` };
    return { text: `all ${values.rows.length} partitions`, counts: counted(values.rows.map((each) => each.state)) };
  }
  const cell = row?.cells.find((each) => each.id === chosen.b && each.state);
  if (cell) return { text: `${values.name}-${row.index} on broker ${cell.id}: ${cell.state}`, counts: { [cell.state]: 1 }, subject: `${values.name}-${row.index} on broker ${cell.id}` };
  return { text: "all replicas; choose a cell for one", counts: counted(values.rows.flatMap((each) => each.cells.map((one) => one.state).filter(Boolean))) };
}

export async function machines(wish) {
  const box = document.querySelector(".machine");
  if (!box) return;
  const drawings = new Map();
  const place = new URL(location.href).searchParams;
  const number = (name) => (place.has(name) ? Number(place.get(name)) : null);
  const chosen = { kind: "replica", p: number("p"), b: number("b") };
  let values = null;
  const seen = new Set();
  const show = () => {
    const drawn = drawings.get(chosen.kind);
    if (!drawn || !values) return;
    if (box.firstChild !== drawn.root) box.replaceChildren(drawn.root);
    const now = shownStates(values, chosen.kind, chosen);
    const line = values.lines.find((each) => each.subject === now.subject);
    light(drawn, now.counts, line && line.before !== line.after ? line.before : null);
    document.querySelector(".machines .now").textContent = FORMATS.shown(now.text + (line ? `; before: ${line.before}, ${FORMATS.clock(line.time_ms)}` : ""));
    for (const tab of document.querySelectorAll("[data-machine]")) tab.setAttribute("aria-selected", String(tab.dataset.machine === chosen.kind));
    for (const cell of document.querySelectorAll("table.matrix .cell")) {
      const p = Number(cell.closest("tr").dataset.partition), b = Number(cell.dataset.broker);
      cell.classList.toggle("chosen", p === chosen.p && b === chosen.b);
    }
  };
  const news = (before) => {
    const fresh = values.lines.filter((line) => !seen.has(line.id));
    for (const line of values.lines) seen.add(line.id);
    if (!before) return;
    for (const line of fresh.slice(0, 5).reverse()) {
      const drawn = drawings.get(kindOf(line.subject));
      const now = shownStates(values, chosen.kind, chosen);
      if (drawn && drawn.machine.id === chosen.kind && (!now.subject || now.subject === line.subject)) run(drawn, line.before, line.after, line.illegal);
    }
    const illegal = fresh.find((line) => line.illegal);
    if (illegal) {
      const banner = document.querySelector(".illegal-banner");
      banner.textContent = FORMATS.shown(`An illegal move: line ${illegal.id}, ${illegal.subject}: ${illegal.illegal}.`);
      banner.hidden = false;
    }
  };
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("table.matrix button.cell"), tab = event.target.closest("[data-machine]");
    if (cell && cell.dataset.state) {
      Object.assign(chosen, { p: Number(cell.closest("tr").dataset.partition), b: Number(cell.dataset.broker), kind: "replica" });
      place.set("p", chosen.p);
      place.set("b", chosen.b);
      history.replaceState(null, "", `?${place}`);
    }
    if (tab) chosen.kind = tab.dataset.machine;
    if (cell || tab) show();
  });
  document.addEventListener("keydown", (event) => {
    const step = { "[": -1, "]": 1 }[event.key];
    if (!step || !values || event.target.closest("input, textarea, dialog")) return;
    const rows = values.rows.map((row) => row.index);
    chosen.p = rows[Math.min(rows.length - 1, Math.max(0, rows.indexOf(chosen.p) + step))];
    chosen.b = values.rows.find((row) => row.index === chosen.p).cells.find((cell) => cell.state)?.id ?? null;
    show();
  });
  watch(wish, (now, before) => { if (now.problem) return; values = now; news(before); show(); });
  const answer = await fetch(`${root}/api/machines`);
  for (const machine of (await answer.json()).items) drawings.set(machine.entity, drawing(machine));
  show();
}
