"""Large requests on a real broker: bounded, worked on in slices, answered without repetition."""

from __future__ import annotations

import asyncio
import logging
import uuid
from pathlib import Path
from typing import Any

import pytest

from klamm.client.aio.connection import Connection
from klamm.client.errors import ConnectionLost
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    alter_partition,
    api_versions,
    consumer_group_describe,
    create_topics,
    delete_records,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    fetch,
    list_offsets,
    metadata,
    offset_fetch,
)
from klamm.protocol.private import PrivateKey
from klamm.protocol.varint import uvarint
from unit.broker.brokers import World, world

FEW = {"klamm_request_max_items": "1000", "klamm_request_max_bytes": "65536"}


async def small(connection: Connection) -> int:
    response = await connection.request(ApiKey.API_VERSIONS, 0, api_versions.Request())
    return int(response.error_code)


def empty_names(count: int) -> bytes:
    return uvarint(count + 1) + b"\x01\x00" * count + b"\0\0\0\0"


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.METADATA, 9, empty_names(1_001)),
        (ApiKey.METADATA, 9, empty_names(20_000)),
        (ApiKey.METADATA, 9, empty_names(40_000)),
        (ApiKey.FIND_COORDINATOR, 4, b"\0" + uvarint(5_001) + b"\x02k" * 5_000 + b"\0"),
        (ApiKey.PRODUCE, 9, b"\0\0\x01\0\0\0\0" + uvarint(202) + b"\x02t\x01\x00" * 201 + b"\0"),
        (ApiKey.HEARTBEAT, 4, bytes(300_000)),
    ],
)
async def test_more_than_may_be_read_closes_the_connection_and_nobody_elses(
    tmp_path: Path, key: ApiKey, version: int, body: bytes
) -> None:
    async with world(tmp_path, count=1, **FEW) as w:
        hostile, other = await w.connect(0), await w.connect(0)
        with pytest.raises(ConnectionLost):
            await hostile.exchange(key, version, (body,), timeout_s=5)
        assert await small(other) == 0
        await hostile.close()
        await other.close()


