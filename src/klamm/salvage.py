"""Rebuilds a lost store from back-ups, the remains of the store, and the logs.

For a data directory that no cluster uses. Whatever is replaced is moved aside, never removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from klamm.datadir import DataDirectory, log_directories
from klamm.log.recovery.survey import Survey, survey
from klamm.model.errors import UsageError
from klamm.store import backups
from klamm.store.database import read_copy, write_copy
from klamm.store.peeking import peek
from klamm.store.presence import WAL_SUFFIX
from klamm.store.repair import Evidence, Report, is_bare, rebuild
from klamm.store.tree import Tree

_LEDGERS: Final = "ledger-*.jsonl"
_LEDGER_TAIL: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """A whole copy of the store, and where it was found."""

    tree: Tree
    path: Path


def copies(store: Path) -> tuple[list[StoreCopy], list[str]]:
    """The store and its back-ups, the newest first, and what is wrong with the others."""
    found: list[StoreCopy] = []
    faults: list[str] = []
    candidates: list[tuple[Path, Callable[[Path], Tree]]] = [
        (backup.path, read_copy) for backup in backups.find(backups.directory_of(store))
    ]
    if store.exists():
        candidates.append((store, peek))
    for path, read in candidates:
        try:
            tree = read(path)
        except UsageError as fault:
            faults.append(str(fault))
            continue
        if is_bare(tree):
            faults.append(f"{path} is empty")
        else:
            found.append(StoreCopy(tree, path))
    return sorted(found, key=lambda copy: copy.tree.zxid, reverse=True), faults


@dataclass(frozen=True, slots=True)
class Repair:
    """A rebuilt store that is not in place yet."""

    tree: Tree
    report: Report
    base: Path | None  # the copy that it was made from
    faults: list[str]  # what is wrong with other copies


def repair(directory: DataDirectory, more: Iterable[Path], *, now_ms: int) -> Repair:
    """Rebuild the store from its newest whole copy and from the logs; nothing is written."""
    found, faults = copies(directory.store)
    surveys = _surveys([*directory.brokers, *more])
    evidence = Evidence(
        logs=[log for each in surveys for log in each.logs],
        cluster_ids=frozenset(each.identity.cluster_id for each in surveys),
        controller_epoch=max(map(_ledger_epoch, directory.brokers), default=0),
    )
    base = found[0] if found else None
    tree, report = rebuild(base.tree if base else None, evidence, now_ms=now_ms)
    report.unknown += [
        f"{name} of broker {each.identity.broker_id}: an earlier start set it aside; what it holds "
        "is in no topic"
        for each in surveys
        for name in each.set_aside
    ]
    return Repair(tree, report, base.path if base else None, faults)


def _surveys(brokers: Iterable[Path]) -> list[Survey]:
    places = dict.fromkeys(place for broker in brokers for place in log_directories(broker))
    return [found for place in places if (found := survey(str(place))) is not None]


def _ledger_epoch(broker: Path) -> int:
    """The controller epoch of the last whole line in a broker's ledger; 0 where there is none."""
    files = sorted(broker.glob(_LEDGERS), key=lambda path: (len(path.name), path.name))
    for path in reversed(files):
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LEDGER_TAIL, 0))
            lines = file.read().split(b"\n")
        for line in reversed(lines):
            try:
                return int(json.loads(line)["controller_epoch"])
            except (ValueError, KeyError, TypeError):
                continue
    return 0


def put_in_place(directory: DataDirectory, tree: Tree, *, now_ms: int) -> list[Path]:
    """Make this tree the store; says where what was there before is now."""
    store = directory.store
    fresh = store.with_name(f"{store.name}.new")
    backups.put_in_place(lambda draft: write_copy(draft, tree.entries, tree.zxid), fresh)
    aside = set_aside((store, Path(f"{store}{WAL_SUFFIX}")), now_ms=now_ms)
    fresh.rename(store)
    (directory.path / backups.LOST_MARK).unlink(missing_ok=True)
    backups.sync_directory(directory.path)
    return aside


def set_aside(paths: Iterable[Path], *, now_ms: int) -> list[Path]:
    """Rename those of these files and directories that are there; says what they are called now."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    return [
        old.rename(old.with_name(f"{old.name}.{moment}-aside")) for old in paths if old.exists()
    ]
