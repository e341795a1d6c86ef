"""The two sparse indexes of a segment.

An index says where to start looking, never the whole way: one entry for about every four
kilobytes of records. The offset index leads from an offset to a position in the file, the time
index from a timestamp to an offset.

While a segment takes appends its entries are kept in memory and reach the file when the segment is
rolled or closed; an append thus costs one system call, and an idle log no file. Nothing is
lost by that: recovery rebuilds the indexes of the segment that was active. Once the segment
is closed its index is searched on disk. Kafka pads the files of an active segment with zeros
to their full size and cuts them when it closes; ours always have the size of their entries.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import Final, NamedTuple

from klamm.log.disk.files import FilePool, read_file, sync_file, write_at

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_SIZE_MAX: Final = 1 << 31


class IndexCorrupt(Exception):
    """An index file cannot be what was written; it is to be rebuilt from the records."""


class OffsetEntry(NamedTuple):
    offset: int  # of the last record of a batch
    position: int  # where that batch starts


class TimeEntry(NamedTuple):
    timestamp: int  # the largest in the segment so far
    offset: int  # the last offset of the batch it is in


class _Index:
    """Entries of one size, sorted; in memory while they grow, on disk afterwards."""

    entry: struct.Struct

    __slots__ = ("_base", "_entries", "_pool", "_saved", "path")

    def __init__(self, path: str, base_offset: int, pool: FilePool) -> None:
        self.path = path
        self._base = base_offset
        self._pool = pool
        self._entries: bytearray | None = None
        self._saved = -1  # how many bytes of the entries are in the file; -1: not one is right

    def __len__(self) -> int:
        return self._size() // self.entry.size

    def start_empty(self) -> None:
        """Begin anew, whatever the file says; the next save replaces it."""
        self._entries = bytearray()
        self._saved = -1

    def load(self) -> bytearray:
        """Take the entries into memory, where they can be added to."""
        if self._entries is None:
            content = read_file(self.path)
            self._entries = bytearray(content or b"")
            self._saved = -1 if content is None else len(content)
            self.check()
        return self._entries

    def check(self) -> None:
        """Raise when the entries make no sense."""
        if self._size() % self.entry.size:
            self._entries = None
            raise IndexCorrupt(f"{self.path} has {self._size()} bytes")

    def save(self) -> None:
        """Bring the file up to date with the entries in memory."""
        entries = self._entries
        if entries is None or self._saved == len(entries):
            return
        handle = self._pool.get(self.path, create=True)
        if self._saved < 0:
            os.ftruncate(handle.fileno(), 0)
            self._saved = 0
        write_at(handle.fileno(), entries[self._saved :], self._saved)
        self._saved = len(entries)

    @property
    def is_unsaved(self) -> bool:
        """Whether there are entries, or the lack of them, that the file does not have."""
        if self._entries is None or self._saved == len(self._entries):
            return False
        return bool(self._entries) or os.path.exists(self.path)

    def release(self) -> None:
        """Save, and search the file from now on."""
        self.save()
        self._entries = None

    def sync(self) -> None:
        """Bring the file to the disk, where it is complete."""
        if self._entries is None:
            with contextlib.suppress(FileNotFoundError):
                sync_file(self.path)

    def move(self, path: str) -> None:
        """The file has a new name."""
        self.path = path

    def _size(self) -> int:
        if self._entries is not None:
            return len(self._entries)
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0

    def _search(self, key: int, column: int) -> int:
        """The place of the last entry whose column is not above the key, -1 when all are above."""
        unpack, width = self.entry.unpack_from, self.entry.size
        entries = self._entries
        low, high = 0, self._size() // width
        if entries is not None:
            while low < high:
                middle = (low + high) // 2
                if unpack(entries, middle * width)[column] <= key:
                    low = middle + 1
                else:
                    high = middle
            return low - 1
        if not high:
            return -1
        handle = self._pool.get(self.path)
        while low < high:
            middle = (low + high) // 2
            if unpack(os.pread(handle.fileno(), width, middle * width))[column] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _at(self, place: int) -> tuple[int, int]:
        width = self.entry.size
        if self._entries is not None:
            first, second = self.entry.unpack_from(self._entries, place * width)
        else:
            handle = self._pool.get(self.path)
            first, second = self.entry.unpack(os.pread(handle.fileno(), width, place * width))
        return first, second

    def _cut(self, count: int) -> None:
        entries = self.load()
        size = count * self.entry.size
        if size < len(entries):
            del entries[size:]
            self._saved = -1


class OffsetIndex(_Index):
    """(offset, position) pairs, strictly increasing."""

    entry = _OFFSET_ENTRY

    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        self.load().extend(_OFFSET_ENTRY.pack(offset - self._base, position))

    def entry_for(self, offset: int) -> OffsetEntry | None:
        """The last entry not above an offset: its batch, or one later, holds the offset."""
        place = self._search(offset - self._base, 0)
        if place < 0:
            return None
        relative, position = self._at(place)
        return OffsetEntry(self._base + relative, position)

    def bound_after(self, position: int) -> int | None:
        """An offset that is not below any record before this position; None: no entry says."""
        place = self._search(position - 1, 1) + 1
        if place >= len(self):
            return None
        return self._base + self._at(place)[0]

    def truncate(self, offset: int) -> None:
        """Drop the entries of batches that hold this offset or later ones."""
        self.load()
        self._cut(self._search(offset - self._base - 1, 0) + 1)

    def check(self, segment_size: int = _SIZE_MAX) -> None:
        """Raise when the entries make no sense, alone or for a segment of this size."""
        super().check()
        last = self.last
        if last and (last.offset < self._base or not 0 <= last.position < segment_size):
            self._entries = None
            raise IndexCorrupt(f"{self.path} leads to nowhere")

    @property
    def last(self) -> OffsetEntry | None:
        if not len(self):
            return None
        relative, position = self._at(len(self) - 1)
        return OffsetEntry(self._base + relative, position)


class TimeIndex(_Index):
    """(timestamp, offset) pairs; a timestamp is entered only when it is a new maximum."""

    entry = _TIME_ENTRY

    __slots__ = ()

    def append(self, timestamp: int, offset: int) -> None:
        entries = self.load()
        if entries and timestamp <= _TIME_ENTRY.unpack_from(entries, len(entries) - 12)[0]:
            return
        entries.extend(_TIME_ENTRY.pack(timestamp, offset - self._base))

    def before(self, timestamp: int) -> TimeEntry | None:
        """The last entry whose timestamp is not above this one."""
        place = self._search(timestamp, 0)
        return self._entry(place) if place >= 0 else None

    @property
    def last(self) -> TimeEntry | None:
        return self._entry(len(self) - 1) if len(self) else None

    def truncate(self, offset: int) -> None:
        self.load()
        self._cut(self._search(offset - self._base - 1, 1) + 1)

    def check(self) -> None:
        super().check()
        if len(self) and self._at(len(self) - 1) < self._at(0):
            self._entries = None
            raise IndexCorrupt(f"{self.path} is not in order")

    def _entry(self, place: int) -> TimeEntry:
        timestamp, relative = self._at(place)
        return TimeEntry(timestamp, self._base + relative)