async def test_a_stranger_has_no_long_list_of_what_is_for_brokers_read(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        stranger = await w.connect(0)
        body = uvarint(200_001) + bytes(1_000_000)
        with pytest.raises(ConnectionLost):
            await stranger.exchange(ApiKey.WRITE_TXN_MARKERS, 1, (body,), timeout_s=5)
        await stranger.close()


def named(count: int) -> list[metadata.MetadataRequestTopic]:
    return [metadata.MetadataRequestTopic(name=f"t{at}") for at in range(count)]


async def overtaken(w: World, key: ApiKey, version: int, request: Any) -> Any:
    """The answer to a large request, which small ones of somebody else have overtaken."""
    large, other = await w.connect(0), await w.connect(0)
    await small(other)
    working = asyncio.ensure_future(large.request(key, version, request))
    count = 0
    while not working.done():
        assert await small(other) == 0
        count += 1
    assert count >= 5, "nobody else was let in"
    await large.close()
    await other.close()
    return working.result()


async def test_others_are_served_while_a_large_request_is_worked_on(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        asked = metadata.Request(topics=named(30_000), allow_auto_topic_creation=False)
        answer = await overtaken(w, ApiKey.METADATA, 9, asked)
        assert len(answer.topics) == 30_000
        partitions = [list_offsets.ListOffsetsPartition(n) for n in range(30_000)]
        topics = [list_offsets.ListOffsetsTopic("t", partitions)]
        asked = list_offsets.Request(replica_id=-1, topics=topics)
        answer = await overtaken(w, ApiKey.LIST_OFFSETS, 6, asked)
        codes = [p.error_code for p in answer.topics[0].partitions]
        assert codes[0] == 0
        assert set(codes[1:]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        wanted = [fetch.FetchPartition(partition=n) for n in range(20_000)]
        asked = fetch.Request(
            topics=[fetch.FetchTopic("t", partitions=wanted)], max_wait_ms=0, replica_id=-1
        )
        answer = await overtaken(w, ApiKey.FETCH, 11, asked)
        assert len(answer.responses[0].partitions) == 20_000
        doomed = [delete_records.DeleteRecordsPartition(n, -1) for n in range(20_000)]
        topics = [delete_records.DeleteRecordsTopic("t", doomed)]
        answer = await overtaken(
            w, ApiKey.DELETE_RECORDS, 2, delete_records.Request(topics, timeout_ms=1_000)
        )
        assert [p.error_code for p in answer.topics[0].partitions][:2] == [0, 3]


async def test_what_is_asked_for_twice_is_told_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, count=1) as w:
            await w.create("t", (0,))
            connection = await w.connect(0)

            async def ask(key: ApiKey, version: int, request: Any) -> Any:
                return await connection.request(key, version, request)

            topic_id = w.brokers[0].parts.metadata.snapshot.topic_ids["t"]
            by_id = metadata.MetadataRequestTopic(topic_id=topic_id, name=None)
            asked = metadata.Request(topics=[by_id] * 50 + named(1) * 50)
            assert len((await ask(ApiKey.METADATA, 12, asked)).topics) == 2
            unknown = metadata.MetadataRequestTopic(topic_id=uuid.uuid4(), name=None)
            asked = metadata.Request(topics=[unknown] * 50)
            assert len((await ask(ApiKey.METADATA, 12, asked)).topics) == 1
            resource = describe_configs.DescribeConfigsResource(2, "t", None)
            asked = describe_configs.Request(resources=[resource] * 50)
            assert len((await ask(ApiKey.DESCRIBE_CONFIGS, 4, asked)).results) == 1
            groups = ["g"] * 50
            found = await ask(ApiKey.DESCRIBE_GROUPS, 5, describe_groups.Request(groups))
            assert len(found.groups) == 1
            found = await ask(
                ApiKey.CONSUMER_GROUP_DESCRIBE, 0, consumer_group_describe.Request(groups)
            )
            assert len(found.groups) == 1
            found = await ask(
                ApiKey.DESCRIBE_TRANSACTIONS, 0, describe_transactions.Request(groups)
            )
            assert len(found.transaction_states) == 1
            topics = [describe_producers.TopicRequest("t", [0] * 10)] * 10
            found = await ask(ApiKey.DESCRIBE_PRODUCERS, 0, describe_producers.Request(topics))
            assert [len(t.partitions) for t in found.topics] == [1]
            group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
            asked = offset_fetch.Request(groups=[group] * 50)
            assert len((await ask(ApiKey.OFFSET_FETCH, 8, asked)).groups) == 1
            await connection.close()

    await run()


async def test_very_many_creations_are_told_without_their_settings(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, count=1) as w:
            connection = await w.connect(0)

            async def configs(count: int) -> list[Any]:
                asked = create_topics.Request(
                    topics=[create_topics.CreatableTopic(f"n{at}", 1, 1) for at in range(count)],
                    validate_only=True,
                )
                answer = await connection.request(ApiKey.CREATE_TOPICS, 7, asked)
                assert {t.error_code for t in answer.topics} == {0}
                return [(t.configs, t.topic_config_error_code) for t in answer.topics]

            told, code = (await configs(1))[0]
            assert len(told) > 20
            assert code == 0
            assert set(map(str, await configs(5_001))) == {f"(None, {ErrorCode.INVALID_REQUEST:d})"}
            await connection.close()

    await run()


async def test_a_question_creates_so_many_topics_and_no_more(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, count=1) as w:
            broker = w.brokers[0]
            asked_for: list[int] = []

            async def create(names: Any, client: Any) -> dict[str, ErrorCode]:
                asked_for.append(len(names))
                return {}

            broker.parts.auto_creation.create = create  # type: ignore[method-assign]
            connection = await w.connect(0)
            asked = metadata.Request(topics=named(5_000), allow_auto_topic_creation=True)
            answer = await connection.request(ApiKey.METADATA, 9, asked)
            assert asked_for == [1_000]
            assert len(answer.topics) == 5_000
            await connection.close()

    await run()


async def test_an_unknown_recovery_state_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with world(tmp_path, count=1) as w:
            connection = await w.connect_as_broker(0)
            partition = alter_partition.PartitionData(new_isr=[0], leader_recovery_state=77)
            topic = alter_partition.TopicData(topic_id=uuid.uuid4(), partitions=[partition])
            asked = alter_partition.Request(broker_id=0, broker_epoch=1, topics=[topic])
            answer = await connection.request(ApiKey.ALTER_PARTITION, 2, asked)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            await connection.close()

    with caplog.at_level(logging.ERROR):
        await run()
    assert not caplog.records


ODD: tuple[Any, ...] = (None, [], {}, "x", -1, 1.5, 10**30, True, [[]], [None], "\x00/..")
FIELDS = ("topic", "topics", "limit", "after", "broker", "timeout_ms", "waiting", "kind")
FIELDS += ("partitions", "broker_epoch", "controller_epoch", "topic_id", "records")


@pytest.mark.parametrize("key", [k for k in PrivateKey if k is not PrivateKey.ROLL_CALL])
async def test_a_private_request_of_odd_things_is_a_refusal_never_a_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: PrivateKey
) -> None:
    async def run() -> None:
        async with world(tmp_path, count=1) as w:
            await w.create("t", (0,))
            connection = await w.connect(0)
            for field in FIELDS:
                for odd in ODD:
                    request = {"kind": "delete", "topics": [], "timeout_ms": 0, field: odd}
                    try:
                        answer = await connection.ask(key, request)
                        assert answer["error_code"] != -1, (field, odd, answer)
                    except ConnectionLost:
                        connection = await w.connect(0)
            await connection.close()

    with caplog.at_level(logging.ERROR):
        await run()
    assert not caplog.records
