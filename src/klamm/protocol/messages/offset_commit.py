"""OffsetCommit (key 8), versions 1-10. By hand."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, string, uuid_


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1, versions="6+")
    commit_timestamp: int = int64(default=-1, versions="1")
    committed_metadata: str | None = string(default=None, nullable="1+")


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    topic_id: uuid.UUID = uuid_(versions="10+")
    name: str = string(versions="1-9")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@dataclass(slots=True)
class Request:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="7+", versions="7+")
    retention_time_ms: int = int64(default=-1, versions="2-4")
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    topic_id: uuid.UUID = uuid_(versions="10+")
    name: str = string(versions="1-9")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
