"""UpdateMetadata (key 6), versions 0-8: the controller tells a broker what to tell its clients.

The live brokers replace what the receiver knew; the partition states are merged into it. Up to
version 4 the states stand in one list and name their topic; from 5 on they are grouped by topic.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int8, int16, int32, int64, string, uuid_


@dataclass(slots=True)
class UpdateMetadataPartitionState:
    topic_name: str = string(versions="0-4")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    zk_version: int = int32()
    replicas: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", versions="4+")


@dataclass(slots=True)
class UpdateMetadataTopicState:
    topic_name: str = string()
    topic_id: uuid.UUID = uuid_(versions="7+")
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


@dataclass(slots=True)
class UpdateMetadataEndpoint:
    port: int = int32()
    host: str = string()
    listener: str = string(versions="3+")
    security_protocol: int = int16()


@dataclass(slots=True)
class UpdateMetadataBroker:
    id: int = int32()
    v0_host: str = string(versions="0")
    v0_port: int = int32(versions="0")
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, versions="1+")
    rack: str | None = string(default=None, nullable="2+", versions="2+")


@dataclass(slots=True)
class Request:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="8+")
    type: int = int8(versions="8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1, versions="5+")
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, versions="0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, versions="5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@dataclass(slots=True)
class Response:
    error_code: int = int16()
