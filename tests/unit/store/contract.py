"""What every store must do. A store's own test module subclasses `StoreContract`.

Nothing here knows which store it drives, and nothing sleeps: where something has to come, a test
waits for a hint, and where nothing may come, it waits for a later one first.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import pytest

from klamm.model.errors import StoreUnavailable
from klamm.store.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    Outcome,
    Session,
    SessionState,
    SetData,
    Store,
)

WAIT_S = 20  # far more than anything here takes


class ExpirableSession(Session, Protocol):
    """A session that tests can end the hard way."""

    async def expire(self) -> None: ...


class Bell:
    """A hint to hand in, and to wait for."""

    def __init__(self) -> None:
        self.count = 0
        self._rung = asyncio.Event()

    def __call__(self, *_: object) -> None:
        self.count += 1
        self._rung.set()

    async def wait(self) -> None:
        """Wait for a hint that came after the last wait."""
        async with asyncio.timeout(WAIT_S):
            await self._rung.wait()
        self._rung.clear()


async def until(holds: Callable[[], Awaitable[bool]], bell: Bell) -> None:
    """Wait for hints until something holds."""
    while not await holds():
        await bell.wait()


@asynccontextmanager
async def connected(store: Store) -> AsyncIterator[ExpirableSession]:
    session = await store.connect()
    try:
        yield session  # type: ignore[misc]
    finally:
        await session.close()


class StoreContract(ABC):
    """The suite. Each test opens a store that nobody has written to."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[Store]:
        """An empty store, closed afterwards."""

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ExpirableSession]:
        async with self.opened() as store, connected(store) as session:
            yield session

    @asynccontextmanager
    async def two(self) -> AsyncIterator[tuple[ExpirableSession, ExpirableSession]]:
        async with self.opened() as store, connected(store) as one, connected(store) as other:
            yield one, other

    async def test_an_empty_store_has_its_root(self) -> None:
        async with self.session() as session:
            assert await session.children("/") == ()
            assert await session.get("/") is not None
            assert await session.get("/a") is None
            assert await session.children("/a") is None

    @pytest.mark.parametrize("data", [None, b"", b"x", bytes(range(256)) * 40])
    async def test_what_is_created_can_be_read(self, data: bytes | None) -> None:
        async with self.session() as session:
            (result,) = await session.multi([Create("/a", data)])
            node = await session.get("/a")
            assert result.ok
            assert result.path == "/a"
            assert node == Node(data, result.stat)
            assert node.stat.version == 0
            assert node.stat.czxid == node.stat.mzxid > 0
            assert node.stat.ephemeral_owner == 0
            assert node.stat.ctime_ms > 1_600_000_000_000

    @pytest.mark.parametrize("data", [None, b"", b"new"])
    async def test_setting_data_raises_the_version(self, data: bytes | None) -> None:
        async with self.session() as session:
            (made,) = await session.multi([Create("/a", b"old")])
            (result,) = await session.multi([SetData("/a", data, 0)])
            node = await session.get("/a")
            assert made.stat is not None
            assert node == Node(data, result.stat)
            assert node.stat.version == 1
            assert node.stat.mzxid > node.stat.czxid == made.stat.czxid
            assert node.stat.ctime_ms == made.stat.ctime_ms

    async def test_the_version_must_be_the_one_named(self) -> None:
        async with self.session() as session:
            await session.multi([Create("/a", b"0")])
            for op in (SetData("/a", b"1", 7), Delete("/a", 7), Check("/a", 7)):
                (result,) = await session.multi([op])
                assert result.outcome is Outcome.BAD_VERSION, op
            for good in (Check("/a", 0), SetData("/a", b"1", 0), SetData("/a", b"2", ANY_VERSION)):
                (result,) = await session.multi([good])
                assert result.ok, good
            assert (await session.multi([Check("/a", 2), Delete("/a", 2)]))[1].ok
            assert await session.get("/a") is None

    async def test_what_is_not_there_cannot_be_changed(self) -> None:
        async with self.session() as session:
            for op in (
                SetData("/a", b""),
                Delete("/a"),
                Check("/a", 0),
                Check("/a", ANY_VERSION),
                Create("/a/b"),
                Create("/a/b-", sequential=True),
            ):
                (result,) = await session.multi([op])
                assert result.outcome is Outcome.NO_NODE, op

    async def test_a_node_is_created_once(self) -> None:
        async with self.session() as session:
            await session.multi([Create("/a", b"first")])
            (result,) = await session.multi([Create("/a", b"second")])
            node = await session.get("/a")
            assert result.outcome is Outcome.NODE_EXISTS
            assert node is not None
            assert node.data == b"first"

    async def test_a_node_with_children_stays(self) -> None:
        async with self.session() as session:
            await session.multi([Create("/a"), Create("/a/b")])
            (result,) = await session.multi([Delete("/a")])
            assert result.outcome is Outcome.NOT_EMPTY
            assert all(r.ok for r in await session.multi([Delete("/a/b"), Delete("/a")]))
            assert await session.children("/") == ()

    async def test_children_are_sorted_names(self) -> None:
        async with self.session() as session:
            names = ["b", "a", "é", "10", "9", "A", "b-c"]
            await session.multi([Create("/p"), *(Create(f"/p/{name}") for name in names)])
            await session.multi([Create("/p/a/below"), Create("/pq")])
            assert await session.children("/p") == tuple(sorted(names))

    @pytest.mark.parametrize("failing", range(3))
    async def test_a_multi_happens_whole_or_not_at_all(self, failing: int) -> None:
        async with self.session() as session:
            await session.multi([Create("/fence"), Create("/old", b"0"), Create("/gone")])
            ops = [Create("/new"), SetData("/old", b"1"), Delete("/gone")]
            ops.insert(failing, Check("/fence", 9))
            results = await session.multi(ops)
            expected = [Outcome.ROLLED_BACK] * 4
            expected[failing] = Outcome.BAD_VERSION
            assert [r.outcome for r in results] == expected
            assert await session.children("/") == ("fence", "gone", "old")
            old = await session.get("/old")
            assert old is not None
            assert (old.data, old.stat.version) == (b"0", 0)

    async def test_an_operation_sees_what_came_before_it_in_its_multi(self) -> None:
        async with self.session() as session:
            # The second pair is how Kafka registers a broker: the set's answer has the czxid.
            results = await session.multi(
                [
                    Create("/a"),
                    Create("/a/b", ephemeral=True),
                    SetData("/a/b", b"registered", 0),
                    Create("/a/c"),
                    Delete("/a/c"),
                    Create("/a/c", b"again"),
                ]
            )
            assert all(r.ok for r in results)
            node = await session.get("/a/b")
            assert node == Node(b"registered", results[2].stat)
            assert node.stat.version == 1
            assert await session.children("/a") == ("b", "c")

    async def test_a_multi_is_one_transaction_and_the_next_one_a_higher(self) -> None:
        async with self.session() as session:
            first = await session.multi([Create("/a"), Create("/b"), Create("/c")])
            second = await session.multi([SetData("/a", b""), Delete("/b"), Create("/d")])
            assert len({r.stat.czxid for r in first if r.stat}) == 1
            assert second[0].stat is not None
            assert second[2].stat is not None
            assert first[0].stat is not None
            assert second[0].stat.mzxid == second[2].stat.czxid > first[0].stat.czxid

    async def test_a_node_made_again_has_a_higher_czxid(self) -> None:
        async with self.session() as session:
            epochs = []
            for _ in range(5):
                (made,) = await session.multi([Create("/a", ephemeral=True)])
                assert made.stat is not None
                epochs.append(made.stat.czxid)
                await session.multi([Delete("/a")])
            assert epochs == sorted(set(epochs))

    async def test_an_empty_multi_is_fine(self) -> None:
        async with self.session() as session:
            assert await session.multi([]) == ()
            assert await session.multis([]) == []
            assert await session.get_many([]) == []

    async def test_sequential_names_count_every_child_ever_made(self) -> None:
        async with self.session() as session:
            sequential = Create("/p/n_", sequential=True)
            results = await session.multi([Create("/p"), sequential, Create("/p/x"), sequential])
            assert [r.path for r in results[1::2]] == ["/p/n_0000000000", "/p/n_0000000002"]
            await session.multi([Delete(results[1].path), Delete("/p/x"), Delete(results[3].path)])
            (third,) = await session.multi([Create("/p/", b"d", sequential=True)])
            assert third.path == "/p/0000000003"
            assert await session.get("/p/0000000003") == Node(b"d", third.stat)

    async def test_sequential_numbers_are_never_given_twice(self) -> None:
        async with self.two() as (one, other):
            await one.multi([Create("/p")])
            ops = [[Create("/p/n_", sequential=True)]] * 50
            both = await asyncio.gather(one.multis(ops), other.multis(ops))
            paths = [r.path for results in both for (r,) in results]
            assert sorted(paths) == [f"/p/n_{i:010d}" for i in range(100)]

    async def test_an_ephemeral_node_names_its_owner_and_has_no_children(self) -> None:
        async with self.two() as (one, other):
            await one.multi([Create("/e", b"mine", ephemeral=True)])
            node = await other.get("/e")
            assert node is not None
            assert node.stat.ephemeral_owner == one.id != other.id
            (result,) = await other.multi([Create("/e/below")])
            assert result.outcome is Outcome.NO_CHILDREN_FOR_EPHEMERALS

    @pytest.mark.parametrize("how", ["close", "expire", "kill"])
    async def test_ephemeral_nodes_go_with_their_session(self, how: str) -> None:
        async with self.opened() as store, connected(store) as other:
            one = await store.connect()
            await one.multi([Create("/p")])
            await one.multi([Create(f"/p/{i}", ephemeral=True) for i in range(20)])
            await one.multi([Create("/p/stays"), Create("/p/e", ephemeral=True), Delete("/p/0")])
            await other.multi([Create("/p/others", ephemeral=True)])
            bell = Bell()
            other.watch_children("/p", bell)
            await getattr(one, how)()
            await until(lambda: _children_are(other, "/p", ("others", "stays")), bell)

    async def test_an_ephemeral_node_taken_over_does_not_go_with_its_first_owner(self) -> None:
        async with self.opened() as store, connected(store) as other:
            one = await store.connect()
            await one.multi([Create("/e", ephemeral=True)])
            await other.multi([Delete("/e"), Create("/e", b"other's", ephemeral=True)])
            await one.close()
            node = await other.get("/e")
            assert node is not None
            assert node.stat.ephemeral_owner == other.id
            await other.close()
            async with connected(store) as third:
                assert await third.get("/e") is None

    async def test_closing_right_behind_writes_does_them_first(self) -> None:
        async with self.opened() as store, connected(store) as other:
            one = await store.connect()
            await one.multi([Create("/e", ephemeral=True)])
            writing = asyncio.gather(
                one.multi([Delete("/e")]), one.multi([Create("/f", ephemeral=True), Create("/p")])
            )
            await asyncio.sleep(0)
            await one.close()
            assert all(r.ok for results in await writing for r in results)
            assert await other.children("/") == ("p",)

    @pytest.mark.parametrize("how", ["close", "expire", "kill"])
    async def test_an_ended_session_answers_nothing(self, how: str) -> None:
        async with self.opened() as store:
            session = await store.connect()
            bell = Bell()
            if how == "expire":
                session.watch_state(bell)
            await getattr(session, how)()
            if how == "expire":
                await bell.wait()
            for call in (
                lambda: session.get("/"),
                lambda: session.get_many(["/"]),
                lambda: session.children("/"),
                lambda: session.multi([Create("/a")]),
                lambda: session.multis([[Create("/a")]]),
            ):
                with pytest.raises(StoreUnavailable):
                    await call()
            await session.close()

    async def test_only_an_expired_session_hears_so(self) -> None:
        async with self.opened() as store:
            heard: dict[str, list[SessionState]] = {"expire": [], "close": [], "kill": []}
            bell = Bell()
            for how in ("close", "kill", "expire"):
                session = await store.connect()
                session.watch_state(heard[how].append)
                session.watch_state(bell)
                await getattr(session, how)()
            await bell.wait()
            assert heard["expire"][-1] is SessionState.EXPIRED
            assert SessionState.EXPIRED not in heard["close"] + heard["kill"]

    async def test_closing_the_store_expires_its_sessions(self) -> None:
        async with self.opened() as store:
            session = await store.connect()
            bell = Bell()
            session.watch_state(bell)
            await store.close()
            await bell.wait()
            with pytest.raises(StoreUnavailable):
                await session.get("/")
            with pytest.raises(StoreUnavailable):
                await store.connect()
            await store.close()

    async def test_many_nodes_are_read_in_the_order_asked_for(self) -> None:
        async with self.session() as session:
            await session.multi([Create("/p")])
            ops = [Create(f"/p/{i}", b"%d" % i) for i in range(0, 2500, 2)]
            await session.multi(ops)
            paths = [f"/p/{i}" for i in range(2499, -1, -1)]
            nodes = await session.get_many([*paths, "/p/0"])
            read = [None if node is None else node.data for node in nodes]
            expected = [None if i % 2 else b"%d" % i for i in range(2499, -1, -1)]
            assert read == [*expected, b"0"]

    async def test_many_multis_happen_in_order_and_fail_alone(self) -> None:
        async with self.session() as session:
            await session.multi([Create("/n", b"0"), Create("/fence")])
            groups = [
                [Check("/fence", 9 if i % 7 == 3 else 0), SetData("/n", b"%d" % i)]
                for i in range(300)
            ]
            results = await session.multis(groups)
            failed = [i for i, group in enumerate(results) if not group[1].ok]
            node = await session.get("/n")
            assert failed == list(range(3, 300, 7))
            assert {results[i][0].outcome for i in failed} == {Outcome.BAD_VERSION}
            assert {results[i][1].outcome for i in failed} == {Outcome.ROLLED_BACK}
            assert node is not None
            assert (node.data, node.stat.version) == (b"299", 300 - len(failed))

    async def test_many_multis_see_each_other_in_order(self) -> None:
        async with self.session() as session:
            results = await session.multis(
                [
                    [Create("/p", b"0")],
                    [SetData("/p", b"1", 0), SetData("/p", b"2", 1), Create("/p/a")],
                    [Create("/p/b"), Create("/p/n_", sequential=True), SetData("/p", b"3", 2)],
                    [Delete("/p/a"), Delete("/p/b"), Check("/p", 3)],
                    [Delete("/p")],
                ]
            )
            assert [[r.outcome for r in group] for group in results] == [
                [Outcome.OK],
                [Outcome.OK] * 3,
                [Outcome.OK] * 3,
                [Outcome.OK] * 3,
                [Outcome.NOT_EMPTY],
            ]
            assert await session.children("/p") == ("n_0000000002",)

    async def test_of_two_writers_with_one_version_one_wins(self) -> None:
        async with self.two() as (one, other):
            await one.multi([Create("/n", b"")])
            for version in range(20):
                ops = [SetData("/n", b"", version)]
                results = await asyncio.gather(one.multi(ops), other.multi(ops))
                assert sorted(r.outcome for (r,) in results) == [Outcome.BAD_VERSION, Outcome.OK]

    async def test_a_watch_on_a_node_hints_at_every_change(self) -> None:
        async with self.two() as (one, other):
            bell = Bell()
            one.watch_node("/n", bell)
            assert await one.get("/n") is None
            for op in (
                Create("/n", b"1"),
                SetData("/n", b"2"),
                SetData("/n", b"3"),
                Delete("/n"),
                Create("/n", b"4"),
            ):
                await other.multi([op])
                data = None if isinstance(op, Delete) else op.data
                await bell.wait()
                await until(lambda data=data: _data_is(one, "/n", data), bell)

    async def test_a_watch_on_children_hints_at_every_change(self) -> None:
        async with self.two() as (one, other):
            bell = Bell()
            one.watch_children("/p", bell)
            assert await one.children("/p") is None
            for op, names in (
                (Create("/p"), ()),
                (Create("/p/a"), ("a",)),
                (Create("/p/b", ephemeral=True), ("a", "b")),
                (Delete("/p/a"), ("b",)),
                (Delete("/p/b"), ()),
                (Delete("/p"), None),
                (Create("/p"), ()),
            ):
                await other.multi([op])
                await bell.wait()
                await until(lambda names=names: _children_are(one, "/p", names), bell)

    async def test_no_change_is_missed_between_a_read_and_a_hint(self) -> None:
        async with self.two() as (one, other):
            await other.multi([Create("/n", b"0"), Create("/p")])
            node_bell, children_bell = Bell(), Bell()
            one.watch_node("/n", node_bell)
            one.watch_children("/p", children_bell)
            last = 200
            groups = [[SetData("/n", b"%d" % i), Create(f"/p/{i}")] for i in range(1, last + 1)]
            writing = asyncio.gather(other.multis(groups))
            await until(lambda: _data_is(one, "/n", b"%d" % last), node_bell)
            names = tuple(sorted(str(i) for i in range(1, last + 1)))
            await until(lambda: _children_are(one, "/p", names), children_bell)
            await writing

    async def test_a_watch_taken_off_is_silent_and_others_are_not(self) -> None:
        async with self.session() as session:
            quiet, loud = Bell(), Bell()
            offs = [session.watch_node("/n", quiet), session.watch_children("/", quiet)]
            session.watch_node("/n", loud)
            session.watch_children("/", loud)
            for off in offs:
                off()
                off()  # taking it off again changes nothing
            await session.multi([Create("/n", b"1")])
            await loud.wait()
            await session.multi([SetData("/n", b"2")])
            await loud.wait()
            assert quiet.count == 0

    async def test_a_watch_on_a_tree_names_every_node_that_changes(self) -> None:
        async with self.two() as (one, other):
            await other.multi([Create("/p"), Create("/p/a", b"1"), Create("/pp")])
            heard: set[str] = set()
            one.watch_tree("/p", heard.update)
            await one.children("/p")
            for op in (
                Create("/p/a/b", b"1"),
                SetData("/p/a", b"2"),
                SetData("/p/a/b", b"2"),
                Delete("/p/a/b"),
                Create("/p/c", ephemeral=True),
            ):
                await other.multi([op, SetData("/pp", b"")])
                # The answer to a write behind it comes behind the hint.
                await one.multi([Create("/n"), Delete("/n")])
                assert heard == {op.path}
                heard.clear()

    async def test_a_tree_is_told_before_anybody_can_see_the_change(self) -> None:
        async with self.two() as (one, other):
            await other.multi([Create("/p"), Create("/p/n", b"0")])
            known, stale = b"0", False

            def hear(paths: Collection[str]) -> None:
                nonlocal stale
                stale = True

            one.watch_tree("/p", hear)
            await one.get("/p")
            last = 200
            writing = asyncio.gather(
                other.multis([SetData("/p/n", b"%d" % i)] for i in range(1, last + 1))
            )
            while known != b"%d" % last:
                was_stale, stale = stale, False
                node = await one.get("/p/n")
                assert node is not None
                assert node.data == known or was_stale or stale, "a change that nobody hinted at"
                known = node.data or b""
                await asyncio.sleep(0)  # a store that never waits to read lets others write
            await writing

    async def test_watches_of_both_kinds_share_a_path(self) -> None:
        async with self.two() as (one, other):
            await other.multi([Create("/p")])
            first, tree, later = Bell(), Bell(), Bell()
            one.watch_children("/p", first)
            off = one.watch_tree("/p", tree)
            one.watch_children("/p", later)
            await one.children("/p")
            await other.multi([Create("/p/a")])
            for bell in (first, tree, later):
                await bell.wait()
            off()
            off()
            await one.children("/p")
            count = tree.count
            await other.multi([Create("/p/b")])
            for bell in (first, later):
                await bell.wait()
            assert tree.count == count

    async def test_a_killed_session_gets_no_hints(self) -> None:
        async with self.opened() as store, connected(store) as other:
            one = await store.connect()
            quiet, loud = Bell(), Bell()
            one.watch_node("/n", quiet)
            other.watch_node("/n", loud)
            assert await one.get_many(["/n"]) == await other.get_many(["/n"]) == [None]
            await one.kill()
            await other.multi([Create("/n")])
            await loud.wait()
            assert quiet.count == 0

    async def test_a_big_multi_is_taken_whole(self) -> None:
        async with self.session() as session:
            await session.multi([Create("/p")])
            ops = [Create(f"/p/{i:04d}", b"x" * 100) for i in range(3000)]
            assert all(r.ok for r in await session.multi(ops))
            assert await session.children("/p") == tuple(f"{i:04d}" for i in range(3000))


async def _data_is(session: Session, path: str, data: bytes | None) -> bool:
    node = await session.get(path)
    return (node and node.data) == data


async def _children_are(session: Session, path: str, names: tuple[str, ...] | None) -> bool:
    return await session.children(path) == names
