"""LeaderAndIsr (key 4), versions 0-7: the controller makes a broker lead or follow partitions.

Up to version 1 the partition states stand in one list and name their topic; from 2 on they are
grouped by topic. The answer is grouped, by topic id, from 5 on.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int8, int16, int32, int64, string, uuid_


@dataclass(slots=True)
class LeaderAndIsrPartitionState:
    topic_name: str = string(versions="0-1")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    partition_epoch: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32", versions="3+")
    removing_replicas: list[int] = array("int32", versions="3+")
    is_new: bool = boolean(versions="1+")
    leader_recovery_state: int = int8(versions="6+")


@dataclass(slots=True)
class LeaderAndIsrTopicState:
    topic_name: str = string()
    topic_id: uuid.UUID = uuid_(versions="5+")
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


@dataclass(slots=True)
class LeaderAndIsrLiveLeader:
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@dataclass(slots=True)
class Request:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1, versions="2+")
    type: int = int8(versions="5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, versions="0-1"
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, versions="2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


@dataclass(slots=True)
class LeaderAndIsrPartitionError:
    topic_name: str = string(versions="0-4")
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class LeaderAndIsrTopicError:
    topic_id: uuid.UUID = uuid_()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(
        LeaderAndIsrPartitionError, versions="0-4"
    )
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, versions="5+")
