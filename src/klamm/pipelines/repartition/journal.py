"""Remembers all that a re-partitioning needs to go on: its topics, its runs, its stage.

It lies in the directory that was given, below the topic's id, and is written before each step.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from klamm.model.errors import KlammError
from klamm.pipelines.archive.layout import path_name
from klamm.pipelines.jobs.writing import disk_fault, write_whole

JOURNAL: Final = "journal.json"
_VERSION: Final = 1


class Stage(StrEnum):
    """The stages of a re-partitioning."""

    BEGUN = "begun"  # the copy may be there or not
    COPYING = "copying"
    CLOSING = "closing"  # the topic takes no more records
    PROVEN = "proven"
    SWAPPED = "swapped"  # names may be exchanged, groups translated or not
    COMPLETE = "complete"
    UNDONE = "undone"


@dataclass(slots=True)
class RunEntry:
    """One run: the offsets of each source, when its windows come, and what came of it."""

    starts: dict[int, int]
    ends: dict[int, int]
    borders: dict[int, list[int]]
    counts: dict[int, int] | None = None  # of each target; None while it is not complete
    proof: list[Any] | None = None  # the sums of both sides, once they were read again


@dataclass(slots=True)
class RepartitionJournal:
    """One re-partitioning."""

    topic: str
    topic_id: str
    copy: str  # the name under which the copy is made, and the old one kept
    copy_id: str
    sources: int
    targets: int
    way: str
    window: int
    stage: Stage = Stage.BEGUN
    was_frozen: bool = False
    frozen_since_ms: int = 0  # producers wait since then; 0: they do not
    is_spoilt: bool = False  # the copy is not what it should be
    kept_until_ms: int | None = None  # when the old topic goes; None: never by itself
    runs: list[RunEntry] = field(default_factory=list)
    groups: dict[str, dict[int, int]] = field(default_factory=dict)  # committed before
    path: Path = Path()

    @property
    def maps(self) -> Path:
        """The offset maps."""
        return self.path.parent / "offset-map"

    @property
    def bases(self) -> dict[int, int]:
        """The number of records of each target after the complete runs."""
        return self.bases_of(len(self.runs))

    def bases_of(self, runs: int) -> dict[int, int]:
        """The number of records of each target after the first runs."""
        counts = [run.counts for run in self.runs[:runs] if run.counts is not None]
        return {t: sum(c[t] for c in counts) for t in range(self.targets)}

    def write(self) -> None:
        body = {k: v for k, v in asdict(self).items() if k != "path"}
        write_whole(self.path, json.dumps({"version": _VERSION, **body}, indent=1))


def place_of(root: Path, cluster: str, topic: str) -> Path:
    """The directory of a topic's re-partitionings."""
    return root.absolute() / path_name("cluster id", cluster) / path_name("topic name", topic)


def read(path: Path) -> RepartitionJournal | None:
    """The journal that is there."""
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        if found.pop("version") != _VERSION:
            raise KeyError
        runs = [
            RunEntry(
                _numbers(run["starts"]),
                _numbers(run["ends"]),
                {int(k): v for k, v in run["borders"].items()},
                None if run["counts"] is None else _numbers(run["counts"]),
                run["proof"],
            )
            for run in found.pop("runs")
        ]
        groups = {group: _numbers(own) for group, own in found.pop("groups").items()}
        stage = Stage(found.pop("stage"))
        return RepartitionJournal(**found, stage=stage, runs=runs, groups=groups, path=path)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KlammError(f"{path} is damaged: look at it, or remove it to begin anew") from None


def _numbers(found: Mapping[str, Any]) -> dict[int, int]:
    return {int(key): int(value) for key, value in found.items()}


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Keeps a second one of the same topic away, until this one ends, however it ends."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / ".working").open("ab")
    except OSError as fault:
        raise KlammError(disk_fault(fault, place)) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise KlammError(
                f"{place.name} is being re-partitioned by another process: wait for its end"
            ) from None
        yield
