"""Appending what a leader sent.

The batches have their offsets already, so they are checked and written as they are: neighbours that
go into one segment in one write. A follower takes from the network, and a log that moves to another
directory takes from the log it is to replace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from klamm.log.batches import is_intact, read_header
from klamm.model.errors import ProtocolError
from klamm.protocol.batch import HEADER_SIZE, BatchHeader

if TYPE_CHECKING:
    from klamm.log.partition import PartitionLog


def append_run_by_run(log: PartitionLog, batches: memoryview, now_ms: int) -> None:
    """Write the whole batches of a buffer, without those that are in the log already."""
    next_offset = log.log_end_offset
    run: list[BatchHeader] = []  # neighbours that are written in one go
    start = end = 0
    for header in _intact(log, batches):
        at, end = end, end + header.size
        if header.last_offset < next_offset or (run and not _fits(log, end - start, header)):
            _append_run(log, batches[start:at], run, now_ms)
            run, start = [], at
        if header.last_offset < next_offset:
            start = end
            continue
        if header.base_offset < next_offset:
            _begin_inside(log, header)
        run.append(header)
        next_offset = header.last_offset + 1
    _append_run(log, batches[start:end], run, now_ms)


def _intact(log: PartitionLog, batches: memoryview) -> Iterator[BatchHeader]:
    """The headers of the whole and undamaged batches at the beginning of a buffer."""
    at = 0
    while at + HEADER_SIZE <= len(batches):
        header = read_header(batches, at)
        size = header.size
        if size < HEADER_SIZE or at + size > len(batches):
            return
        if not is_intact(batches[at : at + size], header):
            if at == 0:
                raise ProtocolError(f"the leader sent a damaged batch of {log}")
            return
        yield header
        at += size


def _append_run(log: PartitionLog, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
    """Write batches that lie one behind the other, and go in one segment."""
    if not run:
        return
    interval = log.settings.index_interval_bytes
    first = run[0]
    try:
        active = log.make_room(
            first.size, first.base_offset, first.last_offset, first.max_timestamp, now_ms
        )
        position = active.write(data)
        at = 0
        for header in run:
            size, offset, last = header.size, header.base_offset, header.last_offset
            active.note(position + at, offset, last, header.max_timestamp, size, interval)
            log.epochs.assign(header.leader_epoch, offset)
            if header.producer_id >= 0:
                log.note_producer(data[at : at + size], header, offset, header.max_timestamp)
            at += size
            log.log_end_offset = last + 1
    except OSError as error:
        raise log.health.failed(error) from error


def _fits(log: PartitionLog, size: int, header: BatchHeader) -> bool:
    """Whether the active segment takes this much more, a batch at the end included."""
    settings = log.settings
    return not log.segments.active.is_full(
        size, header.last_offset, settings.segment_bytes, settings.segment_index_bytes
    )


def _begin_inside(log: PartitionLog, header: BatchHeader) -> None:
    """An empty log may start in the middle of a batch: the leader's start offset did."""
    if log.size_bytes or log.log_end_offset != log.log_start_offset:
        raise ProtocolError(f"a batch from {header.base_offset} overlaps the end of {log}")
    start = log.log_start_offset
    log.restart_at(header.base_offset)
    log.log_start_offset = start
