"""Files that no version of a table names: what rounds that were broken off have left."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.places.remote import Place, files_below, relative
from klamm.pipelines.tables.state import DATA_FILE, WORK, DataFile, Snapshot, Table

_LOCK: Final = "lock"


@contextmanager
def alone(place: Place) -> Iterator[bool]:
    """Holds a table's directory: whether that keeps others out, which stores cannot do."""
    if not isinstance(place, Path):
        yield False
        return
    try:
        (place / WORK).mkdir(parents=True, exist_ok=True)
        lock = (place / WORK / _LOCK).open("ab")
    except OSError as fault:
        raise UsageError(f"cannot write to {place}: {fault.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise KlammError(f"{place} is being written to by another klamm") from None
        yield True


def discard(table: Table, files: Sequence[DataFile]) -> None:
    """Removes files that were written in vain."""
    for file in files:
        path = file.path if table.drafts is None else f"{table.drafts}/{_name(file.path)}"
        with suppress(OSError):
            (table.place / path).unlink()


def settle(table: Table, files: Sequence[DataFile]) -> Snapshot | None:
    """After a refused commit: the table, if the commit is there all the same; else the files go.

    A store that loses its answer is asked again, and then says that the name is taken: by us.
    """
    now = table.load()
    named = {file.path for file in now.files} if now is not None else set()
    if now is not None and files and all(file.path in named for file in files):
        table.recover(now)
        return now
    discard(table, [file for file in files if file.path not in named])
    return None


def _name(path: str) -> str:
    return PurePosixPath(path).name


def orphans(table: Table, seen: Snapshot, *, older_s: float = 0) -> list[Place]:
    """Files with names that klamm gives, which are not in the table: drafts, and left-over data.

    Old versions of Delta and Iceberg tables may need files that the newest one does not name:
    these stay, for only those formats know them. So only drafts and files that never were in a
    version are told, by the ranges in their names.
    """
    named = {file.path for file in seen.files}
    found: list[Place] = []
    for path in files_below(table.place):
        name = relative(path, table.place)
        is_draft = name.startswith(f"{WORK}/drafts/") or name.endswith(".draft")
        is_ours = DATA_FILE.fullmatch(name) is not None and not name.startswith(f"{WORK}/")
        if not (is_draft or (is_ours and name not in named and table.drafts is not None)):
            continue
        if older_s and isinstance(path, Path) and time.time() - path.stat().st_mtime < older_s:
            continue
        found.append(path)
    return found


def vacuum(table: Table, seen: Snapshot) -> tuple[int, int]:
    """Removes orphans: how many files, how many bytes."""
    count = size = 0
    for path in orphans(table, seen):
        size += path.stat().st_size
        path.unlink()
        count += 1
    return count, size
