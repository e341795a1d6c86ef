"""Versions that Kafka 3.9 still serves and Kafka 4 does not, byte by byte."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from klamm.protocol import codec
from klamm.protocol.apis import ApiKey as K
from klamm.protocol.messages import (
    alter_partition,
    alter_replica_log_dirs,
    create_acls,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_configs,
    describe_log_dirs,
    list_offsets,
    offset_commit,
    offset_for_leader_epoch,
    write_txn_markers,
)


def text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    return struct.pack(">h", len(value)) + value.encode()


def row(*items: bytes) -> bytes:
    """An array."""
    return struct.pack(">i", len(items)) + b"".join(items)


def n(layout: str, *numbers: int) -> bytes:
    return struct.pack(f">{layout}", *numbers)


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def compact_row(*items: bytes) -> bytes:
    """An array of a flexible version; what is in it may end with tagged fields."""
    return bytes([len(items) + 1]) + b"".join(items)


def _recovery(version: int) -> int:
    """The recovery state that a version can carry."""
    return int(version >= 1)


REQUESTS: list[tuple[K, int, Any, bytes]] = [
    *(
        (
            K.ALTER_PARTITION,
            version,
            alter_partition.Request(
                2,
                9,
                [
                    alter_partition.TopicData(
                        "t",
                        partitions=[
                            alter_partition.PartitionData(
                                4, 5, new_isr=[2, 3], leader_recovery_state=_recovery(version)
                            )
                        ],
                    )
                ],
            ),
            n("iq", 2, 9)
            + compact_row(
                compact("t")
                + compact_row(
                    n("ii", 4, 5)
                    + compact_row(n("i", 2), n("i", 3))
                    + n("b", 1) * version
                    + n("i", 0)
                    + b"\0"
                )
                + b"\0"
            )
            + b"\0",
        )
        for version in (0, 1)
    ),
    (
        K.LIST_OFFSETS,
        0,
        list_offsets.Request(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    "t", [list_offsets.ListOffsetsPartition(3, timestamp=-2, max_num_offsets=7)]
                )
            ],
        ),
        n("i", -1) + row(text("t") + row(n("iqi", 3, -2, 7))),
    ),
    (
        K.OFFSET_COMMIT,
        1,
        offset_commit.Request(
            group_id="g",
            generation_id_or_member_epoch=4,
            member_id="m",
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        offset_commit.OffsetCommitRequestPartition(
                            2, 9, commit_timestamp=8, committed_metadata="x"
                        )
                    ],
                )
            ],
        ),
        text("g") + n("i", 4) + text("m") + row(text("t") + row(n("iqq", 2, 9, 8) + text("x"))),
    ),
    (
        K.CREATE_TOPICS,
        0,
        create_topics.Request([create_topics.CreatableTopic("t", 1, 2)], 5),
        row(text("t") + n("ih", 1, 2) + row() + row()) + n("i", 5),
    ),
    (
        K.CREATE_TOPICS,
        1,
        create_topics.Request([create_topics.CreatableTopic("t", 1, 2)], 5, True),
        row(text("t") + n("ih", 1, 2) + row() + row()) + n("ib", 5, 1),
    ),
    (
        K.DELETE_TOPICS,
        0,
        delete_topics.Request(topic_names=["t"], timeout_ms=5),
        row(text("t")) + n("i", 5),
    ),
    *(
        (
            K.OFFSET_FOR_LEADER_EPOCH,
            version,
            offset_for_leader_epoch.Request(
                topics=[
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        "t",
                        [offset_for_leader_epoch.OffsetForLeaderPartition(1, leader_epoch=6)],
                    )
                ]
            ),
            row(text("t") + row(n("ii", 1, 6))),
        )
        for version in (0, 1)
    ),
    (
        K.WRITE_TXN_MARKERS,
        0,
        write_txn_markers.Request(
            [
                write_txn_markers.WritableTxnMarker(
                    5, 1, True, [write_txn_markers.WritableTxnMarkerTopic("t", [2])], 3
                )
            ]
        ),
        row(n("qhb", 5, 1, 1) + row(text("t") + row(n("i", 2))) + n("i", 3)),
    ),
    (
        K.DESCRIBE_ACLS,
        0,
        describe_acls.Request(2, "t", 3, None, "*", 1, 3),
        n("b", 2) + text("t") + text(None) + text("*") + n("bb", 1, 3),
    ),
    (
        K.CREATE_ACLS,
        0,
        create_acls.Request([create_acls.AclCreation(2, "t", 3, "User:a", "*", 1, 3)]),
        row(n("b", 2) + text("t") + text("User:a") + text("*") + n("bb", 1, 3)),
    ),
    (
        K.DELETE_ACLS,
        0,
        delete_acls.Request([delete_acls.DeleteAclsFilter(2, None, 3, "User:a", None, 1, 3)]),
        row(n("b", 2) + text(None) + text("User:a") + text(None) + n("bb", 1, 3)),
    ),
    (
        K.DESCRIBE_CONFIGS,
        0,
        describe_configs.Request([describe_configs.DescribeConfigsResource(2, "t", ["k"])]),
        row(n("b", 2) + text("t") + row(text("k"))),
    ),
    (
        K.ALTER_REPLICA_LOG_DIRS,
        0,
        alter_replica_log_dirs.Request(
            [
                alter_replica_log_dirs.AlterReplicaLogDir(
                    "/d", [alter_replica_log_dirs.AlterReplicaLogDirTopic("t", [1])]
                )
            ]
        ),
        row(text("/d") + row(text("t") + row(n("i", 1)))),
    ),
    (K.DESCRIBE_LOG_DIRS, 0, describe_log_dirs.Request(None), n("i", -1)),
]

RESPONSES: list[tuple[K, int, Any, bytes]] = [
    *(
        (
            K.ALTER_PARTITION,
            version,
            alter_partition.Response(
                topics=[
                    alter_partition.TopicDataResponse(
                        "t",
                        partitions=[
                            alter_partition.PartitionDataResponse(
                                4, 0, 2, 5, [2, 3], _recovery(version), 6
                            )
                        ],
                    )
                ]
            ),
            n("ih", 0, 0)
            + compact_row(
                compact("t")
                + compact_row(
                    n("ihii", 4, 0, 2, 5)
                    + compact_row(n("i", 2), n("i", 3))
                    + n("b", 1) * version
                    + n("i", 6)
                    + b"\0"
                )
                + b"\0"
            )
            + b"\0",
        )
        for version in (0, 1)
    ),
    (
        K.LIST_OFFSETS,
        0,
        list_offsets.Response(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    "t",
                    [list_offsets.ListOffsetsPartitionResponse(3, 0, old_style_offsets=[9, 4])],
                )
            ]
        ),
        row(text("t") + row(n("ih", 3, 0) + row(n("q", 9), n("q", 4)))),
    ),
    (
        K.CREATE_TOPICS,
        0,
        create_topics.Response(topics=[create_topics.CreatableTopicResult("t", error_code=36)]),
        row(text("t") + n("h", 36)),
    ),
    (
        K.CREATE_TOPICS,
        1,
        create_topics.Response(
            topics=[create_topics.CreatableTopicResult("t", error_code=36, error_message="no")]
        ),
        row(text("t") + n("h", 36) + text("no")),
    ),
    (
        K.DELETE_TOPICS,
        0,
        delete_topics.Response(responses=[delete_topics.DeletableTopicResult("t", error_code=3)]),
        row(text("t") + n("h", 3)),
    ),
    (
        K.OFFSET_FOR_LEADER_EPOCH,
        0,
        offset_for_leader_epoch.Response(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    "t", [offset_for_leader_epoch.EpochEndOffset(0, 1, end_offset=7)]
                )
            ]
        ),
        row(text("t") + row(n("hiq", 0, 1, 7))),
    ),
    (
        K.OFFSET_FOR_LEADER_EPOCH,
        1,
        offset_for_leader_epoch.Response(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    "t", [offset_for_leader_epoch.EpochEndOffset(0, 1, 6, 7)]
                )
            ]
        ),
        row(text("t") + row(n("hiiq", 0, 1, 6, 7))),
    ),
    (
        K.DESCRIBE_CONFIGS,
        0,
        describe_configs.Response(
            results=[
                describe_configs.DescribeConfigsResult(
                    0,
                    None,
                    2,
                    "t",
                    [
                        describe_configs.DescribeConfigsResourceResult(
                            "k", "v", read_only=False, is_default=True, is_sensitive=False
                        )
                    ],
                )
            ]
        ),
        n("i", 0)
        + row(
            n("h", 0)
            + text(None)
            + n("b", 2)
            + text("t")
            + row(text("k") + text("v") + n("bbb", 0, 1, 0))
        ),
    ),
    (
        K.DESCRIBE_ACLS,
        0,
        describe_acls.Response(
            0,
            0,
            None,
            [
                describe_acls.DescribeAclsResource(
                    2, "t", acls=[describe_acls.AclDescription("User:a", "*", 1, 3)]
                )
            ],
        ),
        n("ih", 0, 0)
        + text(None)
        + row(n("b", 2) + text("t") + row(text("User:a") + text("*") + n("bb", 1, 3))),
    ),
]


def _ids(cases: list[tuple[K, int, Any, bytes]]) -> list[str]:
    return [f"{key.name}-v{version}" for key, version, _, _ in cases]


@pytest.mark.parametrize(("key", "version", "message", "body"), REQUESTS, ids=_ids(REQUESTS))
def test_a_request_is_read_and_written(key: K, version: int, message: Any, body: bytes) -> None:
    assert codec.encode_request(key, version, message) == body
    assert codec.decode_request(key, version, body) == message


@pytest.mark.parametrize(("key", "version", "message", "body"), RESPONSES, ids=_ids(RESPONSES))
def test_a_response_is_read_and_written(key: K, version: int, message: Any, body: bytes) -> None:
    assert codec.encode_response(key, version, message) == body
    assert codec.decode_response(key, version, body) == message
