"""The embedded store's file: SQLite, opened by one process at a time.

A transaction is on the disk when its commit returns: write-ahead log, and an fsync for each commit
unless that was switched off. Ephemeral nodes are not written at all, for nobody can own them after
a restart; the transaction counter is, with every commit, so that a broker which registers again
always gets a higher epoch than any before.

Use from one thread only.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from klamm import collector
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.store.port import Stat
from klamm.store.tree import Changes, Entry, Tree

_APPLICATION_ID: Final = int.from_bytes(b"klam", "big")
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
BEGIN;
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    data BLOB,
    version INTEGER NOT NULL,
    czxid INTEGER NOT NULL,
    mzxid INTEGER NOT NULL,
    ctime_ms INTEGER NOT NULL,
    children_made INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter (zxid INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
PRAGMA application_id = {application_id};
PRAGMA user_version = {version};
COMMIT;
"""
# Long enough for a predecessor that is just going away.
_LOCK_TIMEOUT_S: Final = 0.5


class Rows(NamedTuple):
    """One transaction, as the file needs it."""

    changed: list[tuple[str, bytes | None, int, int, int, int, int]]
    gone: list[tuple[str]]
    zxid: int


def rows_of(changes: Changes, tree: Tree) -> Rows:
    """What has to be written so that `tree` with these changes survives a restart."""
    rows = Rows([], [], tree.zxid)
    for path, entry in changes.items():
        before = tree.entries.get(path)
        if entry is None or entry.stat.ephemeral_owner:
            if before is not None and not before.stat.ephemeral_owner:
                rows.gone.append((path,))
        elif before is None or before[:3] != entry[:3]:  # a child count is not written
            data, (version, czxid, mzxid, ctime_ms, _), children_made, _ = entry
            rows.changed.append((path, data, version, czxid, mzxid, ctime_ms, children_made))
    return rows


def _keep_private(path: Path) -> None:
    """Let nobody else read the file, nor those that SQLite makes beside it with its permissions."""
    # One that is there is not opened: to close it again would drop the locks of whoever uses it.
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        file = path.with_name(name)
        with suppress(FileNotFoundError, PermissionError):
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & 0o077:
                file.chmod(mode & 0o700)


class Database:
    """An open file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path, *, fsync: bool) -> Self:
        """Open or create the file; UsageError says in one sentence why that cannot be."""
        if not path.parent.is_dir():
            raise UsageError(f"the store {path} cannot be made: {path.parent} is not a directory")
        with _refusing(path):
            _keep_private(path)
            connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None)
        try:
            with _refusing(path):
                _prepare(connection, path, fsync=fsync)
        except BaseException:
            connection.close()
            raise
        return cls(path, connection)

    def load(self) -> Tree:
        """All nodes."""
        with collector.paused(), _refusing(self._path):
            (zxid,) = self._connection.execute("SELECT zxid FROM counter").fetchone()
            entries = {
                path: Entry(data, Stat(version, czxid, mzxid, ctime_ms), children_made)
                for path, data, version, czxid, mzxid, ctime_ms, children_made in (
                    self._connection.execute("SELECT * FROM node")
                )
            }
            try:
                return Tree(entries, zxid)
            except KeyError as missing:
                raise UsageError(
                    f"the store {self._path} is damaged: {missing} has children, but is not there"
                ) from missing

    def commit(self, rows: Rows) -> None:
        """Write one transaction; StoreUnavailable where the disk refuses."""
        run = self._connection
        try:
            run.execute("BEGIN IMMEDIATE")
            run.executemany("DELETE FROM node WHERE path = ?", rows.gone)
            run.executemany("REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?)", rows.changed)
            run.execute("UPDATE counter SET zxid = ?", (rows.zxid,))
            run.execute("COMMIT")
        except sqlite3.Error as error:
            if run.in_transaction:
                run.execute("ROLLBACK")
            raise StoreUnavailable(f"the store {self._path} cannot be written: {error}") from error

    def close(self) -> None:
        self._connection.close()


def _prepare(connection: sqlite3.Connection, path: Path, *, fsync: bool) -> None:
    # Exclusive before WAL: then SQLite needs no shared memory, and a second process is refused.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'OFF'}")
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0:
        connection.executescript(
            _SCHEMA.format(application_id=_APPLICATION_ID, version=_SCHEMA_VERSION)
        )
    elif application_id != _APPLICATION_ID:
        raise UsageError(f"{path} is a SQLite database, but not a klamm store")
    elif version > _SCHEMA_VERSION:
        raise UsageError(f"the store {path} was written by a newer klamm (version {version})")
    # Takes the lock now instead of at the first write.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("COMMIT")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith("SQLITE_BUSY"):
            raise UsageError(f"the store {path} is in use by another process") from error
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise UsageError(f"the store {path} is damaged: {error}") from error
        raise UsageError(f"the store {path} cannot be opened: {error}") from error
