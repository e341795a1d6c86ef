"""CreatePartitions (key 37), versions 0-3. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, string


@dataclass(slots=True)
class CreatePartitionsAssignment:
    broker_ids: list[int] = array("int32")


@dataclass(slots=True)
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@dataclass(slots=True)
class Request:
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
