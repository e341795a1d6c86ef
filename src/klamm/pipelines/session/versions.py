"""Versions of PySpark: which will do, and what each lacks of what klamm can use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

PYSPARK_MIN: Final = (4, 0)
FRAMES_FOR_STREAMS: Final = (4, 1)
LIMITS_FOR_STREAMS: Final = (4, 2)


def numbers(version: str) -> tuple[int, int] | None:
    """The first two numbers of a version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def is_too_old(version: str) -> bool:
    """Whether this version of PySpark lacks what the source needs."""
    found = numbers(version)
    return found is not None and found < PYSPARK_MIN


def shortcomings(version: str) -> Iterator[str]:
    """Things that are slower or missing with this version."""
    found = numbers(version) or PYSPARK_MIN
    if found < FRAMES_FOR_STREAMS:
        yield "each action on a DataFrame looks up the newest records again (until 4.1)"
        yield "streams to a topic are slower (rows in place of frames, until 4.1)"
    if found < LIMITS_FOR_STREAMS:
        yield "streams have no maxOffsetsPerTrigger and minOffsetsPerTrigger (until 4.2)"
