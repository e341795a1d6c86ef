"""The embedded store: the contract, and what only it promises."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings

from klamm.model.errors import InvariantBroken, StoreUnavailable, UsageError
from klamm.store.database import read_copy
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Check, Create, Delete, Node, SetData
from unit.store.contract import Bell, StoreContract, connected
from unit.store.tiny_model import Comparison, Step, plans, plans_with_restarts


class TestInMemory(StoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[EmbeddedStore]:
        store = EmbeddedStore.open(None)
        yield store
        await store.close()


class TestOnDisk(StoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[EmbeddedStore]:
        folder = tempfile.mkdtemp()
        store = EmbeddedStore.open(Path(folder) / "store.db")
        try:
            yield store
        finally:
            await store.close()
            shutil.rmtree(folder)


@contextmanager
def worker_held(store: EmbeddedStore) -> Iterator[None]:
    """Keep the store's thread from committing anything."""
    release = threading.Event()
    held = store._worker.submit(release.wait)
    try:
        yield
    finally:
        release.set()
        held.result()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def test_everything_but_ephemeral_nodes_survives_a_restart(path: Path) -> None:
    store = EmbeddedStore.open(path)
    session = await store.connect()
    await session.multi([Create("/p", b"1"), Create("/p/null"), Create("/p/empty", b"")])
    await session.multi([SetData("/p", b"2"), Create("/p/n_", b"x", sequential=True)])
    await session.multi([Create("/p/e", ephemeral=True), Create("/gone")])
    await session.multi([Delete("/gone")])
    # Persistent, then ephemeral, in one transaction and in two.
    await session.multi([Create("/once"), Delete("/once"), Create("/once", ephemeral=True)])
    await session.multi([Create("/twice")])
    await session.multi([Delete("/twice"), Create("/twice", ephemeral=True)])
    kept = ["/p", "/p/null", "/p/empty", "/p/n_0000000002"]
    before = await session.get_many(kept)
    await store.close()

    again = EmbeddedStore.open(path)
    session = await again.connect()
    assert await session.children("/") == ("p",)
    assert await session.children("/p") == ("empty", "n_0000000002", "null")
    assert await session.get_many(kept) == before
    (next_one,) = await session.multi([Create("/p/n_", sequential=True)])
    assert next_one.path == "/p/n_0000000004"  # the ephemeral child had been counted
    await again.close()


def test_a_broker_epoch_rises_over_restarts(path: Path) -> None:
    async def register() -> int:
        store = EmbeddedStore.open(path, fsync=False)
        session = await store.connect()
        (made,) = await session.multi([Create("/broker", ephemeral=True)])
        await store.close()
        assert made.stat is not None
        return made.stat.czxid

    epochs = [asyncio.run(register()) for _ in range(4)]
    assert epochs == sorted(set(epochs))


async def test_nobody_sees_a_write_before_it_is_durable(path: Path) -> None:
    store = EmbeddedStore.open(path)
    async with connected(store) as writer, connected(store) as reader:
        bell = Bell()
        reader.watch_node("/n", bell)
        with worker_held(store):
            writing = asyncio.ensure_future(writer.multi([Create("/n")]))
            for _ in range(20):
                await asyncio.sleep(0)
            assert await reader.get("/n") is None
            assert await writer.get("/n") is None
            assert await reader.children("/") == ()
            assert not writing.done()
            assert bell.count == 0
        await bell.wait()
        assert await reader.get("/n") is not None
        await writing
    await store.close()


