"""ListPartitionReassignments (key 46), versions 0. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, string


@dataclass(slots=True)
class ListPartitionReassignmentsTopics:
    name: str = string()
    partition_indexes: list[int] = array("int32")


@dataclass(slots=True)
class Request:
    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+"
    )


@dataclass(slots=True)
class OngoingPartitionReassignment:
    partition_index: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32")
    removing_replicas: list[int] = array("int32")


@dataclass(slots=True)
class OngoingTopicReassignment:
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
