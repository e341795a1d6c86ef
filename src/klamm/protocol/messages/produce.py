"""Produce (key 0), versions 0-11. By hand."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, octets, string, struct


@dataclass(slots=True)
class PartitionProduceData:
    index: int = int32()
    records: bytes | None = octets(nullable="0+")


@dataclass(slots=True)
class TopicProduceData:
    name: str = string()
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@dataclass(slots=True)
class Request:
    transactional_id: str | None = string(default=None, nullable="3+", versions="3+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(default=None, nullable="8+")


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@dataclass(slots=True)
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1, versions="2+")
    log_start_offset: int = int64(default=-1, versions="5+")
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, versions="8+")
    error_message: str | None = string(default=None, nullable="8+", versions="8+")
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, versions="10+", tag=0)


@dataclass(slots=True)
class TopicProduceResponse:
    name: str = string()
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, nullable="10+")


@dataclass(slots=True)
class Response:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(versions="1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="10+", tag=0)
