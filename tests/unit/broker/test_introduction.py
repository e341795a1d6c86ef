"""A broker that has just started does not speak of topics before it has heard of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.broker.api import metadata as api
from klamm.broker.metadata_cache import MetadataCache, MetadataSnapshot
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata, update_metadata
from klamm.store import layout
from klamm.store.port import Create, Session
from unit.broker.brokers import World, world

Apply = Callable[[MetadataCache, update_metadata.Request], frozenset[TopicPartition]]


@pytest.fixture
def topics_are_told_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller says first who is there, and what is where only later."""
    apply: Apply = MetadataCache.apply

    def late(cache: MetadataCache, update: update_metadata.Request) -> frozenset[TopicPartition]:
        if not update.topic_states:
            return apply(cache, update)
        asyncio.get_running_loop().call_later(0.2, apply, cache, update)
        return frozenset()

    monkeypatch.setattr(MetadataCache, "apply", late)


async def restarted(w: World, broker: int = 0) -> MetadataCache:
    await w.kill(broker)
    async with asyncio.timeout(15):
        return (await w.start(broker)).parts.metadata


async def add_topic(session: Session, name: str, replica: int) -> None:
    node = layout.TopicNode(uuid.uuid4(), {0: Assignment((BrokerId(replica),))})
    await session.multi([Create(layout.topic_path(name), layout.encode_topic(node))])


@pytest.mark.usefixtures("topics_are_told_late")
async def test_it_is_ready_when_it_knows_the_topics(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        assert "t" in (await restarted(w)).snapshot.topics


async def test_it_does_not_wait_for_what_nobody_tells(tmp_path: Path) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0,))
        await w.create("doomed", (1,))
        await w.kill(1)
        session = w.brokers[0].parts.session
        await add_topic(session, "never-led", 7)
        await session.multi([Create(layout.delete_topic_path("doomed"))])
        assert (await restarted(w)).snapshot.topics.keys() == {"t"}


async def test_a_client_is_told_to_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_INTRODUCED_MS_MAX", 20)
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        cache = w.brokers[0].parts.metadata
        cache.snapshot, cache.is_introduced = MetadataSnapshot(), False
        connection = await w.connect(0)
        request = metadata.Request([metadata.MetadataRequestTopic(name="t")])
        answer = await connection.request(ApiKey.METADATA, 7, request)
        told = [(topic.name, topic.error_code) for topic in answer.topics]
        assert told == [("t", ErrorCode.LEADER_NOT_AVAILABLE)]
        await connection.close()
