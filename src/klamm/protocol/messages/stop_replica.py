"""StopReplica (key 5), versions 0-4: the controller takes replicas from a broker.

Whether the files go too was said once for the whole request up to version 2, and is said for each
partition, with the leader epoch it was decided in, from 3 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, int64, string


@dataclass(slots=True)
class StopReplicaPartitionV0:
    topic_name: str = string()
    partition_index: int = int32()


@dataclass(slots=True)
class StopReplicaTopicV1:
    name: str = string()
    partition_indexes: list[int] = array("int32")


@dataclass(slots=True)
class StopReplicaPartitionState:
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@dataclass(slots=True)
class StopReplicaTopicState:
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


@dataclass(slots=True)
class Request:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1, versions="1+")
    delete_partitions: bool = boolean(versions="0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, versions="0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, versions="1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, versions="3+")


@dataclass(slots=True)
class StopReplicaPartitionError:
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
