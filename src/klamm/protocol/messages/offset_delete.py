"""OffsetDelete (key 47), versions 0. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, string


@dataclass(slots=True)
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@dataclass(slots=True)
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@dataclass(slots=True)
class Request:
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@dataclass(slots=True)
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