async def test_what_queues_during_a_commit_becomes_one_commit(path: Path) -> None:
    store = EmbeddedStore.open(path)
    async with connected(store) as session:
        await session.multi([Create("/n", b"")])
        with worker_held(store):
            first = asyncio.ensure_future(session.multi([SetData("/n", b"first", 0)]))
            await asyncio.sleep(0)
            before = store.commits_count
            # Each is judged in its turn: of these, the first of each version wins.
            rest = [
                asyncio.ensure_future(session.multi([SetData("/n", b"", 1 + i // 10)]))
                for i in range(500)
            ]
            await asyncio.sleep(0)
        await first
        won = [all(r.ok for r in await done) for done in rest]
        assert won == [i % 10 == 0 for i in range(500)]
        assert store.commits_count - before == 2
    await store.close()


async def test_a_write_the_disk_refuses_never_happened(path: Path) -> None:
    store = EmbeddedStore.open(path)
    async with connected(store) as session, connected(store) as reader:
        (made,) = await session.multi([Create("/n", b"kept")])
        one = await store.connect()
        await one.multi([Create("/e", ephemeral=True)])
        bell = Bell()
        reader.watch_node("/n", bell)
        _limit_pages(store, 8)
        big = asyncio.ensure_future(session.multi([SetData("/n", b"x" * 1_000_000)]))
        ended = asyncio.ensure_future(one.close())
        with pytest.raises(StoreUnavailable, match="full"):
            await big
        await ended  # a session ends even so
        assert await reader.get("/n") == Node(b"kept", made.stat)
        assert await reader.get("/e") is None
        assert bell.count == 0
        _limit_pages(store, 1_000_000)
        (again,) = await session.multi([SetData("/n", b"x" * 1_000_000, 0)])
        assert again.ok
    await store.close()


def _limit_pages(store: EmbeddedStore, pages: int) -> None:
    def limit() -> None:
        assert store._database is not None
        store._database._connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    store._worker.submit(limit).result()


async def test_a_cancelled_write_that_was_still_queued_is_not_done(path: Path) -> None:
    store = EmbeddedStore.open(path)
    async with connected(store) as session:
        with worker_held(store):
            first = asyncio.ensure_future(session.multi([Create("/first")]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            second = asyncio.ensure_future(session.multi([Create("/second")]))
            await asyncio.sleep(0)
            second.cancel()
        await first
        await session.multi([Create("/third")])
        assert await session.children("/") == ("first", "third")
    await store.close()


async def test_a_killed_session_does_nothing_that_is_still_queued(path: Path) -> None:
    store = EmbeddedStore.open(path)
    session = await store.connect()
    with worker_held(store):
        first = asyncio.ensure_future(session.multi([Create("/first")]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = asyncio.ensure_future(session.multi([Create("/second")]))
        killing = asyncio.ensure_future(session.kill())
        await asyncio.sleep(0)
    await first
    with pytest.raises(StoreUnavailable):
        await second
    await killing
    async with connected(store) as other:
        assert await other.children("/") == ("first",)
    await store.close()


async def test_a_hint_can_take_off_the_next_one() -> None:
    store = EmbeddedStore.open(None)
    async with connected(store) as session:
        quiet, loud = Bell(), Bell()
        session.watch_node("/n", lambda: off())
        off = session.watch_node("/n", quiet)
        session.watch_node("/n", loud)
        await session.multi([Create("/n")])
        await loud.wait()
        assert quiet.count == 0
    await store.close()


@pytest.mark.parametrize(
    "op",
    [
        Create(""),
        Create("a"),
        Create("/"),
        Create("/a/"),
        Create("//a", sequential=True),
        Delete("/"),
        Check("a", 0),
        SetData("/a/", b""),
    ],
)
async def test_what_is_no_path_is_refused_and_the_store_goes_on(
    op: Create | Delete | Check,
) -> None:
    store = EmbeddedStore.open(None)
    async with connected(store) as session:
        with pytest.raises(InvariantBroken):
            await session.multi([op])
        assert (await session.multi([Create("/a")]))[0].ok
    await store.close()


def test_stores_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    async def scenario(name: str) -> tuple[str, ...] | None:
        store = EmbeddedStore.open(tmp_path / name, fsync=False)
        async with connected(store) as session:
            for i in range(20):
                await session.multi([Create(f"/{name}{i}")])
            children = await session.children("/")
        await store.close()
        return children

    async def both() -> list[tuple[str, ...] | None]:
        return await asyncio.gather(scenario("a"), scenario("b"))

    in_thread: list[tuple[str, ...] | None] = []
    thread = threading.Thread(target=lambda: in_thread.append(asyncio.run(scenario("c"))))
    thread.start()
    a, b = asyncio.run(both())
    thread.join()
    assert [a, b, *in_thread] == [
        tuple(sorted(f"{name}{i}" for i in range(20))) for name in ("a", "b", "c")
    ]


def _fails_to_open(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        EmbeddedStore.open(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_file_in_use_is_refused(path: Path) -> None:
    store = EmbeddedStore.open(path)
    assert "in use" in _fails_to_open(path)
    asyncio.run(store.close())
    asyncio.run(EmbeddedStore.open(path).close())


def test_a_file_of_something_else_is_refused(path: Path) -> None:
    path.write_bytes(b"these are no pages of a database" * 1000)
    assert "damaged" in _fails_to_open(path)


def test_a_damaged_file_is_refused(path: Path) -> None:
    async def fill() -> None:
        store = EmbeddedStore.open(path)
        async with connected(store) as session:
            await session.multi([Create(f"/{i}", b"x" * 100) for i in range(1000)])
        await store.close()

    asyncio.run(fill())
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    assert "damaged" in _fails_to_open(path)


def test_a_node_without_a_parent_is_damage(path: Path) -> None:
    asyncio.run(EmbeddedStore.open(path).close())
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO node VALUES ('/a/b', NULL, 0, 1, 1, 0, 0, 1, 0, NULL, 0, 0, 0)")
    connection.commit()
    connection.close()
    assert "'/a' has children, but is not there" in _fails_to_open(path)


def test_somebody_elses_database_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (c)")
    connection.close()
    assert "not a klamm store" in _fails_to_open(path)


def test_a_file_of_a_newer_klamm_is_refused(path: Path) -> None:
    asyncio.run(EmbeddedStore.open(path).close())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "newer klamm" in _fails_to_open(path)


def test_a_folder_or_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "cannot be opened" in _fails_to_open(tmp_path)
    assert "is not a directory" in _fails_to_open(tmp_path / "missing" / "store.db")


@given(plans)
@settings(deadline=None)
def test_in_memory_it_does_what_the_model_does(plan: list[Step]) -> None:
    async def scenario() -> None:
        store = EmbeddedStore.open(None)
        await Comparison(store).follow(plan)
        await store.close()

    asyncio.run(scenario())


@given(plans_with_restarts)
@settings(deadline=None)
def test_on_disk_and_over_restarts_it_does_what_the_model_does(plan: list[Step]) -> None:
    async def scenario(path: Path) -> None:
        store = EmbeddedStore.open(path, fsync=False)

        async def reopen() -> EmbeddedStore:
            nonlocal store
            await store.close()
            store = EmbeddedStore.open(path, fsync=False)
            return store

        try:
            await Comparison(store, reopen).follow(plan)
        finally:
            await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder) / "store.db"))


_FIRST_SCHEMA = """
CREATE TABLE node (
    path TEXT PRIMARY KEY, data BLOB, version INTEGER NOT NULL, czxid INTEGER NOT NULL,
    mzxid INTEGER NOT NULL, ctime_ms INTEGER NOT NULL, children_made INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter (zxid INTEGER NOT NULL);
INSERT INTO counter VALUES (7);
INSERT INTO node VALUES ('/', X'', 0, 0, 0, 0, 1), ('/p', X'31', 2, 3, 5, 1000, 4);
PRAGMA application_id = 1802264941;
PRAGMA user_version = 1;
"""


@pytest.mark.parametrize("serving", [False, True])
async def test_a_file_of_the_first_version_is_taken_over(path: Path, serving: bool) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_FIRST_SCHEMA)
    copied = read_copy(path)  # as a back-up is: nothing is written to it
    store = EmbeddedStore.open(path, serving=serving)
    session = await store.connect()
    assert copied.entries == store.tree.entries
    entry = store.tree.entries["/p"]
    assert (entry.data, entry.pzxid, entry.mtime_ms, entry.children_made) == (b"1", 3, 1000, 4)
    (made,) = await session.multi([Create("/p/n", sequential=True)])
    assert made.path == "/p/n0000000004"
    await store.close()
    again = EmbeddedStore.open(path)
    assert again.tree.entries["/p"].pzxid == 8
    await again.close()
