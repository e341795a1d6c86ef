"""Copies of the store beside it, the oldest of which make room for new ones.

A back-up is a store of its own: one SQLite file without a write-ahead log, which is there whole or
not at all. Its name says when it was taken and up to which transaction it goes. A rescue is a
back-up that was taken from memory, because the store's own file had been lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

DIRECTORY: Final = "store-backups"
LOST_MARK: Final = "store.lost"  # beside the store: it was lost, and nobody has repaired it yet
_NAME: Final = re.compile(r"store-(\d{8}T\d{6}\.\d{3})Z-(\d{1,19})(-rescue)?\.db\Z")
_TIME: Final = "%Y%m%dT%H%M%S.%f"


@dataclass(frozen=True, slots=True)
class Policy:
    """The number of back-ups to keep, and how often a changed store gets a new one."""

    keep: int
    interval_s: float


@dataclass(frozen=True, slots=True, order=True)
class Backup:
    """One back-up, as its name tells."""

    taken_ms: int
    zxid: int
    is_rescue: bool
    path: Path


def directory_of(store: Path) -> Path:
    """The directory of this store's back-ups."""
    return store.parent / DIRECTORY


def find(directory: Path) -> list[Backup]:
    """The back-ups in a directory, oldest first; there are none where there is no directory."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found for name in names if (found := _parsed(directory, name)) is not None)


def _parsed(directory: Path, name: str) -> Backup | None:
    match = _NAME.match(name)
    if match is None:
        return None
    try:
        taken = datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    taken_ms = round(taken.timestamp() * 1000)
    return Backup(taken_ms, int(match[2]), match[3] is not None, directory / name)


def save(
    write: Callable[[Path], None],
    directory: Path,
    *,
    zxid: int,
    now_ms: int,
    keep: int,
    is_rescue: bool = False,
) -> Path:
    """Have `write` fill a new back-up, put it in place, and let go of the oldest ones."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime(_TIME)[:-3]
    suffix = "-rescue" if is_rescue else ""
    target = directory / f"store-{moment}Z-{zxid}{suffix}.db"
    directory.mkdir(mode=0o700, exist_ok=True)
    put_in_place(write, target)
    for old in find(directory)[: -max(keep, 1)]:
        old.path.unlink(missing_ok=True)
    return target


def put_in_place(write: Callable[[Path], None], target: Path) -> None:
    """Have `write` fill a file that gets its name when all of it is on the disk."""
    draft = target.with_name(f".{target.name}.draft")
    draft.unlink(missing_ok=True)
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600)
    try:
        write(draft)
        os.fsync(descriptor)
        draft.rename(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Bring the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
