"""Differences between two values of plain JSON, so that a page gets only what changed.

A difference of two objects has the changed members, null for one that is gone. A list whose items
have an `id` becomes `{"$order": [ids] if it changed, "$items": {id: difference}}`; any other value
is replaced whole. A value that is the difference itself is wrapped: `{"$set": value}`.
"""

from __future__ import annotations

from typing import Any, Final

SAME: Final = object()


def difference(before: Any, after: Any) -> Any:
    """The change that turns `before` into `after`; SAME where there is none."""
    if before == after:
        return SAME
    if isinstance(before, dict) and isinstance(after, dict):
        return _members(before, after)
    if _is_keyed(before) and _is_keyed(after):
        return _items(before, after)
    return {"$set": after}


def _members(before: dict[str, Any], after: dict[str, Any]) -> Any:
    changed: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        step = difference(before[name], value) if name in before else {"$set": value}
        if step is not SAME:
            changed[name] = step
    return changed or SAME


def _items(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Any:
    known = {item["id"]: item for item in before}
    items: dict[str, Any] = {}
    for item in after:
        id = item["id"]
        old = known.get(id)
        if old is None:
            items[str(id)] = {"$set": item}
        elif old != item:
            items[str(id)] = difference(old, item)
    order = [item["id"] for item in after]
    is_moved = order != [item["id"] for item in before]
    if not items and not is_moved:
        return SAME
    return {"$items": items, **({"$order": order} if is_moved else {})}


def _is_keyed(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    ids = [item.get("id") if isinstance(item, dict) else None for item in value]
    return None not in ids and len(set(map(str, ids))) == len(ids)
