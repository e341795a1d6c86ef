"""Hints become facts, read only after a watch was set."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence

import pytest

from klamm.broker.term import observing
from klamm.broker.term.observing import Observer
from klamm.controller import events
from klamm.controller.context import Context
from klamm.model.assignment import Assignment
from klamm.model.brokers import Endpoint, Registration
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.port import Create, Node, SetData

ONE = BrokerId(1)
T0 = TopicPartition("T", 0)
DRAWN = uuid.UUID(int=77 << 64)
LED = Leadership(leader=ONE, leader_epoch=3, isr=(ONE,), controller_epoch=2)


class Eyes:
    """An observer that writes down what it watches and reads, in order."""

    def __init__(self, session: EmbeddedSession) -> None:
        self.session = session
        self.seen: list[tuple[str, str]] = []
        self.observer = Observer(self, draw_id=lambda: DRAWN, watch=self._watch)  # type: ignore[arg-type]

    def _watch(self, path: str, hint: observing.Hint) -> None:
        self.seen.append(("watch", path))

    def __getattr__(self, name: str) -> object:
        return getattr(self.session, name)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        self.seen += [("read", path) for path in paths]
        return await self.session.get_many(paths)


@pytest.fixture
async def eyes() -> AsyncIterator[Eyes]:
    store = EmbeddedStore.open(None)
    session = await store.connect()
    await session.multi([Create(path) for path in layout.with_parents(layout.ROOTS)])
    yield Eyes(session)
    await store.close()


async def create(
    eyes: Eyes, topic: str, *, topic_id: uuid.UUID | None, unclean: str = "", frozen: str = ""
) -> None:
    texts = {"unclean.leader.election.enable": unclean, "klamm.frozen": frozen}
    config = {name: text for name, text in texts.items() if text}
    node = layout.TopicNode(topic_id, {0: Assignment((ONE,))})
    await eyes.session.multi(
        [
            Create(layout.topic_config_path(topic), layout.encode_config(config)),
            Create(layout.topic_path(topic), layout.encode_topic(node)),
        ]
    )


def context() -> Context:
    return Context(ONE, 1)


async def test_a_new_topic_is_watched_before_it_is_read(eyes: Eyes) -> None:
    await create(eyes, "T", topic_id=uuid.UUID(int=5))
    (event,) = await eyes.observer.observe(observing.TopicsHint(), context())
    assert isinstance(event, events.TopicsChanged)
    assert list(event.appeared) == ["T"]
    path = layout.topic_path("T")
    assert eyes.seen.index(("watch", path)) < eyes.seen.index(("read", path))


async def test_a_topic_without_an_id_is_given_one(eyes: Eyes) -> None:
    await create(eyes, "T", topic_id=None, unclean="TRUE")
    (event,) = await eyes.observer.observe(observing.TopicsHint(), context())
    assert isinstance(event, events.TopicsChanged)
    node = event.appeared["T"]
    assert (node.topic_id, node.id_missing, node.unclean) == (DRAWN, True, True)


@pytest.mark.parametrize(("text", "frozen"), [("true", True), ("false", False), ("", False)])
async def test_whether_a_topic_is_frozen_is_read_with_it(
    eyes: Eyes, text: str, frozen: bool
) -> None:
    await create(eyes, "T", topic_id=uuid.UUID(int=5), frozen=text)
    began = await eyes.observer.everything()
    assert began.topics["T"].frozen is frozen


async def test_nothing_new_is_no_event(eyes: Eyes) -> None:
    known = context()
    for hint in (
        observing.TopicsHint(),
        observing.TopicHint("T"),
        observing.AllTopicsHint(),
        observing.LogDirsHint(),
        observing.IsrChangesHint(),
        observing.ReassignmentsHint(),
        observing.ElectionsHint(),
    ):
        assert await eyes.observer.observe(hint, known) == []


@pytest.mark.parametrize("hint", [observing.TopicHint("T"), observing.AllTopicsHint()])
async def test_only_a_version_that_is_not_known_is_news(eyes: Eyes, hint: observing.Hint) -> None:
    await create(eyes, "T", topic_id=uuid.UUID(int=5))
    (appeared,) = await eyes.observer.observe(observing.TopicsHint(), context())
    assert isinstance(appeared, events.TopicsChanged)
    known = context()
    known.add_topic("T", appeared.appeared["T"])
    assert await eyes.observer.observe(hint, known) == []
    grown = layout.TopicNode(uuid.UUID(int=5), {p: Assignment((ONE,)) for p in range(2)})
    await eyes.session.multi([SetData(layout.topic_path("T"), layout.encode_topic(grown))])
    (event,) = await eyes.observer.observe(hint, known)
    assert isinstance(event, events.TopicModified)
    assert (list(event.node.partitions), event.node.version) == ([0, 1], 1)


async def test_a_marker_is_never_seen_before_its_topic(eyes: Eyes) -> None:
    await create(eyes, "T", topic_id=uuid.UUID(int=5))
    await eyes.session.multi([Create(layout.delete_topic_path("T"))])
    first, second = await eyes.observer.observe(observing.MarkersHint(), context())
    assert isinstance(first, events.TopicsChanged)
    assert second == events.MarkersChanged(("T",))


async def test_what_comes_in_bulk_is_cut_into_steps(
    eyes: Eyes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "STEP_PARTITIONS", 2)
    for number in range(5):
        await create(eyes, f"T{number}", topic_id=uuid.UUID(int=5 + number))
        await eyes.session.multi([Create(layout.delete_topic_path(f"T{number}"))])
    found = await eyes.observer.observe(observing.MarkersHint(), context())
    created = [list(e.appeared) for e in found if isinstance(e, events.TopicsChanged)]
    marked = [list(e.topics) for e in found if isinstance(e, events.MarkersChanged)]
    assert created == marked == [["T0", "T1"], ["T2", "T3"], ["T4"]]


async def test_brokers_carry_the_transaction_of_their_registration(eyes: Eyes) -> None:
    broker = Registration(id=ONE, epoch=-1, endpoints=(Endpoint("host", 9),))
    data = layout.encode_broker(broker, timestamp_ms=1)
    (created,) = await eyes.session.multi([Create(layout.broker_path(ONE), data, ephemeral=True)])
    assert created.stat is not None
    (event,) = await eyes.observer.observe(observing.BrokersHint(), context())
    assert isinstance(event, events.BrokersChanged)
    assert event.brokers[ONE].epoch == created.stat.czxid
    assert eyes.seen[0] == ("watch", layout.broker_path(ONE))


async def test_everything_is_read_for_a_new_term(eyes: Eyes) -> None:
    await create(eyes, "T", topic_id=uuid.UUID(int=5))
    replica = layout.ForgottenReplica(uuid.UUID(int=6), TopicPartition("old", 0))
    move = layout.encode_reassignment({T0: (BrokerId(2),)})
    event = Create(layout.LOG_DIR_EVENT_PREFIX, layout.encode_log_dir_event(ONE), sequential=True)
    await eyes.session.multi(
        [
            Create(layout.partitions_path("T")),
            Create(layout.partition_path(T0)),
            Create(layout.state_path(T0), layout.encode_state(LED)),
            Create(layout.delete_topic_path("T")),
            Create(layout.REASSIGN_PARTITIONS, move),
            Create(layout.PREFERRED_REPLICA_ELECTION, layout.encode_partitions([T0])),
            event,
            *(Create(path) for path in layout.with_parents([layout.FORGOTTEN])),
            Create(layout.forgotten_path(ONE), layout.encode_forgotten([replica])),
        ]
    )
    began = await eyes.observer.everything()
    assert began.states == {T0: LED}
    assert began.markers == ("T",)
    assert began.reassignment_requests == {T0: (2,)}
    assert began.election_requests == (T0,)
    assert began.log_dir_notices == ("log_dir_event_0000000000",)
    assert began.leftovers == {ONE: {TopicPartition("old", 0): uuid.UUID(int=6)}}
