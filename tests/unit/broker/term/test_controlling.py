"""The controller's shell on a real store, with real sockets to brokers that only listen."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from klamm.broker.term.outbox import Outbox
from klamm.controller import events
from klamm.controller.core import Core
from klamm.controller.effects import Decision, Outcome
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode, InvariantBroken, RequestRefused
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages import stop_replica
from klamm.store import layout
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.port import Create, Node, Session, SessionState, SetData
from unit.broker.brokers import until
from world.wire import WireBroker

Settings = dict[str, str]


class Wires:
    """Brokers on one store."""

    def __init__(self, store: EmbeddedStore, directory: Path) -> None:
        self.store = store
        self.directory = directory
        self.brokers: dict[int, WireBroker] = {}

    async def start(self, id: int, **settings: str) -> WireBroker:
        named = dict(settings)
        broker = WireBroker(id, self.store, self.directory / f"broker-{id}", named)
        self.brokers[id] = broker
        await broker.start()
        return broker

    async def stop(self, id: int, *, resign: bool = True) -> None:
        await self.brokers.pop(id).stop(resign=resign)

    @property
    def controller(self) -> WireBroker:
        return next(b for b in self.brokers.values() if b.shell.is_active)

    async def create(self, topic: str, assignment: list[list[int]]) -> None:
        node = layout.TopicNode(
            uuid.uuid4(),
            {p: Assignment(tuple(map(BrokerId, r))) for p, r in enumerate(assignment)},
        )
        session = next(iter(self.brokers.values())).session
        await session.multi(
            [
                Create(layout.topic_config_path(topic), layout.encode_config({})),
                Create(layout.topic_path(topic), layout.encode_topic(node)),
            ]
        )

    async def mark(self, topic: str) -> None:
        session = next(iter(self.brokers.values())).session
        await session.multi([Create(layout.delete_topic_path(topic))])

    async def gone(self, path: str) -> None:
        """Wait until a node is not there."""
        session = next(iter(self.brokers.values())).session
        changed = asyncio.Event()
        unwatch = session.watch_node(path, changed.set)
        try:
            async with asyncio.timeout(10):
                while await session.get(path) is not None:
                    await changed.wait()
                    changed.clear()
        finally:
            unwatch()


@pytest.fixture
async def wires(tmp_path: Path) -> AsyncIterator[Wires]:
    store = EmbeddedStore.open(None)
    wires = Wires(store, tmp_path)
    yield wires
    for id in list(wires.brokers):
        await wires.stop(id)
    await store.close()


async def test_one_broker_becomes_the_controller_and_raises_the_epoch(wires: Wires) -> None:
    first = await wires.start(0)
    second = await wires.start(1)
    await second.wait_until(lambda: bool(second.received))
    assert (first.shell.is_active, second.shell.is_active) == (True, False)
    node = await first.session.get(layout.CONTROLLER_EPOCH)
    assert node is not None
    assert (node.data, node.stat.version) == (b"1", 1)
    assert first.shell.epoch == 1


async def test_a_topic_is_created_led_and_deleted_over_the_wire(wires: Wires) -> None:
    brokers = [await wires.start(id) for id in range(3)]
    await wires.create("T", [[0, 1, 2], [1, 2, 0]])
    for broker in brokers:
        await broker.wait_until(lambda b=broker: b.leaders == {("T", 0): 0, ("T", 1): 1})
        await broker.wait_until(lambda b=broker: len(b.logs) == 2)
    state = await brokers[0].session.get(layout.state_path(TopicPartition("T", 1)))
    assert state is not None
    assert state.data == (
        b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,2,0]}'
    )
    await wires.mark("T")
    await wires.gone(layout.delete_topic_path("T"))
    session = brokers[0].session
    assert await session.children(layout.TOPICS) == ()
    assert await session.get(layout.topic_config_path("T")) is None
    assert [b.logs for b in brokers] == [set(), set(), set()]
    assert [b.leaders for b in brokers] == [{}, {}, {}]
    stops = [r for r in brokers[1].received if isinstance(r, stop_replica.Request)]
    flags = [r.topic_states[0].partition_states[0].delete_partition for r in stops]
    assert flags == [False, True]


async def test_the_next_controller_takes_over_when_one_dies(wires: Wires) -> None:
    await wires.start(0)
    second = await wires.start(1)
    await wires.create("T", [[0, 1]])
    await second.wait_until(lambda: second.leaders == {("T", 0): 0})
    await wires.stop(0, resign=False)
    await second.wait_until(lambda: second.leaders == {("T", 0): 1})
    assert second.shell.is_active
    assert second.shell.epoch == 2


class Reads:
    """Which nodes a session reads."""

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: set[str] = set()
        self._get_many = session.get_many
        monkeypatch.setattr(session, "get_many", self)

    async def __call__(self, paths: Sequence[str]) -> list[Node | None]:
        self.paths.update(paths)
        return await self._get_many(paths)


@pytest.mark.parametrize("is_warm", [True, False])
async def test_a_standby_begins_its_term_without_reading_what_did_not_change(
    wires: Wires, monkeypatch: pytest.MonkeyPatch, is_warm: bool
) -> None:
    monkeypatch.setattr("klamm.broker.term.standby._CALM_S", 0)
    monkeypatch.setattr(EmbeddedSession, "is_near", False)
    await wires.start(0)
    second = await wires.start(1, **{"klamm.controller.standby.enable": str(is_warm).lower()})
    await wires.create("T", [[0, 1], [1, 0]])
    await second.wait_until(lambda: second.leaders == {("T", 0): 0, ("T", 1): 1})
    standby = second.shell._standby
    assert (standby is not None) == is_warm
    if standby is not None:
        await until(lambda: standby.is_current, "nothing is at hand")
    reads = Reads(second.session, monkeypatch)
    await wires.stop(0, resign=False)
    await second.wait_until(lambda: second.leaders == {("T", 0): 1, ("T", 1): 1})
    of_topics = {path for path in reads.paths if path.startswith(layout.TOPICS)}
    assert bool(of_topics) != is_warm


async def test_nothing_is_kept_at_hand_beside_a_store_of_the_same_process(wires: Wires) -> None:
    await wires.start(0)
    second = await wires.start(1)
    await wires.create("T", [[0, 1]])
    await second.wait_until(lambda: second.leaders == {("T", 0): 0})
    assert second.shell._standby is None
    await wires.stop(0, resign=False)
    await second.wait_until(lambda: second.leaders == {("T", 0): 1})


async def test_what_happens_to_a_topic_that_was_at_hand_is_seen(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.broker.term.standby._CALM_S", 0)
    monkeypatch.setattr(EmbeddedSession, "is_near", False)
    await wires.start(0)
    second = await wires.start(1)
    await wires.create("T", [[1]])
    await until(lambda: second.shell.standby_partitions == 1, "nothing is at hand")
    await wires.stop(0)
    await second.wait_until(lambda: second.shell.is_active)
    node = await second.session.get(layout.topic_path("T"))
    topic = layout.decode_topic(node.data) if node else None
    assert topic is not None
    grown = layout.TopicNode(topic.topic_id, {p: Assignment((BrokerId(1),)) for p in range(2)})
    await second.session.multi([SetData(layout.topic_path("T"), layout.encode_topic(grown))])
    await second.wait_until(lambda: second.leaders == {("T", 0): 1, ("T", 1): 1})
    assert second.shell.standby_partitions == 0, "a controller needs no standby"


async def test_a_deletion_refused_by_a_broker_is_tried_again(wires: Wires) -> None:
    await wires.start(0, **{"klamm.delete.topic.retry.ms": "50"})
    second = await wires.start(1)
    await wires.create("T", [[0, 1]])
    await second.wait_until(lambda: len(second.logs) == 1)
    second.refuse_deletes = ErrorCode.UNKNOWN_SERVER_ERROR
    await wires.mark("T")
    await second.wait_until(
        lambda: sum(isinstance(r, stop_replica.Request) for r in second.received) >= 4
    )
    second.refuse_deletes = ErrorCode.NONE
    await wires.gone(layout.delete_topic_path("T"))


async def test_a_controller_that_was_replaced_cannot_write(wires: Wires) -> None:
    first = await wires.start(0)
    await first.wait_until(lambda: bool(first.received))
    # Somebody raises the epoch behind its back: the fence of every later write.
    await first.session.multi([SetData(layout.CONTROLLER_EPOCH, b"7")])
    await wires.create("T", [[0]])
    await first.wait_until(lambda: first.leaders == {("T", 0): 0})
    state = await first.session.get(layout.state_path(TopicPartition("T", 0)))
    assert state is not None
    assert b'"controller_epoch":8' in (state.data or b"")
    assert first.shell.epoch == 8


async def test_a_controller_that_lost_touch_with_the_store_leads_no_more(wires: Wires) -> None:
    first = await wires.start(0)
    await first.wait_until(lambda: bool(first.received))
    session = first.session
    assert isinstance(session, EmbeddedSession)
    waiting = asyncio.ensure_future(until(lambda: not first.shell.is_active, "it leads on"))
    session.tell(SessionState.SUSPENDED)
    session.tell(SessionState.LAPSED)
    await waiting
    # Its node is still there, for so is its session; that must not keep it from the next election.
    session.tell(SessionState.CONNECTED)
    await until(lambda: first.shell.epoch == 2, "it never came to hold")
    node = await session.get(layout.CONTROLLER)
    assert node is not None
    assert node.stat.ephemeral_owner == session.id


async def test_asking_a_broker_that_is_not_the_controller_is_refused(wires: Wires) -> None:
    await wires.start(0)
    second = await wires.start(1)
    with pytest.raises(RequestRefused) as refused:
        await second.shell.submit(events.ReassignmentsListed(None))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_producer_ids_come_in_blocks_of_a_thousand(wires: Wires) -> None:
    first = await wires.start(0)
    await first.wait_until(lambda: bool(first.received))
    brokers = await first.session.get(layout.broker_path(BrokerId(0)))
    assert brokers is not None
    ask = events.ProducerIdsAsked(BrokerId(0), brokers.stat.czxid)
    answers = [await first.shell.submit(ask) for _ in range(2)]
    assert [(a.code, a.first, a.count) for a in answers] == [(0, 0, 1000), (0, 1000, 1000)]


async def test_the_story_of_a_topic_is_kept(wires: Wires) -> None:
    first = await wires.start(0)
    await first.wait_until(lambda: bool(first.received))
    await wires.create("T", [[0]])
    await first.wait_until(lambda: first.leaders == {("T", 0): 0})
    story = [(e["subject"], e["before"], e["after"]) for e in first.shell.story("T")]
    assert story == [
        ("topic T", "absent", "created"),
        ("T-0", "NonExistent", "New"),
        ("T-0 on broker 0", "NonExistent", "New"),
        ("T-0", "New", "Online"),
        ("T-0 on broker 0", "New", "Online"),
    ]


def make_deaf(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing this session watches is ever told."""
    for kind in ("watch_node", "watch_children", "watch_tree"):
        monkeypatch.setattr(session, kind, lambda path, hint: lambda: None)


