"""Checks batches that have their offsets already, before a leader takes them over.

A topic that is imported gets the batches of another log as they were there: offsets, gaps, leader
epochs, producers and times. So there is nothing to stamp, and everything to check: what is in the
log cannot be refused any more. All batches of a request are looked at before the first is written.
"""

from __future__ import annotations

from typing import Final

import crc32c

from klamm.log.writing.append import AppendRefused
from klamm.model.errors import ErrorCode
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

_OFFSET_MAX: Final = (1 << 63) - 1


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
        stop = at + header.size
        if crc32c.crc32c(batches[at + CRC_FROM : stop]) != header.crc:
            return AppendRefused(
                ErrorCode.CORRUPT_MESSAGE, f"the checksum of {_told(header)} is wrong"
            )
        at = stop
        if header.last_offset < end:
            continue
        if header.base_offset < next_offset and not (next_offset == start == end):
            why = f"{_told(header)} overlaps what ends at {next_offset}"
            return AppendRefused(ErrorCode.INVALID_RECORD, why)
        next_offset, epoch = header.last_offset + 1, header.leader_epoch
    return None


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
    delta, count = header.last_offset_delta, header.record_count
    if header.base_offset < 0 or delta < 0 or header.base_offset > _OFFSET_MAX - delta - 1:
        why = f"a batch has offsets from {header.base_offset}, {delta + 1} of them"
    elif not 0 <= count <= delta + 1:
        why = f"{count} records do not fit in {delta + 1} offsets of {_told(header)}"
    elif header.attributes & CODEC_MASK > Codec.ZSTD:
        why = f"there is no compression type {header.attributes & CODEC_MASK}: {_told(header)}"
    elif (header.is_control or header.is_transactional) and header.producer_id < 0:
        why = f"{_told(header)} is part of a transaction of no producer"
    elif not epoch <= header.leader_epoch <= epoch_max:
        # Epochs of a log never go down, and the next one is the leader's own.
        why = (
            f"{_told(header)} is of leader epoch {header.leader_epoch}, which is not between "
            f"{epoch} of the batch before it and {epoch_max} of the leader"
        )
    else:
        return None
    return AppendRefused(ErrorCode.INVALID_RECORD, why)


def _told(header: BatchHeader) -> str:
    return f"the batch of offsets {header.base_offset} to {header.last_offset}"
