"""TxnOffsetCommit (key 28), versions 0-4. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, string


@dataclass(slots=True)
class TxnOffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1, versions="2+")
    committed_metadata: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic:
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@dataclass(slots=True)
class Request:
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(default=-1, versions="3+")
    member_id: str = string(versions="3+")
    group_instance_id: str | None = string(default=None, nullable="3+", versions="3+")
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic:
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
