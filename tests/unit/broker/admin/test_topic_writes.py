"""What administration writes, and what it does when an answer is lost or somebody was quicker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import pytest

from klamm.broker.admin.topic_writes import (
    NewNode,
    alter_config,
    create_topics,
    grow_topic,
    mark_for_deletion,
)
from klamm.controller.admission import TopicCreation
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode, Refused, StoreUnavailable
from klamm.model.names import BrokerId
from klamm.store import layout
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.port import Create, Hint, Node, Op, Result, Session, SetData, TreeHint, Unwatch

ID = uuid.UUID(int=5)


class LossyLine:
    """A session that can lose the answer to a write, or let somebody else write first."""

    def __init__(self, session: EmbeddedSession) -> None:
        self._session = session
        self.lose_answers = 0
        self.before_write: list[Callable[[EmbeddedSession], Awaitable[object]]] = []

    @property
    def id(self) -> int:
        return self._session.id

    async def get(self, path: str) -> Node | None:
        return await self._session.get(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return await self._session.get_many(paths)

    async def children(self, path: str) -> tuple[str, ...] | None:
        return await self._session.children(path)

    async def multi(self, ops: Sequence[Op]) -> tuple[Result, ...]:
        (results,) = await self.multis([ops])
        return results

    async def multis(self, groups: Iterable[Sequence[Op]]) -> list[tuple[Result, ...]]:
        if self.before_write:
            await self.before_write.pop(0)(self._session)
        results = await self._session.multis(groups)
        if self.lose_answers:
            self.lose_answers -= 1
            raise StoreUnavailable("the answer is lost")
        return results

    def watch_node(self, path: str, hint: Hint) -> Unwatch:
        return self._session.watch_node(path, hint)

    def watch_children(self, path: str, hint: Hint) -> Unwatch:
        return self._session.watch_children(path, hint)

    def watch_tree(self, path: str, hint: TreeHint) -> Unwatch:
        return self._session.watch_tree(path, hint)

    def watch_state(self, hear: object) -> Unwatch:
        raise NotImplementedError

    async def close(self) -> None:
        await self._session.close()


def on_a_store(test: Callable[[LossyLine], Awaitable[None]]) -> None:
    async def run() -> None:
        store = EmbeddedStore.open(None)
        try:
            session = await store.connect()
            roots = layout.with_parents(layout.ROOTS)
            results = await session.multi([Create(path) for path in roots])
            assert all(result.ok for result in results)
            await test(LossyLine(session))
        finally:
            await store.close()

    asyncio.run(run())


def new(topic: str = "t", topic_id: uuid.UUID = ID, **configs: str) -> NewNode:
    replicas = (BrokerId(0), BrokerId(1))
    creation = TopicCreation(topic=topic, placement={0: replicas}, configs=configs)
    return NewNode(creation, layout.TopicNode(topic_id, {0: Assignment(replicas)}))


async def stored_topic(session: Session, topic: str = "t") -> layout.TopicNode | None:
    node = await session.get(layout.topic_path(topic))
    return None if node is None else layout.decode_topic(node.data)


async def stored_config(session: Session, path: str) -> dict[str, str] | None:
    node = await session.get(path)
    return None if node is None else layout.decode_config(node.data)


def test_a_topic_and_its_settings_appear_together() -> None:
    async def test(session: LossyLine) -> None:
        assert await create_topics(session, [new(x="1"), new("u", uuid.UUID(int=6))]) == [
            None,
            None,
        ]
        assert await stored_topic(session) == new().node
        assert await stored_config(session, layout.topic_config_path("t")) == {"x": "1"}
        assert await session.children(layout.CONFIG_CHANGES) == ()

    on_a_store(test)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_to_ones_own_creation_is_success(lost: int) -> None:
    async def test(session: LossyLine) -> None:
        session.lose_answers = lost
        assert await create_topics(session, [new()]) == [None]
        assert await stored_topic(session) == new().node

    on_a_store(test)


def test_a_topic_of_somebody_else_is_not_taken_for_ones_own() -> None:
    async def test(session: LossyLine) -> None:
        await create_topics(session, [new(topic_id=uuid.UUID(int=9), theirs="1")])
        session.lose_answers = 1
        (refused,) = await create_topics(session, [new(ours="1")])
        assert refused is not None
        assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert await stored_config(session, layout.topic_config_path("t")) == {"theirs": "1"}

    on_a_store(test)


def test_settings_of_a_topic_that_never_was_are_replaced() -> None:
    async def test(session: LossyLine) -> None:
        orphan = Create(layout.topic_config_path("t"), layout.encode_config({"old": "1"}))
        await session.multi([orphan])
        assert await create_topics(session, [new(fresh="1")]) == [None]
        assert await stored_config(session, layout.topic_config_path("t")) == {"fresh": "1"}

    on_a_store(test)


GROWN = {1: (BrokerId(1), BrokerId(0))}


def test_a_topic_grows_and_keeps_its_id() -> None:
    async def test(session: LossyLine) -> None:
        await create_topics(session, [new()])
        grown = await grow_topic(session, "t", lambda node: GROWN)
        assert grown == await stored_topic(session)
        assert isinstance(grown, layout.TopicNode)
        assert grown.topic_id == ID
        assert sorted(grown.assignments) == [0, 1]

    on_a_store(test)


def test_growth_is_planned_again_when_the_topic_changed_meanwhile() -> None:
    async def test(session: LossyLine) -> None:
        await create_topics(session, [new()])
        moved = layout.TopicNode(ID, {0: Assignment((BrokerId(7),))})

        async def move(inner: EmbeddedSession) -> None:
            await inner.multi([SetData(layout.topic_path("t"), layout.encode_topic(moved))])

        session.before_write.append(move)
        grown = await grow_topic(session, "t", lambda node: GROWN)
        assert isinstance(grown, layout.TopicNode)
        assert grown.assignments[0].replicas == (7,)
        assert await stored_topic(session) == grown

    on_a_store(test)


def test_a_lost_answer_to_growth_does_not_grow_twice() -> None:
    async def test(session: LossyLine) -> None:
        await create_topics(session, [new()])
        session.lose_answers = 1
        plans = 0

        def plan(node: layout.TopicNode | None) -> dict[int, tuple[BrokerId, ...]]:
            nonlocal plans
            plans += 1
            assert node is not None
            return {len(node.assignments): (BrokerId(0), BrokerId(1))}

        assert not isinstance(await grow_topic(session, "t", plan), Refused)
        assert plans == 1
        node = await stored_topic(session)
        assert node is not None
        assert len(node.assignments) == 2

    on_a_store(test)


def test_a_refused_plan_writes_nothing() -> None:
    async def test(session: LossyLine) -> None:
        no = Refused("no")
        assert await grow_topic(session, "t", lambda node: no) is no

    on_a_store(test)


def test_deletion_is_asked_for_once_however_often() -> None:
    async def test(session: LossyLine) -> None:
        await create_topics(session, [new()])
        session.lose_answers = 1
        first, refused = await mark_for_deletion(session, ["t", "u"])
        assert first is None
        assert refused is not None
        assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await mark_for_deletion(session, ["t"]) == [None]
        assert await session.children(layout.DELETE_TOPICS) == ("t",)

    on_a_store(test)


TOPIC = layout.ConfigEntity(layout.ConfigKind.TOPIC, "t")
NESTED = layout.ConfigEntity(
    layout.ConfigKind.CLIENT, "c", layout.ConfigEntity(layout.ConfigKind.USER, "u")
)


@pytest.mark.parametrize("entity", [TOPIC, NESTED])
def test_changed_settings_are_announced_with_them(entity: layout.ConfigEntity) -> None:
    async def test(session: LossyLine) -> None:
        assert await alter_config(session, entity, lambda old: {**old, "a": "1"}) is None
        assert await alter_config(session, entity, lambda old: {**old, "b": "2"}) is None
        assert await stored_config(session, entity.path) == {"a": "1", "b": "2"}
        markers = await session.children(layout.CONFIG_CHANGES) or ()
        nodes = await session.get_many([f"{layout.CONFIG_CHANGES}/{name}" for name in markers])
        told = [layout.decode_config_change(node.data) for node in nodes if node]
        assert told == [entity, entity]

    on_a_store(test)


def test_settings_of_klamm_for_all_brokers_are_kept_apart_from_those_that_kafka_reads() -> None:
    every = layout.ConfigEntity(layout.ConfigKind.BROKER, None)

    async def test(session: LossyLine) -> None:
        # An older klamm kept them in one node.
        before = {"klamm.reassignment.strict": "true", "log.cleaner.threads": "1"}
        await session.multi([Create(layout.parent(every.path))])
        await session.multi([Create(every.path, layout.encode_config(before))])
        seen: list[dict[str, str]] = []

        def change(stored: Mapping[str, str]) -> dict[str, str]:
            seen.append(dict(stored))
            return {**stored, "log.cleaner.threads": "2"}

        assert await alter_config(session, every, change) is None
        assert await stored_config(session, every.path) == {"log.cleaner.threads": "2"}
        own = await stored_config(session, layout.OWN_BROKER_CONFIG)
        assert own == {"klamm.reassignment.strict": "true"}
        assert await alter_config(session, every, lambda old: {}) is None
        assert await stored_config(session, layout.OWN_BROKER_CONFIG) == {}
        assert seen == [before]

    on_a_store(test)


def test_a_change_that_comes_between_is_not_lost() -> None:
    async def test(session: LossyLine) -> None:
        async def other(inner: EmbeddedSession) -> None:
            await alter_config(inner, TOPIC, lambda old: {**old, "theirs": "1"})

        session.before_write.append(other)
        assert await alter_config(session, TOPIC, lambda old: {**old, "ours": "1"}) is None
        assert await stored_config(session, TOPIC.path) == {"theirs": "1", "ours": "1"}
        # The first time there was no node yet, now there is one of a version.
        await alter_config(session, TOPIC, lambda old: {"ours": "2"})
        session.before_write.append(other)
        assert await alter_config(session, TOPIC, lambda old: {**old, "more": "1"}) is None
        assert await stored_config(session, TOPIC.path) == {
            "theirs": "1",
            "ours": "2",
            "more": "1",
        }

    on_a_store(test)


def test_a_lost_answer_to_a_change_does_not_change_twice() -> None:
    async def test(session: LossyLine) -> None:
        session.lose_answers = 1
        count = await alter_config(session, TOPIC, lambda old: {"n": old.get("n", "") + "x"})
        assert count is None
        assert await stored_config(session, TOPIC.path) == {"n": "x"}
        assert len(await session.children(layout.CONFIG_CHANGES) or ()) == 1

    on_a_store(test)
