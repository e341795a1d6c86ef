from __future__ import annotations

import asyncio
import uuid

import pytest

from klamm.broker import metadata_cache
from klamm.broker.metadata_cache import MetadataCache
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages.update_metadata import (
    Request,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)

ID = uuid.UUID(int=7)


def state(
    index: int, leader: int = 0, epoch: int = 1, **fields: str
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index, leader=leader, leader_epoch=epoch, isr=[0], replicas=[0], **fields
    )


def update(
    *states: UpdateMetadataPartitionState,
    topic: str = "t",
    topic_id: uuid.UUID = ID,
    brokers: tuple[int, ...] = (0, 1),
) -> Request:
    topics = [UpdateMetadataTopicState(topic, topic_id, list(states))] if states else []
    return Request(
        controller_id=1,
        topic_states=topics,
        live_brokers=[
            UpdateMetadataBroker(
                id=b, endpoints=[UpdateMetadataEndpoint(9092 + b, "h", "PLAINTEXT")]
            )
            for b in brokers
        ],
    )


def test_partitions_are_merged_and_brokers_replaced() -> None:
    cache = MetadataCache()
    cache.apply(update(state(0), state(1)))
    before = cache.snapshot
    cache.apply(update(state(1, leader=1, epoch=2), brokers=(1,)))
    assert set(cache.snapshot.topics["t"]) == {0, 1}
    assert cache.snapshot.topics["t"][1].leader == 1
    assert set(cache.snapshot.brokers) == {1}
    assert cache.snapshot.controller_id == 1
    assert before.topics["t"][1].leader == 0, "a snapshot does not change"


def test_partitions_that_stand_alike_are_held_once_on_all_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_cache, "_ALIKE_MAX", 3)
    one, other = MetadataCache(), MetadataCache()
    one.apply(update(*map(state, range(5))))
    other.apply(update(*map(state, range(5))))
    seen = [*one.snapshot.topics["t"].values(), *other.snapshot.topics["t"].values()]
    assert len({id(info) for info in seen}) == 1
    # With more ways to stand than are kept, each is as it was told.
    other.apply(update(*(state(index, epoch=2 + index) for index in range(5))))
    assert [info.leader_epoch for info in other.snapshot.topics["t"].values()] == [2, 3, 4, 5, 6]
    assert {info.leader_epoch for info in one.snapshot.topics["t"].values()} == {1}
    assert len(metadata_cache._alike) <= 3


def test_the_brokers_with_a_listener_are_those_of_the_moment() -> None:
    cache = MetadataCache()
    cache.apply(update(state(0)))
    assert cache.snapshot.listening("PLAINTEXT") == {0, 1}
    assert cache.snapshot.listening("SSL") == frozenset()
    cache.apply(update(brokers=(1,)))
    assert cache.snapshot.listening("PLAINTEXT") == {1}


def test_an_update_without_partitions_leaves_them_alone() -> None:
    cache = MetadataCache()
    cache.apply(update(state(0)))
    cache.apply(update(brokers=(0,)))
    assert set(cache.snapshot.topics) == {"t"}


def test_a_topic_goes_with_its_last_partition() -> None:
    cache = MetadataCache()
    cache.apply(update(state(0), state(1)))
    assert cache.apply(update(state(0, leader=-2))) == {TopicPartition("t", 0)}
    assert cache.snapshot.topic_names[ID] == "t"
    cache.apply(update(state(1, leader=-2)))
    assert "t" not in cache.snapshot.topics
    assert cache.snapshot.topic_ids == {}
    assert cache.snapshot.topic_names == {}
    assert cache.apply(update(state(1, leader=-2))) == frozenset()


def test_a_topic_created_again_has_its_new_id_only() -> None:
    cache = MetadataCache()
    cache.apply(update(state(0), state(1)))
    other = uuid.UUID(int=8)
    gone = cache.apply(update(state(0), topic_id=other))
    assert cache.snapshot.topic_names == {other: "t"}
    assert set(cache.snapshot.topics["t"]) == {0}, "the new one has fewer partitions"
    assert gone == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_topics_that_are_no_more_are_forgotten() -> None:
    cache = MetadataCache()
    cache.apply(update(state(0), state(1)))
    cache.apply(update(state(0), topic="u", topic_id=uuid.UUID(int=9)))
    assert cache.forget(["t", "unknown"]) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert set(cache.snapshot.topics) == {"u"}
    assert cache.snapshot.topic_names == {uuid.UUID(int=9): "u"}


def test_old_versions_name_the_topic_in_each_state() -> None:
    cache = MetadataCache()
    cache.apply(
        Request(
            ungrouped_partition_states=[state(0, topic_name="a"), state(0, topic_name="b")],
            live_brokers=[UpdateMetadataBroker(id=0, v0_host="h", v0_port=9)],
        )
    )
    assert set(cache.snapshot.topics) == {"a", "b"}
    endpoint = cache.snapshot.endpoint(BrokerId(0), "PLAINTEXT")
    assert endpoint is not None
    assert endpoint.port == 9


async def test_waiting_ends_with_the_snapshot_that_satisfies_it_or_with_the_time() -> None:
    cache = MetadataCache()
    waiting = asyncio.create_task(cache.wait_for(lambda s: "t" in s.topics, 5_000))
    await asyncio.sleep(0)
    cache.apply(update())
    await asyncio.sleep(0)
    assert not waiting.done()
    cache.apply(update(state(0)))
    assert await waiting
    assert not await cache.wait_for(lambda s: "u" in s.topics, 1)
