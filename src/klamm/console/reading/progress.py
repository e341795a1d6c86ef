"""The progress of moves: bytes that have arrived, how fast, and since when none has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

STALLED_MS: Final = 60_000  # without a byte for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The bytes of a partition that its new replicas have, as of two looks."""

    there: int
    wanted: int
    seen_ms: int
    grew_ms: int  # when there was last more than before
    rate: float | None = None  # bytes a second

    def is_stalled(self, now_ms: int) -> bool:
        """Whether nothing has come for long although something is missing."""
        return self.there < self.wanted and now_ms - self.grew_ms >= STALLED_MS


def followed(
    before: Mapping[str, Copied],
    moves: Iterable[Mapping[str, Any]],
    sizes: Mapping[tuple[str, int, int], int],
    now_ms: int,
) -> dict[str, Copied]:
    """The progress of every move under way; what has ended is forgotten."""
    largest: dict[tuple[str, int], int] = {}
    for (topic, index, _), size in sizes.items():
        largest[topic, index] = max(size, largest.get((topic, index), 0))
    found = {}
    for move in moves:
        name = move["partition"]
        topic, _, number = name.rpartition("-")
        there = sum(sizes.get((topic, int(number), broker), 0) for broker in move["adding"])
        wanted = largest.get((topic, int(number)), 0) * len(move["adding"])
        found[name] = _after(before.get(name), there, wanted, now_ms)
    return found


def _after(known: Copied | None, there: int, wanted: int, now_ms: int) -> Copied:
    if known is None:
        return Copied(there=there, wanted=wanted, seen_ms=now_ms, grew_ms=now_ms)
    passed_s = (now_ms - known.seen_ms) / 1000
    return Copied(
        there=there,
        wanted=wanted,
        seen_ms=now_ms,
        grew_ms=now_ms if there > known.there else known.grew_ms,
        rate=max(0.0, (there - known.there) / passed_s) if passed_s > 0 else known.rate,
    )
