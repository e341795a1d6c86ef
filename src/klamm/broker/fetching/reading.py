"""Reads one partition for one fetch.

A consumer sees what is below the high watermark, or below the last stable offset when it reads only
committed records; a follower sees everything, and by asking for an offset says that it has all
below. A follower whose log has left the leader's is told where, and gets nothing.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import Final

from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.leaders import current_leader
from klamm.broker.replicas.partition import Partition, Role
from klamm.broker.replicas.refusals import epoch_fault
from klamm.log.partition import PartitionLog, StorageTrouble
from klamm.log.reading import Slice
from klamm.model.errors import ErrorCode
from klamm.model.names import NO_EPOCH, ZERO_ID, BrokerId, TopicPartition
from klamm.protocol.batch import Codec
from klamm.protocol.fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    DivergingEpoch,
    FetchPartition,
    PartitionData,
)
from klamm.replication.selection import Readable, Selector

log = logging.getLogger(__name__)

# From this version on a consumer may read from a follower (KIP-392).
_FOLLOWERS_SERVE_SINCE: Final = 11
# Readers of older versions do not know zstd, and are refused where a topic is stored so (KIP-110).
_ZSTD_SINCE: Final = 10
_STORAGE_ERROR_SINCE: Final = 6  # before, a failed disk is told as a leader that moved away
_LEADER_SINCE: Final = 16  # KIP-951
_LEADER_TOLD: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@dataclass(frozen=True, slots=True)
class FetchReader:
    """The reader of a partition, and its options."""

    version: int
    follower: BrokerId | None = None  # None for a consumer
    committed_only: bool = False
    rack: str = ""
    selector: Selector | None = None  # where consumers of other racks are sent

    @classmethod
    def of(
        cls, version: int, replica_id: int, isolation: int, rack: str, selector: Selector | None
    ) -> FetchReader:
        follower = BrokerId(replica_id) if replica_id >= 0 else None
        committed = isolation == READ_COMMITTED and follower is None
        return cls(version, follower, committed, rack, selector if rack else None)


def is_urgent(data: PartitionData) -> bool:
    """Whether this must be told at once, records or not."""
    return bool(
        data.error_code or data.diverging_epoch is not None or data.preferred_read_replica >= 0
    )


def goes_on(data: PartitionData) -> bool:
    """Whether more lies behind these records: an answer ends with a segment, and need not wait."""
    return isinstance(data.records, Slice) and data.records.goes_on


def left_out(data: PartitionData) -> int:
    """The bytes that had room in the answer, but are part of a batch that had not."""
    return data.records.left_out if isinstance(data.records, Slice) else 0


def read(
    hosting: Hosting,
    reader: FetchReader,
    topic_partition: TopicPartition,
    topic_id: uuid.UUID,
    wanted: FetchPartition,
    *,
    max_bytes: int,
    at_least_one: bool,
    acknowledge: bool = True,
) -> PartitionData:
    """Read one partition. `acknowledge` is False when a follower's same request is read again."""
    partition = hosting.replicas.partitions.get(topic_partition)
    if partition is None:
        known = hosting.metadata.snapshot.partition(topic_partition)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(hosting, reader, topic_partition, code)
    code = _fault(partition, reader, topic_id, wanted)
    local = partition.log
    if code is not ErrorCode.NONE or local is None:
        return _refused(hosting, reader, topic_partition, code)
    try:
        return _read(
            hosting, reader, partition, local, wanted, max_bytes, at_least_one, acknowledge
        )
    except StorageTrouble as trouble:
        hosting.storage_trouble(trouble)
        return _refused(hosting, reader, topic_partition, ErrorCode.KAFKA_STORAGE_ERROR)
    except Exception:
        log.exception("a read failed", extra={"partition": str(topic_partition)})
        return _refused(hosting, reader, topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)