async def test_what_no_watch_told_is_found_by_looking_again(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires.store.connect = _deafened(wires.store.connect, monkeypatch)  # type: ignore[method-assign]
    first = await wires.start(0, **{"klamm.reconcile.interval.ms": "50"})
    await wires.create("T", [[0]])
    await first.wait_until(lambda: first.leaders == {("T", 0): 0})
    await wires.mark("T")
    await first.wait_until(lambda: first.leaders == {})


async def test_after_a_fault_inside_an_event_everything_is_read_anew(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await wires.start(0)
    await first.wait_until(lambda: bool(first.received))
    planted = iter([True])
    working = Core.settle

    def settle(core: Core, decision: Decision, outcomes: Sequence[Outcome]) -> Decision:
        if next(planted, False):
            raise InvariantBroken("planted, after the store was written and before memory was")
        return working(core, decision, outcomes)

    monkeypatch.setattr(Core, "settle", settle)
    await wires.create("T", [[0]])
    await first.wait_until(lambda: first.leaders == {("T", 0): 0})
    assert first.shell.epoch == 2, "another term, which found what the first one had written"
    state = await first.session.get(layout.state_path(TopicPartition("T", 0)))
    assert state is not None
    assert state.stat.version == 0, "and had no need to write it again"


QUESTIONS: list[events.Event] = [
    events.ReassignmentsListed(None),
    events.ReassignmentsAsked({}),
    events.ElectionsAsked(events.ElectionType.PREFERRED, None),
    events.IsrChangesAsked(broker=BrokerId(0), broker_epoch=0, changes=()),
    events.ProducerIdsAsked(BrokerId(0), 0),
    events.ShutdownAsked(BrokerId(0)),
    events.ExplanationAsked("T"),
]


async def test_whoever_waits_for_a_controller_that_resigns_is_sent_to_the_next(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await wires.start(0)
    await first.wait_until(lambda: bool(first.received))
    monkeypatch.setattr(Core, "decide", _never)
    asked = [asyncio.ensure_future(first.shell.submit(cast(Any, ask))) for ask in QUESTIONS]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [RequestRefused] * len(QUESTIONS)
    codes = {answer.code for answer in answers if isinstance(answer, RequestRefused)}
    assert codes == {ErrorCode.NOT_CONTROLLER}


async def test_whoever_waits_is_answered_although_the_term_is_ended_twice(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost session ends the term from inside and from outside, one a moment after the other."""
    first = await wires.start(0)
    await first.wait_until(lambda: bool(first.received))
    closing, close = asyncio.Event(), Outbox.close

    async def slowly(outbox: Outbox) -> None:
        closing.set()
        try:
            await asyncio.Event().wait()
        finally:
            await close(outbox)

    monkeypatch.setattr(Outbox, "close", slowly)
    monkeypatch.setattr(Core, "decide", _never)
    asked = [asyncio.ensure_future(first.shell.submit(cast(Any, ask))) for ask in QUESTIONS]
    await closing.wait()
    asked.append(asyncio.ensure_future(first.shell.submit(cast(Any, QUESTIONS[0]))))
    await asyncio.sleep(0)
    await first.shell.stop(resign=False)
    done, waiting = await asyncio.wait(asked, timeout=5)
    assert not waiting, f"{len(waiting)} were never answered"
    assert {type(each.exception()) for each in done} == {RequestRefused}


def _never(core: Core, event: events.Event, *, now_ms: int = 0) -> Decision:
    raise InvariantBroken("planted: the first question ends the term, the others wait behind it")


def _deafened(connect: Callable[[], Awaitable[Session]], monkeypatch: pytest.MonkeyPatch) -> Any:
    async def connected() -> Session:
        session = await connect()
        make_deaf(session, monkeypatch)
        return session

    return connected
