"""Checks batches that have their offsets already, before a leader takes them over.

A topic that is imported gets the batches of another log as they were there: offsets, gaps, leader
epochs, producers and times. So there is nothing to stamp, and everything to check: what is in the
log cannot be refused any more. All batches of a request are looked at before the first is written:
their records by a thread, for they may be many (`records_fault`), and then what they say of
themselves, which depends on the log (`fault_of`).
"""

from __future__ import annotations

from typing import Final

import crc32c

from klamm.log.writing.append import AppendRefused
from klamm.log.writing.records import area_of, check_with_gaps, rest
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.protocol.batch import (
    CODEC_MASK,
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    PREFIX_SIZE,
    BatchHeader,
    Codec,
)
from klamm.protocol.compression import ExpandsTooFar

_OFFSET_MAX: Final = (1 << 63) - 1
_TIME_MAX: Final = 1 << 62


def fault_of(
    batches: memoryview, *, start: int, end: int, epoch: int, epoch_max: int
) -> AppendRefused | None:
    """The reason not to write these batches to a log with these offsets and this last epoch.

    Batches that lie below its end are there already, and not looked at again.
    """
    at, size_all = 0, len(batches)
    next_offset = end
    while at < size_all:
        header = _header(batches, at)
        if isinstance(header, AppendRefused):
            return header
        refused = _header_fault(header, epoch, epoch_max)
        if refused is not None:
            return refused
        at += header.size
        if header.last_offset < end:
            continue
        if header.base_offset < next_offset and not (next_offset == start == end):
            why = f"{_told(header)} overlaps what ends at {next_offset}"
            return AppendRefused(ErrorCode.INVALID_RECORD, why)
        next_offset, epoch = header.last_offset + 1, header.leader_epoch
    return None


def records_fault(
    batches: memoryview, expanded_size_max: int, room: int | None
) -> AppendRefused | None:
    """The reason not to write these batches, by their checksums and records. For a worker thread.

    With a `room` the records may raise `ExpandsTooFar`, to be looked through with more of it.
    """
    size_max = expanded_size_max if room is None else min(room, expanded_size_max)
    at = 0
    while at < len(batches):
        header = _header(batches, at)
        if isinstance(header, AppendRefused):
            return header
        batch = batches[at : at + header.size]
        if crc32c.crc32c(batch[CRC_FROM:]) != header.crc:
            why = f"the checksum of {_told(header)} is wrong"
            return AppendRefused(ErrorCode.CORRUPT_MESSAGE, why)
        if shapeless := _shape_fault(header):
            return AppendRefused(ErrorCode.INVALID_RECORD, shapeless)
        try:
            _look_through(batch, header, size_max)
        except ExpandsTooFar as fault:
            if size_max < expanded_size_max:
                raise
            return AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, f"{_told(header)}: {fault}")
        except ProtocolError as fault:
            return AppendRefused(ErrorCode.INVALID_RECORD, f"{_told(header)}: {fault}")
        at += header.size
    return None


def _look_through(batch: memoryview, header: BatchHeader, size_max: int) -> None:
    """ProtocolError where the records make no sense. Compaction may have left gaps."""
    area = area_of(batch, header, size_max)
    last = header.last_offset_delta
    check_with_gaps(area, header.record_count, header.base_timestamp, last, rest)
    if header.is_control and (header.record_count > 1 or header.codec):
        raise ProtocolError("a control batch is one record, which is not compressed")


def _header(batches: memoryview, at: int) -> BatchHeader | AppendRefused:
    left = len(batches) - at
    if left < HEADER_SIZE:
        return AppendRefused(ErrorCode.INVALID_RECORD, f"{left} bytes are no record batch")
    header = BatchHeader._make(HEADER.unpack_from(batches, at))
    if header.magic != MAGIC:
        why = f"a batch has format {header.magic}, not {MAGIC}"
        return AppendRefused(ErrorCode.INVALID_RECORD, why)
    if not HEADER_SIZE <= PREFIX_SIZE + header.length <= left:
        why = f"a batch says that it has {header.length} bytes, and {left} are left"
        return AppendRefused(ErrorCode.INVALID_RECORD, why)
    return header


def _header_fault(header: BatchHeader, epoch: int, epoch_max: int) -> AppendRefused | None:
    """The fault in what a batch says of itself, behind a batch of that epoch."""
    why = _shape_fault(header)
    if why is None and not epoch <= header.leader_epoch <= epoch_max:
        # Epochs of a log never go down, and the next one is the leader's own.
        why = (
            f"{_told(header)} is of leader epoch {header.leader_epoch}, which is not between "
            f"{epoch} of the batch before it and {epoch_max} of the leader"
        )
    return None if why is None else AppendRefused(ErrorCode.INVALID_RECORD, why)


def _shape_fault(header: BatchHeader) -> str | None:
    """The reason why there is no such batch, in whatever log."""
    delta, count = header.last_offset_delta, header.record_count
    if header.base_offset < 0 or delta < 0 or header.base_offset > _OFFSET_MAX - delta - 1:
        return f"a batch has offsets from {header.base_offset}, {delta + 1} of them"
    if not 0 <= count <= delta + 1:
        return f"{count} records do not fit in {delta + 1} offsets of {_told(header)}"
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        return f"there is no compression type {header.attributes & CODEC_MASK}: {_told(header)}"
    if (header.is_control or header.is_transactional) and header.producer_id < 0:
        return f"{_told(header)} is part of a transaction of no producer"
    if not -_TIME_MAX < header.base_timestamp < _TIME_MAX:
        return f"{header.base_timestamp} is no timestamp"
    return None


def _told(header: BatchHeader) -> str:
    return f"the batch of offsets {header.base_offset} to {header.last_offset}"
