"""OffsetFetch (key 9), versions 1-10. Generated."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, int64, string, uuid_


@dataclass(slots=True)
class OffsetFetchRequestTopics:
    topic_id: uuid.UUID = uuid_(versions="10+")
    name: str = string(versions="8-9")
    partition_indexes: list[int] = array("int32")


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string(default=None, nullable="9+", versions="9+")
    member_epoch: int = int32(default=-1, versions="9+")
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="8+")


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    name: str = string()
    partition_indexes: list[int] = array("int32")


@dataclass(slots=True)
class Request:
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, versions="8+")
    group_id: str = string(versions="1-7")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, nullable="2-7", versions="1-7"
    )
    require_stable: bool = boolean(versions="7+")


@dataclass(slots=True)
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(default=None, nullable="8+")
    error_code: int = int16()


@dataclass(slots=True)
class OffsetFetchResponseTopics:
    topic_id: uuid.UUID = uuid_(versions="10+")
    name: str = string(versions="8-9")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1, versions="5-7")
    metadata: str | None = string(default=None, nullable="1-7")
    error_code: int = int16()


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="3+")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, versions="8+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, versions="1-7")
    error_code: int = int16(versions="2-7")
