"""The embedded store's file: SQLite, opened by one process at a time.

A transaction is on the disk when its commit returns: write-ahead log, and an fsync for each commit
unless that was switched off. The transaction counter is written with every commit, so that a broker
which registers again always gets a higher epoch than any before.

Ephemeral nodes are written only where the store is served to other processes: their sessions go on
after a restart. Elsewhere nobody could own them.

Use from one thread only.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from klamm import gc_pause
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.store.access import OPEN, Acl, Grant
from klamm.store.port import Stat
from klamm.store.presence import StoreFiles, StoreLost
from klamm.store.tree import Draft, Entry, Tree

_APPLICATION_ID: Final = int.from_bytes(b"klam", "big")
_SCHEMA_VERSION: Final = 2
_SCHEMA: Final = """
BEGIN;
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    data BLOB,
    version INTEGER NOT NULL,
    czxid INTEGER NOT NULL,
    mzxid INTEGER NOT NULL,
    ctime_ms INTEGER NOT NULL,
    children_made INTEGER NOT NULL,
    pzxid INTEGER NOT NULL,
    mtime_ms INTEGER NOT NULL,
    acl TEXT,
    aversion INTEGER NOT NULL,
    is_container INTEGER NOT NULL,
    owner INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE session (id INTEGER PRIMARY KEY, timeout_ms INTEGER NOT NULL);
