"""The aborted transactions of a segment.

Readers of committed records get the records of aborted transactions too, and a list of them, to
leave those out. The list comes from here: one entry for each abort marker in the segment, in the
order of the markers. The file exists only when there is something in it.
"""

from __future__ import annotations

import os
import struct
from typing import Final, NamedTuple

from klamm.log.files import FilePool, read_file, write_at

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class Aborted(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the abort marker
    last_stable_offset: int  # right after the abort


class TransactionIndex:
    """What is known of the aborted transactions whose markers are in one segment."""

    __slots__ = ("_entries", "_pool", "path")

    def __init__(self, path: str, pool: FilePool) -> None:
        self.path = path
        self._pool = pool
        self._entries: list[Aborted] | None = None

    def entries(self) -> list[Aborted]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    @property
    def is_on_disk(self) -> bool:
        """Whether there is a file, as far as anybody asked."""
        return bool(self._entries)

    def append(self, aborted: Aborted) -> None:
        entries = self.entries()
        handle = self._pool.get(self.path, create=True)
        write_at(handle.fileno(), _encode(aborted), len(entries) * _ENTRY.size)
        entries.append(aborted)

    def truncate(self, offset: int) -> None:
        """Drop the transactions that ended at or after the new end of the log."""
        entries = self.entries()
        kept = [aborted for aborted in entries if aborted.last_offset < offset]
        if len(kept) < len(entries):
            self.replace(kept)

    def replace(self, entries: list[Aborted]) -> None:
        """Let these be the entries, whatever the file says."""
        self._entries = entries
        if not entries and not os.path.exists(self.path):
            return
        handle = self._pool.get(self.path, create=True)
        os.ftruncate(handle.fileno(), 0)
        write_at(handle.fileno(), b"".join(map(_encode, entries)), 0)

    def _read(self) -> list[Aborted]:
        content = read_file(self.path) or b""
        whole = len(content) - len(content) % _ENTRY.size
        return [Aborted(*fields[1:]) for fields in _ENTRY.iter_unpack(content[:whole])]


def _encode(aborted: Aborted) -> bytes:
    return _ENTRY.pack(_VERSION, *aborted)
