"""ConsumerGroupDescribe (key 69), versions 0-1. Generated."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int8, int16, int32, string, struct, uuid_


@dataclass(slots=True)
class Request:
    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


@dataclass(slots=True)
class TopicPartitions:
    topic_id: uuid.UUID = uuid_()
    topic_name: str = string()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@dataclass(slots=True)
class Member:
    member_id: str = string()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(default=None, nullable="0+")
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8(default=-1, versions="1+")


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
