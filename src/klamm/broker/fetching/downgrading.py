"""Records for readers of before 0.11: batches out of the log as message sets of format 0 or 1.

The work is done by the threads that open batches. A small answer is made whole. Of a large one only
the beginning is made before its size is told, and the rest while it is sent, piece by piece as the
reader takes it: a thousand slow readers hold a piece each, not an answer each. How long the rest
will be is not known by then, so the size that is told is that of the stored batches, or of the
beginning where that is longer. What goes beyond it is cut off, and what is missing is filled up
with the beginning of a message that never ends; readers drop such a rest (KIP-283).
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from klamm.broker.net.replies import ReplyStream
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.storage.openers import opened
from klamm.log.reading import Slice
from klamm.log.writing.records import rest
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.model.names import TopicPartition
from klamm.protocol.batch import HEADER_SIZE, parse_header
from klamm.protocol.fetch import PartitionData
from klamm.protocol.message_sets.down import START, NoSuchCodec, downgrade

log = logging.getLogger(__name__)

_BATCHES_SINCE: Final = 4  # before this version of Fetch there are message sets
_TIMES_SINCE: Final = 2  # before this one they are of format 0
_WHOLE_MAX: Final = 64 * 1024  # of messages that are made before the size is told, at least
_KEPT_MAX: Final = 1 << 20  # of all partitions of an answer; what is more is made again
_ENDLESS: Final = struct.Struct(">qi")
_ENDLESS_SIZE_MIN: Final = 64  # more than any reader takes for a whole message here
_ZEROS: Final = bytes(64 * 1024)


def magic_of(version: int) -> int | None:
    """The format of the records in an answer of this version; None: as they are stored."""
    if version >= _BATCHES_SINCE:
        return None
    return 1 if version >= _TIMES_SINCE else 0


class Downgrade:
    """The batches of a slice as messages, from an offset on; for one thread at a time."""

    def __init__(self, part: Slice, magic: int, expanded_size_max: int) -> None:
        self._part = part
        self._magic = magic
        self._expanded_size_max = expanded_size_max
        self._at = part.position
        self._place = START
        self.offset_end = part.first_offset  # behind the last batch that is done

    def again(self) -> Downgrade:
        """The same from the beginning."""
        return Downgrade(self._part, self._magic, self._expanded_size_max)

    def next_piece(self, size_max: int | None = None) -> bytes | None:
        """The next messages; None when there are no more."""
        part, limit = self._part, self._expanded_size_max
        end = part.position + part.size
        file = part.file.fileno()
        while self._at + HEADER_SIZE <= end:
            header = parse_header(os.pread(file, HEADER_SIZE, self._at))
            if self._at + header.size > end:
                break
            piece = downgrade(
                b"" if header.is_control else os.pread(file, header.size, self._at),
                header,
                self._magic,
                since=part.first_offset,
                place=self._place,
                size_max=limit if size_max is None else min(size_max, limit),
                pause=rest,
            )
            if piece.rest is None:
                self._at += header.size
                self._place = START
                self.offset_end = header.last_offset + 1
            else:
                self._place = piece.rest
            if piece.messages:
                return piece.messages
        return None


class MessageStream(ReplyStream):
    """Messages that are made while they are sent."""

    def __init__(self, begun: list[bytes], rest: Downgrade, size: int) -> None:
        super().__init__(size)
        self._begun = begun
        self._rest = rest

    async def pieces(self) -> AsyncIterator[bytes]:
        left = self.size
        begun, self._begun = self._begun, []
        while left:
            piece = begun.pop(0) if begun else await self._next()
            if piece is None:
                break
            yield piece[:left]
            left -= min(left, len(piece))
        for piece in _endless(left):
            yield piece

    async def _next(self) -> bytes | None:
        try:
            return await opened(self._rest.next_piece)
        except ProtocolError as fault:
            # The reader asks for it again, and is told then.
            log.warning("a batch cannot be sent as messages", extra={"why": str(fault)})
            return None


def _endless(size: int) -> list[bytes]:
    """So many bytes that begin as a message which goes on behind them."""
    if not size:
        return []
    head = _ENDLESS.pack(-1, max(size + 1, _ENDLESS_SIZE_MIN))[:size]
    left = size - len(head)
    whole, last = divmod(left, len(_ZEROS))
    return [head, *[_ZEROS] * whole, _ZEROS[:last]]


class Downgraded(NamedTuple):
    """A partition's data for an old reader, and how many bytes of it are in memory."""

    data: PartitionData
    kept: int = 0
    skipped_to: int | None = None  # where there is nothing to be told before this offset


async def downgraded(
    hosting: Hosting, place: TopicPartition, data: PartitionData, magic: int, kept: int
) -> Downgraded:
    """The records of a partition as message sets; so many bytes of others are kept already."""
    part = data.records
    assert isinstance(part, Slice), part
    partition = hosting.replicas.partitions.get(place)
    if partition is None or partition.log is None:
        return Downgraded(PartitionData(data.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    settings = partition.log.settings
    if not settings.downconversion:
        return Downgraded(PartitionData(data.partition, ErrorCode.UNSUPPORTED_VERSION))
    source = Downgrade(part, magic, settings.expanded_size_max)
    begun: list[bytes] = []
    size = 0
    fault: ProtocolError | None = None
    try:
        while size < _WHOLE_MAX and (piece := await opened(source.next_piece)) is not None:
            begun.append(piece)
            size += len(piece)
    except ProtocolError as met:
        fault = met
    if fault is not None and not begun:
        return Downgraded(_refused(data, fault))
    if size < _WHOLE_MAX:
        has_skipped = not begun and source.offset_end > part.first_offset
        skipped_to = source.offset_end if has_skipped else None
        return Downgraded(data._replace(records=b"".join(begun)), size, skipped_to)
    told = max(size, part.size)
    if kept + size > _KEPT_MAX:
        return Downgraded(data._replace(records=MessageStream([], source.again(), told)))
    return Downgraded(data._replace(records=MessageStream(begun, source, told)), size)


def _refused(data: PartitionData, fault: ProtocolError) -> PartitionData:
    if isinstance(fault, NoSuchCodec):
        return PartitionData(data.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    log.warning("a batch cannot be sent as messages", extra={"why": str(fault)})
    return PartitionData(data.partition, ErrorCode.CORRUPT_MESSAGE)
