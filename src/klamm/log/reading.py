"""Reading a log: which bytes of which file.

Nothing is read here but batch headers. The bytes themselves go from the page cache to the socket,
named by a `Slice` that keeps their file open.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Final, NamedTuple

from klamm.log.disk.files import NO_FILE, Handle
from klamm.log.segments.segment import Segment
from klamm.log.segments.series import SegmentList
from klamm.log.segments.transactions import Aborted

_LOOKED_AT_MAX: Final = 16


class Slice(NamedTuple):
    """Bytes of a segment, to be sent from its file; they may end inside a batch."""

    file: Handle
    position: int
    size: int
    first_offset: int  # the offset asked for; the first batch may begin below it
    goes_on: bool = False  # a later segment holds more that the reader may see
    left_out: int = 0  # bytes of the next batch that had room, but not the whole of it

    def read(self) -> bytes:
        """The bytes themselves, for those who do not send them on."""
        return os.pread(self.file.fileno(), self.size, self.position) if self.size else b""


def no_bytes(offset: int) -> Slice:
    return Slice(NO_FILE, 0, 0, offset)


def find_slice(
    segments: SegmentList,
    offset: int,
    *,
    max_bytes: int,
    bound: int,
    log_end: int,
    at_least_one: bool,
) -> Slice:
    """The bytes from the batch that holds an offset up to the bound, or the segment's end."""
    for place in range(segments.place_of(offset), len(segments)):
        segment = segments[place]
        position = segment.position_of(offset)
        if position is None:
            continue  # compaction has left nothing from here to the segment's end
        segment_end = segments.end_of(place, log_end)
        whole = segment_end <= bound
        end = segment.size if whole else segment.end_before(bound)
        if end <= position:
            break
        size, left_out = end - position, 0
        if size > max_bytes:
            size = _whole_batches(segment, position, end, max_bytes, at_least_one)
            left_out = max(max_bytes - size, 0)
        return Slice(segment.handle(), position, size, offset, segment_end < bound, left_out)
    return no_bytes(offset)


def _whole_batches(
    segment: Segment, position: int, end: int, max_bytes: int, at_least_one: bool
) -> int:
    """The size of an answer that has to end before the segment does.

    The part of a batch at its end would be sent again with the next answer: where batches are
    large, that is a good part of all bytes. Small ones are not worth looking for. A part of the
    first batch alone is never sent: readers take it for a log that is broken.
    """
    size = 0
    for _, header in islice(segment.headers(position, end), _LOOKED_AT_MAX):
        if size + header.size > max_bytes:
            return header.size if at_least_one and not size else size
        size += header.size
        if header.size < max_bytes // _LOOKED_AT_MAX:
            break
    return max_bytes


def bound_of(segments: SegmentList, part: Slice, log_end: int) -> int:
    """An offset above all records of a slice, but not far above."""
    for place in range(segments.place_of(part.first_offset), len(segments)):
        segment = segments[place]
        if segment.path == part.file.path:
            bound = segment.offsets.bound_after(part.position + part.size)
            return segments.end_of(place, log_end) if bound is None else bound
    return part.first_offset


def find_aborted(segments: SegmentList, from_offset: int, upto: int) -> list[Aborted]:
    """The aborted transactions with records in [from_offset, upto), by first offset.

    A marker stands behind all records of its transaction, so the search goes on in later segments
    until an entry says that everything below `upto` was decided by then.
    """
    found: list[Aborted] = []
    for segment in segments.from_offset(from_offset):
        for aborted in segment.aborted.entries():
            if aborted.last_offset >= from_offset and aborted.first_offset < upto:
                found.append(aborted)
            if aborted.last_stable_offset >= upto:
                return sorted(found, key=_first_offset)
    return sorted(found, key=_first_offset)


def _first_offset(aborted: Aborted) -> int:
    return aborted.first_offset
