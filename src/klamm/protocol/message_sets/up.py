"""From a message set to one record batch of format 2.

The set of an old producer is either a row of plain messages or one wrapper. Either becomes one
batch, with the offsets from 0 on: whatever offsets the messages claim, the log gives them new ones.
Messages of format 0 have no time, nor have their records (-1). A time that is said to be a broker's
is taken as the producer's, as Kafka does. A message that is cut off at the end
is left out, as brokers have always done.

What a wrapper holds is unpacked within a bound, and all that is not as it should be is refused with
the code that Kafka has for it. Whether keys, times and sizes suit the topic is not looked at here:
the batch is checked as any other before it is appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from klamm.model.errors import ErrorCode, ProtocolError
from klamm.protocol import batch
from klamm.protocol.compression import Buffer, Codec, ExpandsTooFar, compress, expand
from klamm.protocol.message_sets import lz4_frames
from klamm.protocol.message_sets.layout import (
    MAGIC_AT,
    NO_TIMESTAMP,
    OldMessage,
    SetRefused,
    read_message,
)
from klamm.protocol.varint import varint

_SLICE: Final = 1000  # messages between two pauses
_NULL: Final = (varint(-1),)

Pause = Callable[[], None]


def is_message_set(data: memoryview) -> bool:
    """Whether this is of an old format; what is too short to tell is."""
    return len(data) <= MAGIC_AT or data[MAGIC_AT] != batch.MAGIC


def upgrade(
    data: memoryview, *, message_size_max: int, plain_size_max: int, size_max: int, pause: Pause
) -> bytes | None:
    """The batch for a whole message set; None when there is no whole message in it.

    No message may be larger than `message_size_max`, nor the records of plain messages together
    than `plain_size_max` (`SetRefused`); records take at most `size_max` bytes (`ExpandsTooFar`).
    """
    outer = _outer(data, message_size_max)
    first = next(outer, None)
    if first is None:
        return None
    if not first.codec:
        return _batch(_plain(first, outer), Codec.NONE, plain_size_max, size_max, pause)
    if next(outer, None) is not None:
        raise SetRefused(*_NOT_ALONE)
    inside = _inside(memoryview(_unwrapped(first, size_max)), first)
    return _batch(inside, first.codec, size_max, size_max, pause)


_TIME_OF_NOBODY: Final = (
    ErrorCode.INVALID_TIMESTAMP,
    "a message says it has the broker's time, and has none",
)
_NOT_ALONE: Final = (
    ErrorCode.INVALID_RECORD,
    "a compressed message is not alone in its message set",
)


def _outer(data: memoryview, size_max: int) -> Iterator[OldMessage]:
    """The messages of a set that was sent, all of one format."""
    at, magic = 0, None
    while (message := read_message(data, at)) is not None:
        size = message.end - at
        if size > size_max:
            raise SetRefused(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a message has {size} bytes, more than max.message.bytes {size_max}",
            )
        if magic not in (None, message.magic):
            why = "a message set has messages of different formats"
            raise SetRefused(ErrorCode.INVALID_RECORD, why)
        magic = message.magic
        yield message
        at = message.end


def _plain(first: OldMessage, others: Iterator[OldMessage]) -> Iterator[OldMessage]:
    for message in chain((first,), others):
        if message.codec:
            raise SetRefused(*_NOT_ALONE)
        if message.has_broker_time and message.timestamp == NO_TIMESTAMP:
            raise SetRefused(*_TIME_OF_NOBODY)
        yield message


def _unwrapped(wrapper: OldMessage, size_max: int) -> Buffer:
    """The message set inside of a wrapper."""
    codec, value = wrapper.codec, wrapper.value
    if codec > Codec.ZSTD:
        why = f"there is no compression type {codec}"
        raise SetRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, why)
    if codec == Codec.ZSTD:
        why = f"zstd is not for messages of format {wrapper.magic}"
        raise SetRefused(ErrorCode.INVALID_RECORD, why)
    if value is None:
        raise SetRefused(ErrorCode.INVALID_RECORD, "a compressed message holds nothing")
    try:
        if codec == Codec.LZ4 and wrapper.magic == 0:
            return expand(codec, lz4_frames.to_standard(value), size_max=size_max)
        return expand(codec, value, size_max=size_max)
    except ExpandsTooFar:
        raise
    except ProtocolError as fault:
        raise SetRefused(ErrorCode.INVALID_RECORD, str(fault)) from fault


def _inside(data: memoryview, wrapper: OldMessage) -> Iterator[OldMessage]:
    """The messages of a set that was compressed; it has to be whole."""
    at, last, magic = 0, 0, wrapper.magic
    if wrapper.has_broker_time and wrapper.timestamp == NO_TIMESTAMP:
        raise SetRefused(*_TIME_OF_NOBODY)
    while at < len(data) or not at:
        message = read_message(data, at)
        if message is None:
            raise SetRefused(ErrorCode.INVALID_RECORD, "a compressed message set ends early")
        if message.magic != magic:
            why = f"a message of format {magic} holds one of format {message.magic}"
            raise SetRefused(ErrorCode.INVALID_RECORD, why)
        if message.codec:
            why = "a compressed message set holds another compressed one"
            raise SetRefused(ErrorCode.INVALID_RECORD, why)
        at, last = message.end, message.offset
        if wrapper.has_broker_time:
            message = message._replace(timestamp=wrapper.timestamp)
        yield message
    if magic and 0 != wrapper.offset < last:
        why = f"a message of offset {wrapper.offset} holds one that counts up to {last}"
        raise SetRefused(ErrorCode.INVALID_RECORD, why)


def _batch(
    messages: Iterator[OldMessage],
    codec: int,
    plain_size_max: int,
    size_max: int,
    pause: Pause,
) -> bytes:
    area = bytearray()
    base = latest = NO_TIMESTAMP
    count = 0
    for count, message in enumerate(messages, 1):
        timestamp = message.timestamp
        if timestamp < NO_TIMESTAMP:
            raise SetRefused(ErrorCode.INVALID_TIMESTAMP, f"{timestamp} is no timestamp")
        if count == 1:
            base = timestamp
        latest = max(latest, timestamp)
        area += _record(message.key, message.value, timestamp - base, count - 1)
        if len(area) > plain_size_max:
            why = f"the messages take more than {plain_size_max} bytes as one batch"
            raise SetRefused(ErrorCode.MESSAGE_TOO_LARGE, f"{why}; send fewer at a time")
        if len(area) > size_max:
            raise ExpandsTooFar(f"records take more than {size_max} bytes when they are unpacked")
        if not count % _SLICE:
            pause()
    header = batch.BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=batch.MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=base,
        max_timestamp=latest,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return batch.seal(header, compress(codec, area) if codec else area)


def _record(
    key: memoryview | None, value: memoryview | None, timestamp_delta: int, offset_delta: int
) -> bytes:
    body = b"".join(
        (
            b"\0",
            varint(timestamp_delta),
            varint(offset_delta),
            *_sized(key),
            *_sized(value),
            b"\0",  # no headers
        )
    )
    return varint(len(body)) + body


def _sized(data: memoryview | None) -> tuple[bytes | memoryview, ...]:
    return _NULL if data is None else (varint(len(data)), data)
