"""What a request may be, before anybody reads it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from klamm.model.errors import ProtocolError
from klamm.protocol import codec, fetch, frames, private, produce, wire
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.bounds import SHORT_BYTES_MAX, Bounds, RequestKind, kind_of
from klamm.protocol.messages import (
    alter_partition_reassignments,
    create_topics,
    delete_records,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
)
from klamm.protocol.private import PrivateKey
from klamm.protocol.varint import uvarint

DEFAULT = Bounds()
TOPICS, EACH = 20_000, 10  # a large cluster, and its partitions a topic
NAMES = [f"a-name-as-long-as-most-are-{number:06}" for number in range(TOPICS)]


def _list_offsets() -> Any:
    partitions = [list_offsets.ListOffsetsPartition(n) for n in range(EACH)]
    return list_offsets.Request(
        topics=[list_offsets.ListOffsetsTopic(name, partitions) for name in NAMES]
    )


def _offset_commit() -> Any:
    partitions = [
        offset_commit.OffsetCommitRequestPartition(partition_index=n) for n in range(EACH)
    ]
    return offset_commit.Request(
        group_id="g",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=name,
                partitions=partitions,
            )
            for name in NAMES
        ],
    )


def _offset_fetch() -> Any:
    topics = [
        offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=list(range(EACH)))
        for name in NAMES
    ]
    return offset_fetch.Request(groups=[offset_fetch.OffsetFetchRequestGroup("g", topics=topics)])


def _create_topics() -> Any:
    partitions = [create_topics.CreatableReplicaAssignment(n, [1, 2, 3]) for n in range(EACH)]
    return create_topics.Request(
        topics=[
            create_topics.CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=partitions,
            )
            for name in NAMES
        ]
    )


def _delete_records() -> Any:
    partitions = [delete_records.DeleteRecordsPartition(n, 1) for n in range(EACH)]
    return delete_records.Request(
        topics=[delete_records.DeleteRecordsTopic(name, partitions) for name in NAMES]
    )


def _reassignments() -> Any:
    partitions = [
        alter_partition_reassignments.ReassignablePartition(n, [1, 2, 3]) for n in range(EACH)
    ]
    return alter_partition_reassignments.Request(
        topics=[
            alter_partition_reassignments.ReassignableTopic(
                name,
                partitions,
            )
            for name in NAMES
        ]
    )


@pytest.mark.parametrize(
    ("key", "make"),
    [
        (ApiKey.LIST_OFFSETS, _list_offsets),
        (ApiKey.OFFSET_COMMIT, _offset_commit),
        (ApiKey.OFFSET_FETCH, _offset_fetch),
        (ApiKey.CREATE_TOPICS, _create_topics),
        (ApiKey.DELETE_RECORDS, _delete_records),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, _reassignments),
    ],
)
def test_all_of_a_large_cluster_fits_one_request(key: ApiKey, make: Callable[[], Any]) -> None:
    version = min(APIS[key].served.high, 9)
    body = codec.encode_request(key, version, make())
    assert len(body) < DEFAULT.bytes_of(key)
    codec.decode_request(key, version, body, DEFAULT.items_of(key))


def test_every_api_has_a_bound_and_only_records_and_brokers_get_it_all() -> None:
    for key in (*APIS, *PrivateKey, 12_345):
        most = DEFAULT.bytes_of(key)
        if kind_of(key) in (RequestKind.RECORDS, RequestKind.BROKERS):
            assert most == DEFAULT.frame_bytes
        else:
            assert most <= DEFAULT.body_bytes
    assert DEFAULT.bytes_of(ApiKey.HEARTBEAT) == DEFAULT.bytes_of(12_345) == SHORT_BYTES_MAX
    assert DEFAULT.bytes_of(PrivateKey.EXPLAIN) == DEFAULT.private_bytes
    assert Bounds(frame_bytes=1_000).bytes_of(ApiKey.METADATA) == 1_000
    assert DEFAULT.bytes_of_any == SHORT_BYTES_MAX


@pytest.mark.parametrize("in_steps", [False, True])
def test_a_request_is_read_no_further_than_to_the_last_item_it_may_have(in_steps: bool) -> None:
    def read(count: int) -> Any:
        topics = [metadata.MetadataRequestTopic(name="x") for _ in range(count)]
        body = codec.encode_request(ApiKey.METADATA, 9, metadata.Request(topics=topics))
        if not in_steps:
            return codec.decode_request(ApiKey.METADATA, 9, body, 100)
        steps = codec.decode_request_in_steps(ApiKey.METADATA, 9, body, 100)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    assert len(read(100).topics) == 100
    with pytest.raises(ProtocolError, match="more items than a request may have"):
        read(101)


def test_items_of_all_lists_count_together_and_four_numbers_as_one() -> None:
    def read(items_max: int) -> Any:
        topic = offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=list(range(40)))
        groups = [offset_fetch.OffsetFetchRequestGroup("g", topics=[topic]) for _ in range(2)]
        body = codec.encode_request(ApiKey.OFFSET_FETCH, 8, offset_fetch.Request(groups=groups))
        return codec.decode_request(ApiKey.OFFSET_FETCH, 8, body, items_max)

    assert len(read(2 + 2 * (1 + 10)).groups) == 2
    with pytest.raises(ProtocolError):
        read(2 + 2 * (1 + 10) - 1)


def test_tagged_fields_by_the_million_are_refused() -> None:
    section = uvarint(1_000_000) + b"\x63\x00" * 1_000_000
    with pytest.raises(ProtocolError, match="tagged fields"):
        codec.decode_request(ApiKey.METADATA, 9, b"\x00\0\0\0" + section)
    with pytest.raises(ProtocolError, match="tagged fields"):
        wire.read_tags(memoryview(section), 0)
    head = struct.pack(">hhih", ApiKey.METADATA, 9, 1, -1)
    with pytest.raises(ProtocolError, match="tagged fields"):
        frames.parse_request_header(head + section)


def test_partitions_of_a_produce_and_a_fetch_are_counted() -> None:
    records = [produce.PartitionRecords(n, None) for n in range(20)]
    request = produce.ProduceRequest(topics=[produce.TopicRecords("t", records)])
    body = memoryview(b"".join(produce.encode_request(9, request)))
    assert len(produce.parse_request(9, body, 21).topics[0].partitions) == 20
    with pytest.raises(ProtocolError, match="more items"):
        produce.parse_request(9, body, 20)
    wanted = [fetch.FetchPartition(n) for n in range(20)]
    topic = fetch.FetchTopic("t", metadata.MetadataRequestTopic().topic_id, wanted)
    asked = memoryview(fetch.encode_request(11, fetch.FetchRequest(topics=[topic])))
    assert len(fetch.parse_request(11, asked, 21).topics[0].partitions) == 20
    with pytest.raises(ProtocolError, match="more items"):
        fetch.parse_request(11, asked, 20)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 1_000_000,
        b'{"a":' * 50_000,
        b'{"a":"' + b'\\"' * 50 + b'",' + b'"b":' + b"[" * 40 + b"]" * 40 + b"}",
        b"{" + b'"x":[],' * 40 + b"]" * 40,
        b'{"a":' + b"9" * 5_000 + b"}",
        b'"' * 100_000,
        b'{"a":[' + b"1," * 5_000 + b"1]}",
    ],
)
def test_a_private_body_is_looked_at_from_outside_before_it_is_read(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        private.decode(body, 1_000)


def test_a_private_body_may_have_brackets_in_texts_and_be_as_deep_as_anybody_needs() -> None:
    value: Any = {"text": "[[{{" * 50 + '\\"' * 40, "n": 1}
    for _ in range(12):
        value = {"in": [value, []]}
    assert private.decode(json.dumps(value).encode(), 1_000) == value
