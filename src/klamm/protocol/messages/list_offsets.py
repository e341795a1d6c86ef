"""ListOffsets (key 2), versions 0-9. By hand."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, int64, string


@dataclass(slots=True)
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32(default=-1, versions="4+")
    timestamp: int = int64()
    max_num_offsets: int = int32(default=1, versions="0")


@dataclass(slots=True)
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@dataclass(slots=True)
class Request:
    replica_id: int = int32()
    isolation_level: int = int8(versions="2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)


@dataclass(slots=True)
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1, versions="1+")
    offset: int = int64(default=-1, versions="1+")
    leader_epoch: int = int32(default=-1, versions="4+")
    old_style_offsets: list[int] = array("int64", versions="0")


@dataclass(slots=True)
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
