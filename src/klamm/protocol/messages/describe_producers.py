"""DescribeProducers (key 61), versions 0. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, string


@dataclass(slots=True)
class TopicRequest:
    name: str = string()
    partition_indexes: list[int] = array("int32")


@dataclass(slots=True)
class Request:
    topics: list[TopicRequest] = array(TopicRequest)


@dataclass(slots=True)
class ProducerState:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@dataclass(slots=True)
class PartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState)


@dataclass(slots=True)
class TopicResponse:
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
