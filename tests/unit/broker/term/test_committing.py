"""Writes become fenced multis; one that is stale takes no neighbour along."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace

import pytest

from klamm.broker.term.committing import OPS_MAX, Committer
from klamm.controller import effects as do
from klamm.controller.effects import Stale, Stored, Write
from klamm.model.assignment import Assignment
from klamm.model.errors import ControllerFenced
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.topics import ProducerIdBlock, StoredTopic
from klamm.store import layout
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.port import Create, Delete, Op, Result, SetData

ONE, TWO = BrokerId(1), BrokerId(2)
T0, T1 = TopicPartition("T", 0), TopicPartition("T", 1)
FIRST = Leadership(leader=ONE, leader_epoch=0, isr=(ONE, TWO), controller_epoch=1)
NEXT = replace(FIRST, leader=TWO, leader_epoch=1, partition_epoch=1)
TOPIC_ID = uuid.UUID(int=9)


class Watched:
    """A session that counts the multis that go through it."""

    def __init__(self, session: EmbeddedSession) -> None:
        self._session = session
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    async def multi(self, ops: Sequence[Op]) -> tuple[Result, ...]:
        self.sizes.append(len(ops))
        return await self._session.multi(ops)

    async def multis(self, groups: Iterable[Sequence[Op]]) -> list[tuple[Result, ...]]:
        listed = list(groups)
        self.sizes += [len(group) for group in listed]
        return await self._session.multis(listed)


class Bench:
    """A committer on a store with one topic."""

    def __init__(self, session: EmbeddedSession) -> None:
        self.session = session
        self.watched = Watched(session)
        self.committer = Committer(self.watched, epoch_version=0)  # type: ignore[arg-type]

    async def commit(self, *writes: Write) -> list[do.Outcome]:
        self.watched.sizes.clear()
        return await self.committer.commit(writes)

    async def data(self, path: str) -> bytes | None:
        node = await self.session.get(path)
        return node.data if node else None


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    store = EmbeddedStore.open(None)
    session = await store.connect()
    paths = layout.with_parents(layout.ROOTS)
    await session.multi([Create(path) for path in paths])
    await session.multi([Create(layout.CONTROLLER_EPOCH, b"1")])
    node = layout.TopicNode(TOPIC_ID, {0: Assignment((ONE, TWO)), 1: Assignment((TWO, ONE))})
    await session.multi(
        [
            Create(layout.topic_path("T"), layout.encode_topic(node)),
            Create(layout.topic_config_path("T"), layout.encode_config({})),
            Create(layout.delete_topic_path("T")),
        ]
    )
    yield Bench(session)
    await store.close()


async def test_states_are_created_with_the_nodes_above_them_in_one_multi(bench: Bench) -> None:
    outcomes = await bench.commit(do.CreateState(T0, FIRST), do.CreateState(T1, FIRST))
    assert outcomes == [Stored(0), Stored(0)]
    assert bench.watched.sizes == [1 + 1 + 2 * 2]  # the fence, the parent, two nodes each
    assert await bench.data(layout.state_path(T1)) == layout.encode_state(FIRST)


async def test_many_writes_share_multis_of_bounded_size(bench: Bench) -> None:
    partitions = [TopicPartition("T", p) for p in range(OPS_MAX)]
    outcomes = await bench.commit(*(do.CreateState(p, FIRST) for p in partitions))
    assert outcomes == [Stored(0)] * OPS_MAX
    assert max(bench.watched.sizes) <= OPS_MAX + 1
    assert len(bench.watched.sizes) == 3


async def test_a_stale_write_brings_what_was_found_and_spoils_no_neighbour(bench: Bench) -> None:
    await bench.commit(do.CreateState(T0, FIRST), do.CreateState(T1, FIRST))
    other = replace(FIRST, isr=(ONE,))
    await bench.session.multi([SetData(layout.state_path(T0), layout.encode_state(other))])
    outcomes = await bench.commit(do.UpdateState(T0, NEXT), do.UpdateState(T1, NEXT))
    found = replace(other, partition_epoch=1)
    assert outcomes == [Stale(found, 1), Stored(1)]


async def test_an_update_whose_answer_was_lost_counts_as_done(bench: Bench) -> None:
    await bench.commit(do.CreateState(T0, FIRST))
    await bench.commit(do.UpdateState(T0, NEXT))
    assert await bench.commit(do.UpdateState(T0, NEXT)) == [Stored(1)]


async def test_a_state_that_is_there_is_adopted_unless_it_is_our_own(bench: Bench) -> None:
    await bench.commit(do.CreateState(T0, FIRST))
    assert await bench.commit(do.CreateState(T0, FIRST)) == [Stored(0)]
    assert await bench.commit(do.CreateState(T0, replace(FIRST, leader=TWO))) == [Stale(FIRST, 0)]


async def test_a_state_of_a_topic_that_is_gone_finds_nothing(bench: Bench) -> None:
    gone = TopicPartition("U", 0)
    assert await bench.commit(do.CreateState(gone, FIRST)) == [Stale(None)]
    assert await bench.commit(do.UpdateState(gone, NEXT)) == [Stale(None)]


async def test_a_topic_is_rewritten_where_its_version_is_the_one_known(bench: Bench) -> None:
    node = StoredTopic(topic_id=TOPIC_ID, partitions={0: Assignment((TWO,))})
    assert await bench.commit(do.RewriteTopic("T", node)) == [Stored(1)]
    newer = replace(node, partitions={0: Assignment((ONE,))})
    (outcome,) = await bench.commit(do.RewriteTopic("T", newer))
    assert outcome == Stale(replace(node, version=1), 1)


@pytest.mark.parametrize("states", [(), (T0,), (T0, T1)])
async def test_a_topic_goes_with_everything_below_it_from_any_point(
    bench: Bench, states: tuple[TopicPartition, ...]
) -> None:
    await bench.commit(*(do.CreateState(p, FIRST) for p in states))
    if T1 in states:
        await bench.session.multi([Delete(layout.state_path(T1))])  # a removal that was cut off
    assert await bench.commit(do.RemoveTopic("T")) == [Stored()]
    for path in (
        layout.topic_path("T"),
        layout.topic_config_path("T"),
        layout.delete_topic_path("T"),
    ):
        assert await bench.session.get(path) is None
    assert await bench.commit(do.RemoveTopic("T")) == [Stored()]


async def test_markers_and_notices_that_are_gone_are_no_trouble(bench: Bench) -> None:
    outcomes = await bench.commit(
        do.RemoveMarkers(("nothing", "T")), do.RemoveNotifications(("log_dir_event_1",))
    )
    assert outcomes == [Stored(), Stored()]
    assert await bench.session.children(layout.DELETE_TOPICS) == ()


async def test_leftovers_are_stored_without_anybody_having_made_room(bench: Bench) -> None:
    assert await bench.commit(do.RewriteLeftovers(ONE, {T0: TOPIC_ID})) == [Stored()]
    data = await bench.data(layout.forgotten_path(ONE))
    assert layout.decode_forgotten(data) == (layout.ForgottenReplica(TOPIC_ID, T0),)
    assert await bench.commit(do.RewriteLeftovers(ONE, {})) == [Stored()]
    assert await bench.data(layout.forgotten_path(ONE)) is None


async def test_the_legacy_move_request_shrinks_and_goes(bench: Bench) -> None:
    await bench.session.multi([Create(layout.REASSIGN_PARTITIONS, b"{}")])
    await bench.commit(do.RewriteReassignmentRequests({T0: (TWO,)}))
    data = await bench.data(layout.REASSIGN_PARTITIONS)
    assert layout.decode_reassignment(data) == {T0: (TWO,)}
    await bench.commit(do.RewriteReassignmentRequests({}))
    assert await bench.session.get(layout.REASSIGN_PARTITIONS) is None


async def test_producer_ids_are_claimed_once(bench: Bench) -> None:
    block = ProducerIdBlock(ONE, 0, 999)
    assert await bench.commit(do.ClaimProducerIds(block, 0)) == [Stored(1)]
    late = ProducerIdBlock(TWO, 0, 999)
    assert await bench.commit(do.ClaimProducerIds(late, 0)) == [Stale(block, 1)]


@pytest.mark.parametrize(
    "write", [do.CreateState(T0, FIRST), do.RemoveTopic("T"), do.RemoveMarkers(("T",))]
)
async def test_nothing_is_written_once_another_controller_was_elected(
    bench: Bench, write: Write
) -> None:
    await bench.session.multi([SetData(layout.CONTROLLER_EPOCH, b"2")])
    with pytest.raises(ControllerFenced):
        await bench.commit(write)
    assert await bench.session.get(layout.delete_topic_path("T")) is not None
    assert await bench.session.get(layout.partitions_path("T")) is None
