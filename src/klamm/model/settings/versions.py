"""The releases a setting may name: `2.8`, `2.8.1` and `2.8-IV1` are the same one.

Up to 0.11 a release has three numbers, later two. IV counts the changes of the protocol between
brokers that were made on the way to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.model.settings.definition import Value

# By how many protocol versions they have; none for those older than the count.
_RELEASES: Final[Mapping[int, tuple[str, ...]]] = {
    0: ("0.8.0", "0.8.1", "0.8.2", "0.9.0"),
    1: ("0.10.2", "1.0", "1.1", "2.5", "2.6", "3.1", "3.2", "3.4", "3.8", "3.9"),
    2: ("0.10.0", "2.0", "2.2", "2.3", "2.4", "2.8", "3.0"),
    3: ("0.10.1", "0.11.0", "2.1", "2.7", "3.5", "3.6"),
    4: ("3.3",),
    5: ("3.7",),
}
_NAMES: Final = frozenset(
    name
    for count, releases in _RELEASES.items()
    for release in releases
    for name in (release, *(f"{release}-IV{at}" for at in range(count)))
)


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A release of Kafka up to the one whose protocol klamm speaks."""

    def fault(self, value: Value) -> str | None:
        text = str(value)
        length = 3 if text.startswith("0.") else 2
        if ".".join(text.split(".")[:length]) in _NAMES:
            return None
        return "is not a version of Kafka up to 3.9"

    def __str__(self) -> str:
        return "a version of Kafka"
