"""A store's file, read while its owner writes."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from klamm.model.errors import UsageError
from klamm.store import peeking
from klamm.store.database import Database
from klamm.store.embedded import EmbeddedStore
from klamm.store.peeking import peek, stamp
from klamm.store.port import Create, SetData

WRITES = 300
SIZE = 40_000  # more than a page


async def test_what_is_read_while_others_write_is_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = EmbeddedStore.open(path, fsync=False)
    session = await store.connect()
    await session.multi([Create("/a", b"0"), Create("/b", b"0")])

    async def write() -> None:
        filler = b"x" * SIZE  # so that the log is moved into the file and begins anew
        for number in range(WRITES):
            text = b"%d " % number + filler
            await session.multi([SetData("/a", text), SetData("/b", text)])

    writing = asyncio.ensure_future(write())
    seen = []
    while not writing.done():
        tree = await asyncio.to_thread(peek, path)
        first, second = tree.entries["/a"], tree.entries["/b"]
        assert first.data == second.data
        assert first.stat.version == second.stat.version
        seen.append(first.stat.version)
    await writing
    assert seen == sorted(seen)
    assert peek(path).entries["/a"].stat.version == WRITES
    await store.close()


def test_a_log_that_begins_anew_between_the_copies_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of one moment and the log of a later one would make a store that never was."""
    path = tmp_path / "store.db"
    writer = sqlite3.connect(path, isolation_level=None)
    Database.open(path, fsync=False).close()
    writer.execute("PRAGMA journal_mode = WAL")
    for name in ("/", "/a", "/b"):
        writer.execute(
            "REPLACE INTO node VALUES (?, ?, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0)",
            (name, b"0" * SIZE),
        )
    copied: list[Path] = []

    def copy(source: Path, target: Path) -> None:
        shutil.copyfile(source, target)
        copied.append(source)
        if len(copied) == 1:
            writer.execute("UPDATE node SET data = ?", (b"1" * SIZE,))
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            writer.execute("UPDATE node SET data = ? WHERE path = '/b'", (b"2" * SIZE,))

    monkeypatch.setattr(peeking, "shutil", SimpleNamespace(copyfile=copy))
    found = peek(path).entries
    writer.close()
    assert [found[name].data for name in ("/a", "/b")] == [b"1" * SIZE, b"2" * SIZE]


async def test_nothing_is_changed_by_looking(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = EmbeddedStore.open(path, fsync=False)
    session = await store.connect()
    await session.multi([Create("/a", b"0")])
    before = stamp(path), _names(tmp_path)
    assert peek(path).entries["/a"].data == b"0"
    assert (stamp(path), _names(tmp_path)) == before
    await session.multi([Create("/b")])
    assert stamp(path) != before[0]
    await store.close()


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("content", [None, b"", b"no database at all, but long enough to be one"])
def test_what_is_no_store_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "store.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=str(path)):
        peek(path)


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(UsageError, match="not a klamm store"):
        peek(path)