CREATE TABLE serving (secret BLOB NOT NULL);
CREATE TABLE counter (zxid INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
PRAGMA application_id = {application_id};
PRAGMA user_version = {version};
COMMIT;
"""
_FROM_1: Final = """
BEGIN;
ALTER TABLE node ADD COLUMN pzxid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN mtime_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN acl TEXT;
ALTER TABLE node ADD COLUMN aversion INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN is_container INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;
UPDATE node SET pzxid = czxid, mtime_ms = ctime_ms;
CREATE TABLE session (id INTEGER PRIMARY KEY, timeout_ms INTEGER NOT NULL);
CREATE TABLE serving (secret BLOB NOT NULL);
PRAGMA user_version = 2;
COMMIT;
"""
_COLUMNS: Final = {
    1: "path, data, version, czxid, mzxid, ctime_ms, children_made, czxid, ctime_ms, NULL, 0, 0, 0",
    2: "path, data, version, czxid, mzxid, ctime_ms, children_made, pzxid, mtime_ms, acl, aversion,"
    " is_container, owner",
}
_PUT: Final = "REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SECRET_SIZE: Final = 32
# What SQLite says of a file that is not what it was.
_DAMAGE: Final = (
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
    "SQLITE_READONLY_DBMOVED",
    "SQLITE_IOERR_SHORT_READ",
)
# Long enough for a predecessor that is just going away.
_LOCK_TIMEOUT_S: Final = 0.5


_Row = tuple[str, bytes | None, int, int, int, int, int, int, int, str | None, int, bool, int]


class Rows(NamedTuple):
    """One transaction, as the file needs it; what is gone goes first."""

    changed: list[_Row]
    gone: list[tuple[str]]
    zxid: int
    sessions: list[tuple[int, int]]
    sessions_gone: list[tuple[int]]


def rows_of(draft: Draft, tree: Tree, *, with_owned: bool = False) -> Rows:
    """The rows to write so that `tree` with this draft survives a restart."""
    opened = [(id, timeout) for id, timeout in draft.sessions.items() if timeout is not None]
    ended = [(id,) for id, timeout in draft.sessions.items() if timeout is None]
    rows = Rows([], [], tree.zxid, opened, ended)
    for path, entry in draft.changes.items():
        before = tree.entries.get(path)
        if entry is None or (entry.stat.ephemeral_owner and not with_owned):
            if before is not None and (with_owned or not before.stat.ephemeral_owner):
                rows.gone.append((path,))
        elif before is None or before[:-1] != entry[:-1]:  # a child count is not written
            rows.changed.append(_row(path, entry))
    return rows


def _row(path: str, entry: Entry) -> _Row:
    data, known, made, pzxid, mtime_ms, acl, aversion, is_container, _ = entry
    version, czxid, mzxid, ctime_ms, owner = known
    text = None if acl is OPEN else json.dumps(acl)
    return (
        *(path, data, version, czxid, mzxid, ctime_ms, made),
        *(pzxid, mtime_ms, text, aversion, is_container, owner),
    )


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
        self._presence = StoreFiles(path)

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
            run.executemany(_PUT, rows.changed)
            run.executemany("DELETE FROM session WHERE id = ?", rows.sessions_gone)
            run.executemany("REPLACE INTO session VALUES (?, ?)", rows.sessions)
            run.execute("UPDATE counter SET zxid = ?", (rows.zxid,))
            run.execute("COMMIT")
        except sqlite3.Error as error:
            if run.in_transaction:
                run.execute("ROLLBACK")
            raise self._refusal(error, "written") from error
        self.look()

    def begin_serving(self, zxid: int) -> bytes:
        """Write where the counter goes on, whatever was said of fsync; the key of passwords."""
        run = self._connection
        try:
            (synchronous,) = run.execute("PRAGMA synchronous").fetchone()
            run.execute("PRAGMA synchronous = FULL")
            found = run.execute("SELECT secret FROM serving").fetchone()
            secret = bytes(found[0]) if found else secrets.token_bytes(_SECRET_SIZE)
            run.execute("BEGIN IMMEDIATE")
            run.execute("UPDATE counter SET zxid = ?", (zxid,))
            if not found:
                run.execute("INSERT INTO serving VALUES (?)", (secret,))
            run.execute("COMMIT")
            run.execute(f"PRAGMA synchronous = {synchronous}")
        except sqlite3.Error as error:
            if run.in_transaction:
                run.execute("ROLLBACK")
            raise self._refusal(error, "written") from error
        self.look()
        return secret

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
    rows = [_row(name, entry) for name, entry in entries.items() if not entry.stat.ephemeral_owner]
    with _refusing(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")  # the file counts when it is whole
        connection.execute("PRAGMA synchronous = OFF")  # and the caller brings it to the disk
        connection.executescript(_schema())
        connection.execute("BEGIN")
        connection.executemany(_PUT, rows)
        connection.execute("UPDATE counter SET zxid = ?", (zxid,))
        connection.execute("COMMIT")


def _schema() -> str:
    return _SCHEMA.format(application_id=_APPLICATION_ID, version=_SCHEMA_VERSION)


def _load(connection: sqlite3.Connection, path: Path) -> Tree:
    with gc_pause.paused(), _refusing(path):
        (zxid,) = connection.execute("SELECT zxid FROM counter").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        rows = connection.execute(f"SELECT {_COLUMNS[min(version, _SCHEMA_VERSION)]} FROM node")
        entries = _entries(rows, path)
        sessions: dict[int, int] = {}
        if version > 1:
            sessions = dict(connection.execute("SELECT id, timeout_ms FROM session"))
        try:
            return Tree(entries, zxid, sessions)
        except KeyError as missing:
            raise UsageError(
                f"the store {path} is damaged: {missing} has children, but is not there"
            ) from missing


def _entries(rows: Iterable[tuple[Any, ...]], path: Path) -> dict[str, Entry]:
    acls: dict[str | None, Acl] = {None: OPEN}
    entries: dict[str, Entry] = {}
    alike: dict[tuple[Any, ...], Entry] = {}  # a hundred thousand partitions have the same few
    for name, *columns in rows:
        content = tuple(columns)
        entry = alike.get(content)
        if entry is None:
            entry = alike[content] = _entry(content, acls, path)
        entries[name] = entry
    return entries


def _entry(content: tuple[Any, ...], acls: dict[str | None, Acl], path: Path) -> Entry:
    data, version, czxid, mzxid, ctime_ms, made, pzxid, mtime_ms, text, *more = content
    aversion, is_container, owner = more
    acl = acls.get(text)
    if acl is None:
        acl = acls[text] = _decoded_acl(text, path)
    known = Stat(version, czxid, mzxid, ctime_ms, owner)
    return Entry(data, known, made, pzxid, mtime_ms, acl, aversion, bool(is_container))


def _decoded_acl(text: str, path: Path) -> Acl:
    try:
        grants = json.loads(text)
        return tuple(Grant(int(perms), str(scheme), str(id)) for perms, scheme, id in grants)
    except (ValueError, TypeError) as fault:
        raise UsageError(f"the store {path} is damaged: {text!r} is no list of grants") from fault


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
    elif version == 1:
        connection.executescript(_FROM_1)
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
