"""CreateTopics (key 19), versions 0-7. By hand."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int8, int16, int32, string, uuid_


@dataclass(slots=True)
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: list[int] = array("int32")


@dataclass(slots=True)
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@dataclass(slots=True)
class Request:
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(versions="1+")


@dataclass(slots=True)
class CreatableTopicConfigs:
    name: str = string()
    value: str | None = string(default=None, nullable="5+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@dataclass(slots=True)
class CreatableTopicResult:
    name: str = string()
    topic_id: uuid.UUID = uuid_(versions="7+")
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="1+", versions="1+")
    topic_config_error_code: int = int16(versions="5+", tag=0)
    num_partitions: int = int32(default=-1, versions="5+")
    replication_factor: int = int16(default=-1, versions="5+")
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, nullable="5+", versions="5+"
    )


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="2+")
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
