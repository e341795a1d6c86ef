"""Fetch (key 1), versions 0-17. By hand."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, int64, octets, string, struct, uuid_


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@dataclass(slots=True)
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1, versions="9+")
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(default=-1, versions="12+")
    log_start_offset: int = int64(default=-1, versions="5+")
    partition_max_bytes: int = int32()
    replica_directory_id: uuid.UUID = uuid_(versions="17+", tag=0)


@dataclass(slots=True)
class FetchTopic:
    topic_id: uuid.UUID = uuid_(versions="13+")
    topic: str = string(versions="0-12")
    partitions: list[FetchPartition] = array(FetchPartition)


@dataclass(slots=True)
class ForgottenTopic:
    topic_id: uuid.UUID = uuid_(versions="13+")
    topic: str = string(versions="7-12")
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class Request:
    cluster_id: str | None = string(default=None, nullable="12+", versions="12+", tag=0)
    replica_state: ReplicaState = struct(ReplicaState, versions="15+", tag=1)
    replica_id: int = int32(default=-1, versions="0-14")
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647, versions="3+")
    isolation_level: int = int8(versions="4+")
    session_id: int = int32(versions="7+")
    session_epoch: int = int32(default=-1, versions="7+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, versions="7+")
    rack_id: str = string(versions="11+")


@dataclass(slots=True)
class EpochEndOffset:
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@dataclass(slots=True)
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@dataclass(slots=True)
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1, versions="4+")
    log_start_offset: int = int64(default=-1, versions="5+")
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, versions="12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, versions="12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, versions="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, nullable="4+", versions="4+"
    )
    preferred_read_replica: int = int32(default=-1, versions="11+")
    records: bytes | None = octets(nullable="0+")


@dataclass(slots=True)
class FetchableTopicResponse:
    topic_id: uuid.UUID = uuid_(versions="13+")
    topic: str = string(versions="0-12")
    partitions: list[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, nullable="16+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16(versions="7+")
    session_id: int = int32(versions="7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="16+", tag=0)
