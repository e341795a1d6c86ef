"""Metadata (key 3), versions 0-12. Generated."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, string, uuid_


@dataclass(slots=True)
class MetadataRequestTopic:
    topic_id: uuid.UUID = uuid_(versions="10+")
    name: str | None = string(nullable="10+")


@dataclass(slots=True)
class Request:
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(default=True, versions="4+")
    include_cluster_authorized_operations: bool = boolean(versions="8-10")
    include_topic_authorized_operations: bool = boolean(versions="8+")


@dataclass(slots=True)
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, nullable="1+", versions="1+")


@dataclass(slots=True)
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, versions="7+")
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", versions="5+")


@dataclass(slots=True)
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: uuid.UUID = uuid_(versions="10+")
    is_internal: bool = boolean(versions="1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(default=-2147483648, versions="8+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(default=None, nullable="2+", versions="2+")
    controller_id: int = int32(default=-1, versions="1+")
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(default=-2147483648, versions="8-10")
