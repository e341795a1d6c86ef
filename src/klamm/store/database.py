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
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from klamm import collector
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.store.port import Stat
from klamm.store.presence import Presence, StoreLost
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
# What SQLite says of a file that is not what it was.
_DAMAGE: Final = (
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
    "SQLITE_READONLY_DBMOVED",
    "SQLITE_IOERR_SHORT_READ",
)
# Long enough for a predecessor that is just going away.
_LOCK_TIMEOUT_S: Final = 0.5


class Rows(NamedTuple):
    """One transaction, as the file needs it."""

    changed: list[tuple[str, bytes | None, int, int, int, int, int]]
    gone: list[tuple[str]]
    zxid: int


def rows_of(changes: Changes, tree: Tree) -> Rows:
    """The rows to write so that `tree` with these changes survives a restart."""
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
        self._presence = Presence(path)

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
            return cls(path, connection)
        except BaseException:
            connection.close()
            raise

    def load(self) -> Tree:
        """All nodes."""
        return _load(self._connection, self._path)

    def commit(self, rows: Rows) -> None:
        """Write one transaction; StoreUnavailable where the disk refuses, StoreLost for good."""
        run = self._connection
        self.look()
        try:
            run.execute("BEGIN IMMEDIATE")
            run.executemany("DELETE FROM node WHERE path = ?", rows.gone)
            run.executemany("REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?)", rows.changed)
            run.execute("UPDATE counter SET zxid = ?", (rows.zxid,))
            run.execute("COMMIT")
        except sqlite3.Error as error:
            if run.in_transaction:
                run.execute("ROLLBACK")
            raise self._refusal(error, "written") from error
        self.look()

    @property
    def zxid(self) -> int:
        """The last transaction that was written."""
        try:
            (zxid,) = self._connection.execute("SELECT zxid FROM counter").fetchone()
        except sqlite3.Error as error:
            raise self._refusal(error, "read") from error
        return int(zxid)

    def look(self) -> None:
        """Raise StoreLost when the file is no longer the one that was opened."""
        self._presence.look()

    def copy_to(self, target: Path) -> None:
        """Write all nodes into an empty file, which is a store then."""
        self.look()
        try:
            self._connection.execute("VACUUM INTO ?", (str(target),))
        except sqlite3.Error as error:
            raise self._refusal(error, "copied") from error

    def _refusal(self, error: sqlite3.Error, verb: str) -> StoreUnavailable:
        if getattr(error, "sqlite_errorname", "").startswith(_DAMAGE):
            return StoreLost(f"the store {self._path} is lost: its file is damaged ({error})")
        return StoreUnavailable(f"the store {self._path} cannot be {verb}: {error}")

    def close(self) -> None:
        self._connection.close()


def read_copy(path: Path) -> Tree:
    """All nodes of a store that nobody has open, without changing its file.

    UsageError says what is wrong with it.
    """
    with _refusing(path):
        address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            if application_id != _APPLICATION_ID:
                raise UsageError(f"{path} is not a klamm store")
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise UsageError(f"the store {path} is damaged: {verdict}")
            return _load(connection, path)


def write_copy(path: Path, entries: Mapping[str, Entry], zxid: int) -> None:
    """Write nodes into an empty file, which is a store then; ephemeral ones are left out."""
    rows = [
        (name, data, stat.version, stat.czxid, stat.mzxid, stat.ctime_ms, children_made)
        for name, (data, stat, children_made, _) in entries.items()
        if not stat.ephemeral_owner
    ]
    with _refusing(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")  # the file counts when it is whole
        connection.execute("PRAGMA synchronous = OFF")  # and the caller brings it to the disk
        connection.executescript(_schema())
        connection.execute("BEGIN")
        connection.executemany("REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute("UPDATE counter SET zxid = ?", (zxid,))
        connection.execute("COMMIT")


def _schema() -> str:
    return _SCHEMA.format(application_id=_APPLICATION_ID, version=_SCHEMA_VERSION)


def _load(connection: sqlite3.Connection, path: Path) -> Tree:
    with collector.paused(), _refusing(path):
        (zxid,) = connection.execute("SELECT zxid FROM counter").fetchone()
        entries = {
            name: Entry(data, Stat(version, czxid, mzxid, ctime_ms), children_made)
            for name, data, version, czxid, mzxid, ctime_ms, children_made in (
                connection.execute("SELECT * FROM node")
            )
        }
        try:
            return Tree(entries, zxid)
        except KeyError as missing:
            raise UsageError(
                f"the store {path} is damaged: {missing} has children, but is not there"
            ) from missing


def _prepare(connection: sqlite3.Connection, path: Path, *, fsync: bool) -> None:
    # Exclusive before WAL: then SQLite needs no shared memory, and a second process is refused.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'OFF'}")
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0:
        connection.executescript(_schema())
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
