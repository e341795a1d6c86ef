"""Checks a batch before a leader appends it, and stamps it.

The 61 bytes of the header and one checksum come first; then a client's records are looked through
(`records`), because what is in the log cannot be refused any more. Base offset, leader epoch and
checksum lie outside of what the checksum covers, so a leader stamps the first two into the batch
where it lies and writes it as it came.

Most batches are inspected in a moment, where they lie. One that expands, or has so many records
that others would wait, is a `LATER`: whoever has a worker thread has it inspected there.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final, NamedTuple

import crc32c

from klamm.log.segments.batches import ATTRIBUTES_AT, LENGTH_AT, MAX_TIMESTAMP_AT
from klamm.log.settings import LONG_MAX, LogSettings
from klamm.log.writing.records import Rest, area_of, check, look, no_rest, rest
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    compress,
)
from klamm.protocol.compression import Buffer, ExpandsTooFar
from klamm.protocol.native.records import LOOPS
from klamm.protocol.produce import RecordError
from klamm.protocol.record_scan import Fault, Rules

NO_TIME: Final = -1
# What makes a batch one that needs a closer look: zstd, a time or a marker of the broker's own.
_UNUSUAL: Final = Codec.ZSTD | LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_new: Final = tuple.__new__
_unpack: Final = HEADER.unpack_from
_ZSTD_FROM_VERSION: Final = 7
_BATCHES_SINCE: Final = 3  # before, message sets

_attributes: Final = struct.Struct(">h")
_pack_length: Final = struct.Struct(">i").pack_into
_pack_time: Final = struct.Struct(">q").pack_into
_pack_crc: Final = struct.Struct(">I").pack_into


class AppendRefused(NamedTuple):
    """A batch that is not in the log, and why."""

    code: ErrorCode
    message: str
    record_errors: tuple[RecordError, ...] = ()


class Appended(NamedTuple):
    """A batch that is in the log."""

    base_offset: int
    last_offset: int
    log_start_offset: int
    log_append_time_ms: int = NO_TIME  # only where the topic stamps batches itself
    is_duplicate: bool = False  # it had been there before; nothing was written


def checked_header(
    batch: memoryview, settings: LogSettings, version: int, from_client: bool
) -> BatchHeader | AppendRefused:
    """The header of what must be one batch, if it may be appended as far as that can tell.

    Nearly all are as they should be, which one look shows; at the others it is looked again, by the
    rules one by one.
    """
    size = len(batch)
    if HEADER_SIZE <= size <= settings.size_max:
        values = _unpack(batch)
        base, length, _, magic, crc, attributes, delta, _, _, producer, _, sequence, count = values
        if (
            length + PREFIX_SIZE == size
            and magic == MAGIC
            and base == 0
            and count == delta + 1 > 0
            and not attributes & _UNUSUAL
            and (sequence >= 0 if producer >= 0 else not attributes & TRANSACTIONAL)
            and crc32c.crc32c(batch[CRC_FROM:]) == crc
        ):
            return _new(BatchHeader, values)
    header = read_sole_header(batch)
    if isinstance(header, AppendRefused):
        return codec_fault(batch, version) or header
    return header_fault(batch, header, settings, version, from_client) or header


def read_sole_header(batch: memoryview) -> BatchHeader | AppendRefused:
    """The header of what must be exactly one batch."""
    if len(batch) < HEADER_SIZE:
        return AppendRefused(ErrorCode.INVALID_RECORD, "there is no complete record batch")
    header = BatchHeader._make(HEADER.unpack_from(batch))
    size = PREFIX_SIZE + header.length
    if header.magic != MAGIC:
        return AppendRefused(
            ErrorCode.INVALID_RECORD, f"the batch has format {header.magic}, not {MAGIC}"
        )
    if size > len(batch) or size < HEADER_SIZE:
        return AppendRefused(ErrorCode.INVALID_RECORD, "there is no complete record batch")
    if size < len(batch):
        return AppendRefused(ErrorCode.INVALID_RECORD, "there is more than one record batch")
    return header


def codec_fault(batch: memoryview, version: int) -> AppendRefused | None:
    """The refusal of a codec that the producer may not know yet: it comes before all others."""
    if len(batch) < HEADER_SIZE or not _BATCHES_SINCE <= version < _ZSTD_FROM_VERSION:
        return None
    header = BatchHeader._make(HEADER.unpack_from(batch))
    whole = header.magic == MAGIC and HEADER_SIZE <= PREFIX_SIZE + header.length <= len(batch)
    is_zstd = header.attributes & CODEC_MASK == Codec.ZSTD
    return _too_old_for_zstd() if whole and is_zstd else None


def _too_old_for_zstd() -> AppendRefused:
    return AppendRefused(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs produce version {_ZSTD_FROM_VERSION}"
    )


def header_fault(
    batch: memoryview, header: BatchHeader, settings: LogSettings, version: int, from_client: bool
) -> AppendRefused | None:
    """The reason to refuse this batch, as far as its header and checksum tell."""
    (base_offset, length, _, _, crc, attributes, delta, _, _, producer_id, _, sequence, count) = (
        header
    )
    if from_client and base_offset != 0:
        return AppendRefused(
            ErrorCode.INVALID_RECORD, f"the batch has base offset {base_offset}, not 0"
        )
    if length + PREFIX_SIZE > settings.size_max:
        return too_large(length + PREFIX_SIZE, settings)
    if crc32c.crc32c(batch[CRC_FROM:]) != crc:
        return AppendRefused(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    if count <= 0 or count != delta + 1:
        return AppendRefused(
            ErrorCode.INVALID_RECORD, f"{count} records do not fill {delta + 1} offsets"
        )
    if from_client:
        if attributes & CONTROL:
            return AppendRefused(ErrorCode.INVALID_RECORD, "a client may not write control batches")
        if producer_id >= 0 and sequence < 0:
            return AppendRefused(
                ErrorCode.INVALID_RECORD, f"the batch of producer {producer_id} has no sequence"
            )
        if producer_id < 0 and attributes & TRANSACTIONAL:
            return AppendRefused(
                ErrorCode.INVALID_RECORD, "the batch is part of a transaction of no producer"
            )
        if attributes & DELETE_HORIZON:
            return AppendRefused(
                ErrorCode.INVALID_RECORD, "a delete horizon is for the broker's cleaner to set"
            )
    if attributes & CODEC_MASK > Codec.ZSTD:
        # It would lie in the way of every consumer.
        return AppendRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"there is no compression type {attributes & CODEC_MASK}",
        )
    if attributes & CODEC_MASK == Codec.ZSTD and version < _ZSTD_FROM_VERSION:
        return _too_old_for_zstd()
    if attributes & LOG_APPEND_TIME and from_client and not settings.log_append_time:
        return AppendRefused(
            ErrorCode.INVALID_TIMESTAMP,
            "the batch says it has the broker's time, but the topic keeps the producer's",
        )
    return None


def closed(topic: str, settings: LogSettings, from_client: bool) -> AppendRefused | None:
    """The refusal of records for a topic that takes none now."""
    if settings.importing:
        # Retriable: whoever begins to write before the last batch is imported has to wait.
        why = f"topic {topic} is being imported (klamm.importing=true)"
        return AppendRefused(ErrorCode.LEADER_NOT_AVAILABLE, why)
    if settings.frozen and from_client:
        why = f"topic {topic} is frozen (klamm.frozen=true)"
        return AppendRefused(ErrorCode.POLICY_VIOLATION, why)
    return None


def too_large(size: int, settings: LogSettings) -> AppendRefused:
    """The refusal of a batch that is too large for the topic, or for a segment of it."""
    if size > settings.max_message_bytes:
        return AppendRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, more than max.message.bytes {settings.max_message_bytes}",
        )
    return AppendRefused(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the batch has {size} bytes, more than segment.bytes {settings.segment_bytes}",
    )


class Inspected(NamedTuple):
    """A batch whose records were looked through, ready but for its offset and epoch."""

    batch: memoryview
    header: BatchHeader


class Later(Enum):
    """Says that the inspection of a batch takes longer than others should wait."""

    LATER = "later"


LATER: Final = Later.LATER
# What is inspected while everybody waits: compressed bytes, expanded ones, microseconds.
_PACKED_AT_ONCE: Final = 16 * 1024
_EXPANDED_AT_ONCE: Final = 128 * 1024
_EFFORT_US_MAX: Final = 2_500
_FAR: Final = 1 << 62


def inspect_at_once(
    batch: memoryview, header: BatchHeader, settings: LogSettings, now_ms: int
) -> Inspected | AppendRefused | Later:
    """Inspect a batch unless it takes long."""
    if settings.asks_nothing:
        # What most batches are. Whatever is not as it should be is looked at again, with words.
        kernel = LOOPS.kernel
        if (
            kernel.holds(batch)
            if kernel is not None
            else _looks_right(batch, header, settings.records_by_hand_max)
        ):
            return _new(Inspected, (batch, header))
    if effort_us(header, settings) > _EFFORT_US_MAX:
        return LATER
    if not header.attributes & CODEC_MASK and settings.codec in (None, Codec.NONE):
        return _inspect(batch, header, settings, now_ms, len(batch), no_rest)
    if len(batch) > _PACKED_AT_ONCE:
        return LATER
    try:
        return _inspect(batch, header, settings, now_ms, _EXPANDED_AT_ONCE, no_rest)
    except ExpandsTooFar:
        return LATER


def _looks_right(batch: memoryview, header: BatchHeader, followed_max: int) -> bool:
    """Whether a batch that is not compressed passes the bounded look by hand."""
    (_, _, _, _, _, attributes, _, base, max_timestamp, _, _, _, count) = header
    if attributes & CODEC_MASK or not 0 <= base < _FAR:
        return False
    try:
        found = look(batch, HEADER_SIZE, count, base, followed_max)
    except ProtocolError:
        return False
    return found is None or found == max_timestamp


def effort_us(header: BatchHeader, settings: LogSettings) -> float:
    """About how long it takes to look through as many records as a batch says it has."""
    if LOOPS.kernel is not None:
        return header.record_count * 0.012
    return header.record_count * (0.8 if settings.checks_records else 0.15)


def inspect(
    batch: memoryview,
    header: BatchHeader,
    settings: LogSettings,
    now_ms: int,
    size_max: int | None = None,
) -> Inspected | AppendRefused:
    """Inspect a batch however long it takes. For a worker thread.

    With a `size_max` the records may raise `ExpandsTooFar`, to be inspected with more room.
    """
    limit = settings.expanded_size_max
    if size_max is not None and size_max < limit:
        return _inspect(batch, header, settings, now_ms, size_max, rest)
    try:
        return _inspect(batch, header, settings, now_ms, limit, rest)
    except ExpandsTooFar:
        # Clients that can split a batch do so when they are told this.
        return AppendRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the records take more than {limit} bytes when they are unpacked; send smaller "
            "batches, or raise klamm.batch.expanded.bytes.max",
        )


def _inspect(
    batch: memoryview,
    header: BatchHeader,
    settings: LogSettings,
    now_ms: int,
    size_max: int,
    pause: Rest,
) -> Inspected | AppendRefused:
    base = header.base_timestamp
    if not -_FAR < base < _FAR:
        return AppendRefused(ErrorCode.INVALID_TIMESTAMP, f"{base} is no timestamp")
    timed = not settings.log_append_time
    rules = Rules(
        base,
        max(now_ms - settings.timestamp_before_max_ms, -LONG_MAX) if timed else -LONG_MAX,
        min(now_ms + settings.timestamp_after_max_ms, LONG_MAX) if timed else LONG_MAX,
        settings.compact,
    )
    try:
        area = area_of(batch, header, size_max)
        found = check(area, header.record_count, rules, settings.records_by_hand_max, pause)
    except ExpandsTooFar:
        raise
    except ProtocolError as fault:
        return AppendRefused(ErrorCode.INVALID_RECORD, str(fault))
    if found.faults:
        return _rules_broken(found.faults, now_ms)
    latest = found.max_timestamp
    if latest is not None and latest != header.max_timestamp and timed:
        # As in Kafka: what producers say about the latest time is not believed but set right.
        batch = memoryview(bytearray(batch)) if batch.readonly else batch
        _pack_time(batch, MAX_TIMESTAMP_AT, latest)
        _seal(batch)
        header = header._replace(max_timestamp=latest)
    codec = settings.codec
    if codec is None or codec == header.codec:
        return Inspected(batch, header)
    return _recompressed(batch, header, area, settings, codec)


def _rules_broken(faults: list[Fault], now_ms: int) -> AppendRefused:
    errors = tuple(
        RecordError(index, "a compacted topic needs a key in every record")
        if time is None
        else RecordError(index, f"timestamp {time} is too far from {now_ms}")
        for index, time in faults
    )
    # As in Kafka: where both happen, the time decides what the client is told.
    untimely = any(time is not None for _, time in faults)
    code = ErrorCode.INVALID_TIMESTAMP if untimely else ErrorCode.INVALID_RECORD
    return AppendRefused(code, errors[0].message or code.name, errors)


def _recompressed(
    batch: memoryview, header: BatchHeader, area: Buffer, settings: LogSettings, codec: Codec
) -> Inspected | AppendRefused:
    """The same batch with the records compressed as the topic wants it."""
    fresh = bytearray(batch[:HEADER_SIZE])
    fresh += compress(codec, area, level=settings.compression_level)
    out = memoryview(fresh)
    if len(out) > settings.size_max:
        return too_large(len(out), settings)
    length, attributes = len(out) - PREFIX_SIZE, header.attributes & ~CODEC_MASK | codec
    _pack_length(out, LENGTH_AT, length)
    _attributes.pack_into(out, ATTRIBUTES_AT, attributes)
    _seal(out)
    return Inspected(out, header._replace(length=length, attributes=attributes))


def stamp_append_time(batch: memoryview, now_ms: int) -> None:
    """Put the broker's time into a batch."""
    (attributes,) = _attributes.unpack_from(batch, ATTRIBUTES_AT)
    _attributes.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _pack_time(batch, MAX_TIMESTAMP_AT, now_ms)
    _seal(batch)


def _seal(batch: memoryview) -> None:
    _pack_crc(batch, CRC_AT, crc32c.crc32c(batch[CRC_FROM:]))
