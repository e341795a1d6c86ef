"""ElectLeaders (key 43), versions 0-2. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, string


@dataclass(slots=True)
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class Request:
    election_type: int = int8(versions="1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


@dataclass(slots=True)
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class ReplicaElectionResult:
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16(versions="1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
