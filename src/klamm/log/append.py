"""What a leader checks before it appends a batch, and what it writes into it.

The checks need the 61 bytes of the header, one checksum, and for most topics nothing else: records
stay closed. Base offset, leader epoch and checksum lie outside of what the checksum covers, so a
leader stamps the first two into the batch where it lies and writes it as it came.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import crc32c

from klamm.log.batches import ATTRIBUTES_AT, LENGTH_AT, MAX_TIMESTAMP_AT
from klamm.log.settings import LogSettings
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_SIZE,
    BatchHeader,
    Codec,
    compress,
    decode_records,
    decompress,
)

NO_TIME: Final = -1
# What makes a batch one that needs a closer look: zstd, a time or a marker of the broker's.
_UNUSUAL: Final = Codec.ZSTD | LOG_APPEND_TIME | CONTROL
_new: Final = tuple.__new__
_unpack: Final = HEADER.unpack_from
_ZSTD_FROM_VERSION: Final = 7

_attributes: Final = struct.Struct(">h")
_pack_length: Final = struct.Struct(">i").pack_into
_pack_time: Final = struct.Struct(">q").pack_into
_pack_crc: Final = struct.Struct(">I").pack_into


class RecordError(NamedTuple):
    """Why one record of a batch is refused."""

    batch_index: int
    message: str


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
            and (sequence >= 0 or producer < 0)
            and crc32c.crc32c(batch[CRC_FROM:]) == crc
        ):
            return _new(BatchHeader, values)
    header = read_sole_header(batch)
    if isinstance(header, AppendRefused):
        return header
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


def header_fault(
    batch: memoryview, header: BatchHeader, settings: LogSettings, version: int, from_client: bool
) -> AppendRefused | None:
    """Why this batch is not appended, as far as its header and checksum tell."""
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
    if attributes & CODEC_MASK > Codec.ZSTD:
        # It would lie in the way of every consumer.
        return AppendRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"there is no compression type {attributes & CODEC_MASK}",
        )
    if attributes & CODEC_MASK == Codec.ZSTD and version < _ZSTD_FROM_VERSION:
        return AppendRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs produce version {_ZSTD_FROM_VERSION}",
        )
    if attributes & LOG_APPEND_TIME and from_client and not settings.log_append_time:
        return AppendRefused(
            ErrorCode.INVALID_TIMESTAMP,
            "the batch says it has the broker's time, but the topic keeps the producer's",
        )
    return None


def too_large(size: int, settings: LogSettings) -> AppendRefused:
    """Why a batch of this size has no place in the topic, or in a segment of it."""
    if size > settings.max_message_bytes:
        return AppendRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, more than max.message.bytes {settings.max_message_bytes}",
        )
    return AppendRefused(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the batch has {size} bytes, more than segment.bytes {settings.segment_bytes}",
    )


def record_fault(batch: memoryview, settings: LogSettings, now_ms: int) -> AppendRefused | None:
    """Why this batch is not appended, where the topic asks for something of each record."""
    oldest, newest = now_ms - settings.timestamp_before_max_ms, now_ms
    newest += settings.timestamp_after_max_ms
    timed = not settings.log_append_time
    keyless: list[RecordError] = []
    untimely: list[RecordError] = []
    try:
        for index, record in enumerate(decode_records(batch)):
            if record.offset != index:
                return AppendRefused(
                    ErrorCode.INVALID_RECORD, f"record {index} has the offset {record.offset}"
                )
            if settings.compact and record.key is None:
                keyless.append(RecordError(index, "a compacted topic needs a key in every record"))
            if timed and not oldest <= record.timestamp <= newest and record.timestamp != NO_TIME:
                untimely.append(
                    RecordError(index, f"timestamp {record.timestamp} is too far from {now_ms}")
                )
    except ProtocolError as fault:
        return AppendRefused(ErrorCode.INVALID_RECORD, str(fault))
    if keyless:
        return AppendRefused(ErrorCode.INVALID_RECORD, keyless[0].message, tuple(keyless))
    if untimely:
        return AppendRefused(ErrorCode.INVALID_TIMESTAMP, untimely[0].message, tuple(untimely))
    return None


def recompressed(
    batch: memoryview, header: BatchHeader, settings: LogSettings
) -> memoryview | AppendRefused:
    """The same batch with the records compressed as the topic wants it."""
    codec = settings.codec or Codec.NONE
    try:
        plain = decompress(header.codec, batch[HEADER_SIZE:])
    except ProtocolError as fault:
        return AppendRefused(ErrorCode.INVALID_RECORD, str(fault))
    area = compress(codec, plain, level=settings.compression_level)
    fresh = bytearray(batch[:HEADER_SIZE])
    fresh += area
    out = memoryview(fresh)
    _pack_length(out, LENGTH_AT, len(out) - PREFIX_SIZE)
    _attributes.pack_into(out, ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    _seal(out)
    return out if len(out) <= settings.size_max else too_large(len(out), settings)


def stamp_append_time(batch: memoryview, now_ms: int) -> None:
    """Put the broker's time into a batch."""
    (attributes,) = _attributes.unpack_from(batch, ATTRIBUTES_AT)
    _attributes.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _pack_time(batch, MAX_TIMESTAMP_AT, now_ms)
    _seal(batch)


def _seal(batch: memoryview) -> None:
    _pack_crc(batch, CRC_AT, crc32c.crc32c(batch[CRC_FROM:]))