def _fault(
    partition: Partition, reader: FetchReader, topic_id: uuid.UUID, wanted: FetchPartition
) -> ErrorCode:
    local = partition.log
    if local is None or partition.role is Role.OFFLINE:
        return partition.not_leading()
    known = local.topic_id
    if topic_id is not known and topic_id != ZERO_ID and known not in (None, ZERO_ID, topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    serves = partition.role is Role.LEADER or (
        partition.role is Role.FOLLOWER
        and reader.follower is None
        and reader.version >= _FOLLOWERS_SERVE_SINCE
    )
    if not serves:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return epoch_fault(partition, wanted.current_leader_epoch)


def _refused(
    hosting: Hosting, reader: FetchReader, topic_partition: TopicPartition, code: ErrorCode
) -> PartitionData:
    leader = None
    if code is ErrorCode.KAFKA_STORAGE_ERROR and reader.version < _STORAGE_ERROR_SINCE:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code in _LEADER_TOLD and reader.version >= _LEADER_SINCE:
        even_here = code is ErrorCode.FENCED_LEADER_EPOCH or reader.follower is not None
        leader = current_leader(hosting, topic_partition, even_here=even_here)
    aborted: list[AbortedTransaction] | None = [] if reader.committed_only else None
    return PartitionData(topic_partition.partition, code, aborted=aborted, current_leader=leader)


def _read(
    hosting: Hosting,
    reader: FetchReader,
    partition: Partition,
    local: PartitionLog,
    wanted: FetchPartition,
    max_bytes: int,
    at_least_one: bool,
    acknowledge: bool,
) -> PartitionData:
    topic_partition = partition.topic_partition
    offset = wanted.fetch_offset
    if wanted.last_fetched_epoch >= 0:
        end = DivergingEpoch(*local.epochs.end_offset_for(wanted.last_fetched_epoch))
        if end.epoch < 0:
            return _refused(hosting, reader, topic_partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if end.epoch < wanted.last_fetched_epoch or end.end_offset < offset:
            return _data(reader, partition)._replace(diverging_epoch=end)
    if not local.log_start_offset <= offset <= local.log_end_offset:
        return _refused(hosting, reader, topic_partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    if reader.version < _ZSTD_SINCE and local.settings.codec is Codec.ZSTD:
        return _refused(hosting, reader, topic_partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if reader.follower is not None:
        if acknowledge:
            code = partition.follower_fetched(reader.follower, offset, wanted.log_start_offset)
            if code is ErrorCode.UNKNOWN_LEADER_EPOCH and wanted.current_leader_epoch == NO_EPOCH:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # it named no epoch that could be unknown
            if code is not ErrorCode.NONE:
                return _refused(hosting, reader, topic_partition, code)
        upto = local.log_end_offset
    else:
        upto = local.last_stable_offset if reader.committed_only else local.high_watermark
        if reader.selector is not None and partition.role is Role.LEADER:
            nearer = _preferred(hosting, reader, partition, local, offset)
            if nearer is not None:
                return _data(reader, partition)._replace(preferred_read_replica=nearer)
    if offset >= upto:
        return _data(reader, partition)
    found = local.read(offset, max_bytes=max_bytes, upto=upto, at_least_one=at_least_one)
    if isinstance(found, ErrorCode):
        return _refused(hosting, reader, topic_partition, found)
    if found.size == 0 and not found.left_out:
        return _data(reader, partition)
    aborted = None
    if reader.committed_only:
        bound = min(local.bound_of(found), upto)
        aborted = [
            AbortedTransaction(entry.producer_id, entry.first_offset)
            for entry in local.aborted_transactions(offset, bound)
        ]
    return PartitionData(*_offsets(partition), aborted, records=found)


def nothing_but_offsets(partition: Partition) -> PartitionData:
    """The data of a partition that has no records for its reader."""
    return PartitionData(*_offsets(partition))


def _offsets(partition: Partition) -> tuple[int, int, int, int, int]:
    """The offsets that the data of every partition begins with."""
    local = partition.log
    assert local is not None, partition
    return (
        partition.topic_partition.partition,
        0,
        local.high_watermark,
        local.last_stable_offset,
        local.log_start_offset,
    )


def _data(reader: FetchReader, partition: Partition) -> PartitionData:
    data = nothing_but_offsets(partition)
    return data._replace(aborted=[]) if reader.committed_only else data


def _preferred(
    hosting: Hosting, reader: FetchReader, partition: Partition, local: PartitionLog, offset: int
) -> BrokerId | None:
    """The replica a consumer had better ask, if it is not this one."""
    assert reader.selector is not None
    brokers = hosting.metadata.snapshot.brokers
    replicas = [Readable(hosting.id, hosting.rack, local.log_end_offset, 0)]
    for member in partition.isr.committed:
        state = partition.followers.get(member)
        known = brokers.get(member)
        if state and known and state.log_start <= offset <= state.log_end:
            replicas.append(Readable(member, known.rack, state.log_end, state.caught_up_ms))
    chosen = reader.selector(reader.rack, hosting.id, replicas)
    return None if chosen == hosting.id else chosen
