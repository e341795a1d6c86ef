"""A standby has at hand what a new controller would read, or says that it has nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest

from klamm.broker.term.standby import Standby
from klamm.model.errors import StoreUnavailable
from klamm.model.names import TopicPartition
from klamm.store import layout
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.port import Create, Node
from unit.broker.brokers import until
from unit.broker.standing_by import Writer, check

T = TypeVar("T")


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    store = EmbeddedStore.open(None)
    session = await store.connect()
    for path in layout.with_parents([*layout.ROOTS, layout.FORGOTTEN]):
        await session.multi([Create(path)])
    yield store
    await store.close()


@pytest.mark.parametrize("seed", range(25))
async def test_what_is_at_hand_is_what_would_be_read(store: EmbeddedStore, seed: int) -> None:
    dice = random.Random(seed)
    session = await store.connect()
    writer = Writer(await store.connect(), dice)
    for _ in range(dice.randrange(10)):
        await writer.do_something()
    standby = Standby(session, calm_s=0)
    await until(lambda: standby.is_current, "it never had everything")
    for _ in range(dice.randrange(40)):
        await writer.do_something()
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)  # it reads a little, or nothing, or all of it
    assert await check(standby, session)
    await standby.close()


class Halting(EmbeddedSession):
    """A session whose reads wait until they are let go."""

    may_read: asyncio.Event
    waiting = 0

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return await self._halt(await super().get_many(paths))

    async def children(self, path: str) -> tuple[str, ...] | None:
        return await self._halt(await super().children(path))

    async def _halt(self, found: T) -> T:
        self.waiting += 1
        await self.may_read.wait()
        self.waiting -= 1
        return found


async def halting(store: EmbeddedStore) -> Halting:
    session = await store.connect()
    session.__class__ = Halting
    assert isinstance(session, Halting)
    session.may_read = asyncio.Event()
    return session


async def halted_when_current(store: EmbeddedStore) -> tuple[Halting, Writer, Standby]:
    """A standby that has topic `a` at hand, and reads nothing more until it may."""
    session = await halting(store)
    session.may_read.set()
    writer = Writer(await store.connect(), random.Random(1))
    await writer.create("a")
    standby = Standby(session, calm_s=0)
    await until(lambda: standby.is_current, "it never had everything")
    session.may_read.clear()
    return session, writer, standby


async def test_an_election_in_the_middle_of_reading_everything_finds_nothing_at_hand(
    store: EmbeddedStore,
) -> None:
    session = await halting(store)
    await Writer(await store.connect(), random.Random(1)).create("a")
    standby = Standby(session, calm_s=0)
    await until(lambda: session.waiting == 1, "it does not read")
    assert await check(standby, session) is False
    await standby.close()


async def test_an_election_in_the_middle_of_reading_what_changed_reads_it_again(
    store: EmbeddedStore,
) -> None:
    session, writer, standby = await halted_when_current(store)
    await writer.create("b")
    await writer.lead(TopicPartition("b", 0))
    await until(lambda: session.waiting == 1, "it does not read")
    await writer.lead(TopicPartition("b", 0))
    checking = asyncio.ensure_future(check(standby, session))
    await until(lambda: session.waiting == 1, "it does not read again")
    await writer.lead(TopicPartition("b", 1))  # and even now something changes
    session.may_read.set()
    assert await checking
    await standby.close()


async def test_what_changes_at_the_last_look_is_read_too(store: EmbeddedStore) -> None:
    session, writer, standby = await halted_when_current(store)
    checking = asyncio.ensure_future(check(standby, session))
    await until(lambda: session.waiting == 1, "it does not compare the topics")
    await writer.lead(TopicPartition("a", 1))
    session.may_read.set()
    assert await checking
    await standby.close()


async def test_a_standby_whose_connection_broke_has_nothing_at_hand_until_it_read_all_again(
    store: EmbeddedStore,
) -> None:
    session = await store.connect()
    writer = Writer(await store.connect(), random.Random(1))
    await writer.create("a")
    standby = Standby(session, calm_s=0)
    await until(lambda: standby.is_current, "it never had everything")
    # What a store says that does not know what went by unseen.
    store._watches.tell_trees([layout.TOPICS])
    assert not standby.is_current
    await until(lambda: standby.is_current, "it never had everything again")
    store._watches.tell_trees([layout.TOPIC_CONFIGS])
    assert await check(standby, session) is False
    await standby.close()


async def test_a_standby_that_knows_other_topics_than_there_are_is_not_believed(
    store: EmbeddedStore,
) -> None:
    session = await store.connect()
    standby = Standby(session, calm_s=0)
    await until(lambda: standby.is_current, "it never had everything")
    store._watches.remove_session(session.id)  # its watches are gone, and it does not know
    await Writer(await store.connect(), random.Random(1)).create("a")
    assert await check(standby, session) is False
    await standby.close()


async def test_without_the_store_nothing_is_at_hand(store: EmbeddedStore) -> None:
    session = await store.connect()
    standby = Standby(session, calm_s=0)
    await until(lambda: standby.is_current, "it never had everything")
    await Writer(await store.connect(), random.Random(1)).create("a")
    await session.kill()
    with suppress(StoreUnavailable):
        assert await standby.catch_up() is None
    await standby.close()
