"""The governor: keeps what the console asks below a share of the cluster's time.

Each source has a share of a broker's time, all together two percent. What the one that follows the
news does not use it may use later, up to a second: so there is an answer at once when something
happens after a quiet time, and never more than the share in the long run. Durations are what the
console waited, which is never less than what a broker worked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from klamm.console.reading.picture import Source

SHARES: Final[Mapping[str, float]] = {
    "states": 0.002,
    "status": 0.006,
    "offsets": 0.004,
    "groups": 0.006,
    "log dirs": 0.002,
}
SHARE_ALL: Final = sum(SHARES.values())
_SAVED_S: Final[Mapping[str, float]] = {"status": 1.0}
_MEMORY: Final = 0.3  # how much the newest measurement counts
_FOREVER_S: Final = 600.0
_MINUTE_S: Final = 60.0


def measured(source: Source, took_s: float, now: float) -> None:
    """Takes a measurement into a source's usual duration, pace and savings."""
    share_of = SHARES[source.name]
    most_s = _SAVED_S.get(source.name, 0.0)
    passed_s = now - source.asked_at if source.asked else most_s / share_of
    source.saved_s = min(most_s, source.saved_s + passed_s * share_of) - took_s
    source.took_ms = _mixed(source.took_ms, took_s * 1000)
    source.used_s = source.used_s * math.exp(-max(0.0, passed_s) / _MINUTE_S) + took_s
    if source.asked:
        source.every_s = _mixed(source.every_s, passed_s)
    source.asked += 1
    source.asked_at = now


def _mixed(before: float, now: float) -> float:
    return before + _MEMORY * (now - before) if before else now


def pause_s(source: Source, wanted_s: float) -> float:
    """The pause before a source is asked again: what is wanted, or until its share allows it."""
    owed_s = max(0.0, -source.saved_s)
    return min(_FOREVER_S, max(wanted_s, owed_s / SHARES[source.name]))


def share(source: Source) -> float:
    """The share of a broker's time that a source took in the last minute."""
    return source.used_s / _MINUTE_S


def total(sources: Iterable[Source]) -> float:
    """The share of all together."""
    return sum(share(source) for source in sources)
