"""ConsumerGroupHeartbeat (key 68), versions 0-1. Generated."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, string, struct, uuid_


@dataclass(slots=True)
class TopicPartitions:
    topic_id: uuid.UUID = uuid_()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class Request:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array("string", default=None, nullable="0+")
    subscribed_topic_regex: str | None = string(default=None, nullable="1+", versions="1+")
    server_assignor: str | None = string(default=None, nullable="0+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")


@dataclass(slots=True)
class TopicPartitionsResponse:
    topic_id: uuid.UUID = uuid_()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitionsResponse] = array(TopicPartitionsResponse)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")
