"""Batches with offsets of their own, for partitions of a topic that is imported.

They are appended as a follower appends what its leader sends, and followers fetch them as they
fetch everything. Whoever imports may ask twice: what is below the end of the log is there already,
and a leader that took over in between goes on at its own end.
"""

from __future__ import annotations

from klamm.broker.replicas.partition import Partition, Role
from klamm.log.partition import PartitionLog
from klamm.log.writing.append import AppendRefused
from klamm.log.writing.importing import fault_of
from klamm.model.errors import ErrorCode

_NO_EPOCH = -1


def import_batches(
    partition: Partition, batches: memoryview, *, log_start: int, now_ms: int
) -> AppendRefused | ErrorCode | None:
    """Append batches where their offsets say, to a log that begins at this offset."""
    local = partition.log
    if partition.role is not Role.LEADER or local is None:
        return partition.not_leading()
    if not local.settings.importing:
        why = f"topic {partition.topic_partition.topic} is not being imported"
        return AppendRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if len(partition.isr.committed) < partition.in_sync_min_effective:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    refused = _begin_at(partition, local, log_start)
    if refused is not None:
        return refused
    end = local.log_end_offset
    refused = fault_of(
        batches,
        start=local.log_start_offset,
        end=end,
        epoch=local.epochs.epoch_at(end - 1) if end > local.log_start_offset else _NO_EPOCH,
        epoch_max=partition.leader_epoch,
    )
    if refused is not None:
        return refused
    # A leader enters its own epoch where it begins, for the records that it will write. What is
    # imported there is of an earlier one, which then reaches up to the next batch of a later one.
    local.epochs.truncate_end(end)
    local.append_as_follower(batches, now_ms=now_ms)
    if local.log_end_offset != end:
        partition.grown(local, end)
    return None


def _begin_at(partition: Partition, local: PartitionLog, log_start: int) -> AppendRefused | None:
    """Let the log begin where the imported one does."""
    if local.log_start_offset == log_start:
        return None
    if local.log_start_offset < log_start <= local.high_watermark:
        partition.raise_log_start(log_start)  # it begins inside of a batch, which was not kept
        return None
    is_empty = not local.size_bytes and local.log_end_offset == local.log_start_offset
    if is_empty:
        local.restart_at(log_start)
        partition.grown(local, log_start)
        return None
    why = f"{partition.topic_partition} begins at {local.log_start_offset}, not at {log_start}"
    return AppendRefused(ErrorCode.OFFSET_OUT_OF_RANGE, why)
