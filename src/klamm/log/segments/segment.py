"""One stretch of a log: a file of batches back to back, and what leads into it.

A segment is named by its base offset and never holds an earlier one. Only the last of a log takes
appends. Nothing is opened until it is needed, and what can be found out from the files (the largest
timestamp, the first one) is found out when somebody asks.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.log.disk import names
from klamm.log.disk.files import FilePool, Handle, sync_file, write_at
from klamm.log.segments.batches import headers, read_batch
from klamm.log.segments.index import IndexCorrupt, OffsetIndex, TimeEntry, TimeIndex
from klamm.log.segments.transactions import TransactionIndex
from klamm.protocol.batch import BatchHeader

NO_TIMESTAMP: Final = -1
_RECENT: Final = 64
# An index has entries, unless its interval is larger than anyone would set it, or it got lost.
_UNINDEXED_MAX: Final = 16 << 20
_RELATIVE_MAX: Final = (1 << 31) - 1  # of offsets and positions in the indexes


class Cut(NamedTuple):
    """The place at which a segment is cut."""

    position: int
    header: BatchHeader  # of the first batch that goes
    handle: Handle


class Segment:
    """The batches from one base offset up to the next segment's."""

    __slots__ = (
        "_bytes_since_entry",
        "_first_timestamp",
        "_indexes_ready",
        "_is_ready",
        "_largest",
        "_pool",
        "_recent_lasts",
        "_recent_positions",
        "_recent_start",
        "_reserved",
        "aborted",
        "base_offset",
        "created_ms",
        "directory",
        "jitter_ms",
        "offsets",
        "path",
        "size",
        "suffix",
        "times",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        pool: FilePool,
        *,
        size: int = 0,
        created_ms: int = 0,
        suffix: str = "",
        reserve: int = 0,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = 0  # how much earlier than segment.ms this one is rolled
        self._reserved = reserve  # the file's size while it takes appends; 0: it grows
        self._pool = pool
        stem = self._stem()
        self.path = stem + names.LOG + suffix
        self.offsets = OffsetIndex(stem + names.OFFSET_INDEX + suffix, base_offset, pool)
        self.times = TimeIndex(stem + names.TIME_INDEX + suffix, base_offset, pool)
        self.aborted = TransactionIndex(stem + names.TRANSACTION_INDEX + suffix, pool)
        self._indexes_ready = not size
        self._is_ready = False  # whether all is known that an append needs
        self._bytes_since_entry = 0
        self._first_timestamp: int | None = None if size else NO_TIMESTAMP
        self._largest: TimeEntry | None = None if size else TimeEntry(NO_TIMESTAMP, base_offset)
        # The newest batches' last offsets and positions: readers at the tail need no index.
        self._recent_lasts: list[int] = []
        self._recent_positions: list[int] = []
        self._recent_start = base_offset  # no older batch reaches it

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes)"

    def _stem(self) -> str:
        return f"{self.directory}{os.sep}{self.base_offset:020d}"

    def relocate(self, directory: str) -> None:
        """The files are in another directory now."""
        self.directory = directory
        stem = self._stem()
        self.path = stem + names.LOG
        self.offsets.move(stem + names.OFFSET_INDEX)
        self.times.move(stem + names.TIME_INDEX)
        self.aborted.path = stem + names.TRANSACTION_INDEX

    @property
    def files(self) -> tuple[str, ...]:
        """The paths a segment can have; the indexes need not exist."""
        return self.path, self.offsets.path, self.times.path, self.aborted.path

    def start(self, *, on_disk: bool) -> None:
        """Begin empty. The file's name tells where a log goes on; at 0 that needs no telling."""
        self.offsets.start_empty()
        self.times.start_empty()
        if on_disk:
            handle = self._pool.get(self.path, create=True)
            if self._reserved:
                os.ftruncate(handle.fileno(), self._reserved)

    def handle(self) -> Handle:
        return self._pool.get(self.path)

    # Appending

    def append(
        self,
        data: bytes | bytearray | memoryview,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        index_interval_bytes: int,
    ) -> None:
        """Write one batch at the end, and keep what readers will ask about it."""
        position = self.write(data)
        size = self.size - position
        self.note(position, first_offset, last_offset, max_timestamp, size, index_interval_bytes)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Put bytes at the end; where they are. Readers see all of them or none."""
        position = self.size
        if not self._is_ready:
            self._find_out()
        handle = self._pool.get(self.path, create=True)
        if not position and self._reserved:
            os.ftruncate(handle.fileno(), self._reserved)
        self.size = position + write_at(handle.fileno(), data, position)
        return position

    def _find_out(self) -> None:
        """Read what `note` is going to need: nothing is to go wrong once there are new bytes."""
        self.aborted.entries()
        if self._largest is None:
            self._largest = self._find_largest()
        self._is_ready = True

    def note(
        self,
        position: int,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        size: int,
        index_interval_bytes: int,
    ) -> None:
        """Keep what readers will ask about a batch that is in the file."""
        if position == 0:
            self._first_timestamp = max_timestamp
        largest = self._largest or self.largest
        if max_timestamp > largest.timestamp:
            largest = self._largest = TimeEntry(max_timestamp, last_offset)
        if self._bytes_since_entry > index_interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.append(largest.timestamp, largest.offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        recent = self._recent_lasts
        if not recent:
            self._recent_start = first_offset
        elif len(recent) >= 2 * _RECENT:
            self._recent_start = recent[_RECENT - 1] + 1
            del recent[:_RECENT]
            del self._recent_positions[:_RECENT]
        recent.append(last_offset)
        self._recent_positions.append(position)

    def is_full(self, more: int, last_offset: int, segment_bytes: int, index_bytes: int) -> bool:
        """Whether so many more bytes, up to this offset, have no place here."""
        return (
            self.size + more > segment_bytes
            or self.size > _RELATIVE_MAX
            or last_offset - self.base_offset > _RELATIVE_MAX
            or len(self.offsets.load()) > index_bytes - 8
            or len(self.times.load()) > index_bytes - 24
        )

    def can_hold(self, offset: int) -> bool:
        """Whether an offset is near enough to the base for the indexes to express it."""
        return offset - self.base_offset <= _RELATIVE_MAX

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """The time from the first batch to a batch with this timestamp."""
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        if first >= 0:
            return timestamp - first
        return now_ms - self.created_ms if self.created_ms else 0

    def find_cut(self, offset: int) -> Cut | None:
        """The first batch that reaches this offset, with all that a cut there needs.

        What may be lacking, descriptors above all, is lacking here, before anything is changed.
        """
        self.ready_indexes()
        found = self.locate(offset)
        if found is None:
            return None
        self.offsets.load()
        self.times.load()
        self.aborted.entries()
        return Cut(*found, self._pool.get(self.path))

    def truncate(self, cut: Cut) -> None:
        """Cut off a batch and all after it."""
        position, header, handle = cut
        self._is_ready = False
        os.ftruncate(handle.fileno(), position)
        if self.aborted.reaches(header.base_offset):
            # A loss of power must not bring the records back without what says they were aborted.
            os.fsync(handle.fileno())
        self.size = position
        self.offsets.truncate(header.base_offset)
        self.times.truncate(header.base_offset)
        self.aborted.truncate(header.base_offset)
        self._bytes_since_entry = 0
        self._first_timestamp = None if position else NO_TIMESTAMP
        self._largest = None if position else TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._recent_lasts.clear()
        self._recent_positions.clear()

    def trim(self) -> bool:
        """Let the file end where its records do; whether it did not."""
        if not self._reserved:
            return False
        self._reserved = 0
        with contextlib.suppress(FileNotFoundError):  # it is made with its first record
            os.ftruncate(self._pool.get(self.path).fileno(), self.size)
        return True

    def seal(self) -> None:
        """No more appends: complete the indexes and put them on disk."""
        self.trim()
        self.aborted.save()
        largest = self.largest
        if largest.timestamp >= 0:
            self.times.append(largest.timestamp, largest.offset)
        self.offsets.load()
        self.times.load()
        self.offsets.release()
        self.times.release()
        self._recent_lasts.clear()
        self._recent_positions.clear()

    @property
    def is_ahead_of_its_indexes(self) -> bool:
        """Whether the index files do not say yet all that they should."""
        unsaved = self.offsets.is_unsaved or self.times.is_unsaved or self.aborted.is_unsaved
        return bool(self._recent_lasts) or unsaved

    def sync(self) -> None:
        """Bring the records to the disk; a segment that has left the log is nobody's concern.

        And the indexes, once they are complete: one that has lost its end would still be believed.
        """
        with contextlib.suppress(FileNotFoundError):
            handle = self._pool.get(self.path)
            os.fsync(handle.fileno())
            self.aborted.save()
            if self.aborted.is_on_disk:
                sync_file(self.aborted.path)
            self.offsets.sync()
            self.times.sync()

    def read(self, position: int, header: BatchHeader) -> bytes:
        """The bytes of one batch."""
        handle = self._pool.get(self.path)
        return read_batch(handle.fileno(), position, header.size)

    # What the segment knows about its records

    @property
    def largest(self) -> TimeEntry:
        """The largest timestamp here, and the last offset of the batch it is in."""
        if self._largest is None:
            self._largest = self._find_largest()
        return self._largest

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 when there is no batch."""
        if self._first_timestamp is None:
            first = next(self.headers(0), None)
            self._first_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        return self._first_timestamp

    def _find_largest(self) -> TimeEntry:
        self.ready_indexes()
        entry = self.times.last or TimeEntry(NO_TIMESTAMP, self.base_offset)
        last = self.offsets.last
        for _, header in self.headers(last.position if last else 0):
            if header.max_timestamp > entry.timestamp:
                entry = TimeEntry(header.max_timestamp, header.last_offset)
        return entry

    # Finding

    def headers(
        self, position: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from a batch's position on."""
        handle = self._pool.get(self.path)
        yield from headers(handle.fileno(), position, self.size if end is None else end)

    def position_of(self, offset: int) -> int | None:
        """The position of the first batch that ends at or after an offset."""
        recent = self._recent_lasts
        if recent and offset >= self._recent_start:
            place = bisect_left(recent, offset)
            return self._recent_positions[place] if place < len(recent) else None
        found = self.locate(offset)
        return found[0] if found else None

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch that ends at or after an offset."""
        self.ready_indexes()
        entry = self.offsets.entry_for(offset)
        trusted = entry is None
        for at, header in self.headers(entry.position if entry else 0):
            if entry is not None and not trusted:
                if not self.base_offset <= header.base_offset <= entry.offset:
                    break
                trusted = True
            if header.last_offset >= offset:
                return at, header
        if trusted:
            return None
        # The entry led astray; the records themselves do not.
        self.rebuild_indexes()
        return self._scan(offset, 0)

    def end_before(self, offset: int) -> int:
        """The position behind the last batch that lies below an offset as a whole."""
        position = self.position_of(offset)
        return self.size if position is None else position

    def _scan(self, offset: int, position: int) -> tuple[int, BatchHeader] | None:
        for at, header in self.headers(position):
            if header.last_offset >= offset:
                return at, header
        return None

    def ready_indexes(self) -> None:
        """Make sure that the indexes can be trusted; rebuild them when they cannot."""
        if self._indexes_ready:
            return
        self._indexes_ready = True
        try:
            self.offsets.check(self.size)
            self.times.check()
            if self.size > _UNINDEXED_MAX and not len(self.offsets):
                raise IndexCorrupt(f"{self.offsets.path} is empty")
        except IndexCorrupt:
            self.rebuild_indexes()

    def rebuild_indexes(self, index_interval_bytes: int = 4096) -> None:
        """Write both indexes anew from the batch headers."""
        self.reset_indexes()
        for position, header in self.headers(0):
            self.note(
                position,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                header.size,
                index_interval_bytes,
            )
        self.times.append(self.largest.timestamp, self.largest.offset)
        self.offsets.release()
        self.times.release()
        self.offsets.sync()
        self.times.sync()

    def reset_indexes(self) -> None:
        """Forget all that is known of the records, to be told again with `note`."""
        self._indexes_ready = True
        self.offsets.start_empty()
        self.times.start_empty()
        self._bytes_since_entry = 0
        self._first_timestamp = NO_TIMESTAMP
        self._largest = TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._recent_lasts.clear()
        self._recent_positions.clear()
