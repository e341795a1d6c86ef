"""Appending what a leader sent.

The batches have their offsets already, so they are checked and written as they are: neighbours that
go into one segment in one write. A follower takes from the network, and a log that moves to another
directory takes from the log it is to replace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import crc32c

from klamm.log.disk.failure import Health
from klamm.log.epochs import EpochCache
from klamm.log.segments.segment import Segment
from klamm.log.segments.series import SegmentList
from klamm.log.settings import LogSettings
from klamm.model.errors import ProtocolError
from klamm.protocol.batch import CRC_FROM, HEADER, HEADER_SIZE, MAGIC, PREFIX_SIZE, BatchHeader

# A header as it is unpacked: to name its thirteen values costs more than to use four of them.
_Values = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
_unpack: Final = HEADER.unpack_from


class Followed(Protocol):
    """A log, as far as a leader's batches are written to it."""

    settings: LogSettings
    segments: SegmentList
    epochs: EpochCache
    health: Health
    log_start_offset: int
    log_end_offset: int

    @property
    def size_bytes(self) -> int: ...

    def make_room(
        self, size: int, first_offset: int, last_offset: int, timestamp: int, now_ms: int
    ) -> Segment: ...

    def note_producer(
        self, batch: memoryview, header: BatchHeader, offset: int, timestamp: int
    ) -> None: ...

    def restart_at(self, offset: int) -> None: ...


def append_run_by_run(log: Followed, batches: memoryview, now_ms: int) -> None:
    """Write the whole batches of a buffer, without those that are in the log already."""
    next_offset = log.log_end_offset
    run: list[_Values] = []  # neighbours that are written in one go
    start = end = 0
    for values in _intact(log, batches):
        offset, length, _, _, _, _, delta, _, _, _, _, _, _ = values
        last = offset + delta
        at, end = end, end + PREFIX_SIZE + length
        if last < next_offset or (run and not _fits(log, end - start, last)):
            _append_run(log, batches[start:at], run, now_ms)
            run, start = [], at
        if last < next_offset:
            start = end
            continue
        if offset < next_offset:
            _begin_inside(log, offset)
        run.append(values)
        next_offset = last + 1
    _append_run(log, batches[start:end], run, now_ms)


def _intact(log: Followed, batches: memoryview) -> Iterator[_Values]:
    """The headers of the whole and undamaged batches at the beginning of a buffer."""
    at, size_all = 0, len(batches)
    while at + HEADER_SIZE <= size_all:
        values: _Values = _unpack(batches, at)
        _, length, _, magic, crc, _, _, _, _, _, _, _, _ = values
        end = at + PREFIX_SIZE + length
        if end < at + HEADER_SIZE or end > size_all:
            return
        if magic != MAGIC or crc32c.crc32c(batches[at + CRC_FROM : end]) != crc:
            if at == 0:
                raise ProtocolError(f"the leader sent a damaged batch of {log}")
            return
        yield values
        at = end


def _append_run(log: Followed, data: memoryview, run: list[_Values], now_ms: int) -> None:
    """Write batches that lie one behind the other, and go in one segment."""
    if not run:
        return
    interval = log.settings.index_interval_bytes
    first = BatchHeader(*run[0])
    try:
        active = log.make_room(
            first.size, first.base_offset, first.last_offset, first.max_timestamp, now_ms
        )
        position = active.write(data)
        at = 0
        for values in run:
            offset, length, epoch, _, _, _, delta, _, timestamp, producer, _, _, _ = values
            size, last = PREFIX_SIZE + length, offset + delta
            active.note(position + at, offset, last, timestamp, size, interval)
            log.epochs.assign(epoch, offset)
            if producer >= 0:
                batch = data[at : at + size]
                log.note_producer(batch, BatchHeader(*values), offset, timestamp)
            at += size
            log.log_end_offset = last + 1
    except OSError as error:
        raise log.health.failed(error) from error


def _fits(log: Followed, size: int, last_offset: int) -> bool:
    """Whether the active segment takes this much more, a batch at the end included."""
    settings = log.settings
    return not log.segments.active.is_full(
        size, last_offset, settings.segment_bytes, settings.segment_index_bytes
    )


def _begin_inside(log: Followed, offset: int) -> None:
    """An empty log may start in the middle of a batch: the leader's start offset did."""
    if log.size_bytes or log.log_end_offset != log.log_start_offset:
        raise ProtocolError(f"a batch from {offset} overlaps the end of {log}")
    start = log.log_start_offset
    log.restart_at(offset)
    log.log_start_offset = start
