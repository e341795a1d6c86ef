"""AlterPartition (key 56), versions 0-3. Before version 2 topics go by their names."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, int64, string, uuid_


@dataclass(slots=True)
class BrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, versions="3+")
    new_isr: list[int] = array("int32", versions="0-2")
    leader_recovery_state: int = int8(versions="1+")
    partition_epoch: int = int32()


@dataclass(slots=True)
class TopicData:
    topic_name: str = string(versions="0-1")
    topic_id: uuid.UUID = uuid_(versions="2+")
    partitions: list[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class Request:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicData] = array(TopicData)


@dataclass(slots=True)
class PartitionDataResponse:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    leader_recovery_state: int = int8(versions="1+")
    partition_epoch: int = int32()


@dataclass(slots=True)
class TopicDataResponse:
    topic_name: str = string(versions="0-1")
    topic_id: uuid.UUID = uuid_(versions="2+")
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
