"""OffsetForLeaderEpoch (key 23), versions 0-4. By hand."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, string


@dataclass(slots=True)
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1, versions="2+")
    leader_epoch: int = int32()


@dataclass(slots=True)
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@dataclass(slots=True)
class Request:
    replica_id: int = int32(default=-2, versions="3+")
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@dataclass(slots=True)
class EpochEndOffset:
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1, versions="1+")
    end_offset: int = int64(default=-1)


@dataclass(slots=True)
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="2+")
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
