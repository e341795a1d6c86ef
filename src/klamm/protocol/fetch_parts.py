"""The parts of Fetch requests and responses, in the order of the newest version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from klamm.protocol.wire import CurrentLeader, NodeEndpoint

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
NO_SESSION_EPOCH: Final = -1


class StoredRecords(Protocol):
    """Records that are still in a file."""

    @property
    def size(self) -> int: ...


class FetchPartition(NamedTuple):
    """From where one partition is wanted; the order is that of the newest version."""

    partition: int
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 1_048_576


class FetchTopic(NamedTuple):
    """The wanted part of one topic: by name below version 13, by id from there on."""

    name: str
    topic_id: UUID
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """The partitions to remove from a session."""

    name: str
    topic_id: UUID
    partitions: list[int]


@dataclass(slots=True)
class FetchRequest:
    """A request; `replica_id` is -1 for a consumer, wherever the version puts it."""

    replica_id: int = -1
    replica_epoch: int = -1
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = READ_UNCOMMITTED
    session_id: int = 0
    session_epoch: int = NO_SESSION_EPOCH
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""
    cluster_id: str | None = None


class DivergingEpoch(NamedTuple):
    """The end of an epoch, where a follower's log diverges from the leader's (KIP-595)."""

    epoch: int = -1
    end_offset: int = -1


class AbortedTransaction(NamedTuple):
    """A producer whose records from this offset on a committed reader skips."""

    producer_id: int
    first_offset: int


class PartitionData(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    records: bytes | memoryview | StoredRecords = b""
    diverging_epoch: DivergingEpoch | None = None
    current_leader: CurrentLeader | None = None


def size_of(data: PartitionData) -> int:
    """The number of bytes of records."""
    records = data.records
    return len(records) if isinstance(records, bytes | memoryview) else records.size


class TopicData(NamedTuple):
    """The answer for one topic."""

    name: str
    topic_id: UUID
    partitions: list[PartitionData]


@dataclass(slots=True)
class FetchResponse:
    """A response, in the order of the wire."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    topics: list[TopicData] = field(default_factory=list)
    node_endpoints: Sequence[NodeEndpoint] = ()
