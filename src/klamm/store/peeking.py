"""Reading a store's file without its owner, who may be writing to it.

SQLite is given copies of the file and of its write-ahead log. A copy that was taken while others
write is whole all the same: what a checkpoint moves into the file meanwhile is still in the log,
and a commit that is half written is none. Only a log that begins anew between the two spoils them;
its header tells, and the copies are taken again.

Ephemeral nodes are in the file only where the store is served to other processes.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from klamm.model.errors import UsageError
from klamm.store.database import Database
from klamm.store.presence import WAL_SUFFIX
from klamm.store.tree import Tree

_TRIES_MAX: Final = 20
_HEADER_SIZE: Final = 32  # of a write-ahead log, with the salts of its generation


def peek(store: Path) -> Tree:
    """All nodes of a store, without touching its file; UsageError says what is wrong with it."""
    try:
        if store.stat().st_size == 0:
            raise UsageError(f"{store} is empty")
        with tempfile.TemporaryDirectory(prefix="klamm-") as folder:
            copy = Path(folder) / store.name
            for _ in range(_TRIES_MAX):
                if _copied(store, copy):
                    return _read(copy, store)
    except OSError as error:
        raise UsageError(f"the store {store} cannot be read: {error.strerror}") from error
    raise UsageError(f"the store {store} changes too fast to be read: try again")


def stamp(store: Path) -> tuple[tuple[int, int], ...]:
    """A value that changes when the store is written to."""
    found = []
    for path in (store, _log(store)):
        try:
            known = path.stat()
        except FileNotFoundError:
            continue
        found.append((known.st_mtime_ns, known.st_size))
    return tuple(found)


def _log(store: Path) -> Path:
    return store.with_name(f"{store.name}{WAL_SUFFIX}")


def _copied(store: Path, copy: Path) -> bool:
    """Copy both files; False where the log began anew meanwhile."""
    before = _generation(store)
    shutil.copyfile(store, copy)
    _log(copy).unlink(missing_ok=True)
    if before:
        try:
            shutil.copyfile(_log(store), _log(copy))
        except FileNotFoundError:
            return False
    return _generation(store) == before


def _generation(store: Path) -> bytes:
    try:
        with _log(store).open("rb") as file:
            return file.read(_HEADER_SIZE)
    except FileNotFoundError:
        return b""


def _read(copy: Path, store: Path) -> Tree:
    try:
        database = Database.open(copy, fsync=False)
        try:
            return database.load()
        finally:
            database.close()
    except UsageError as fault:
        raise UsageError(str(fault).replace(str(copy), str(store))) from fault
