"""The aborted transactions of a segment.

Readers of committed records get the records of aborted transactions too, and a list of them, to
leave those out. The list comes from here: one entry for each abort marker in the segment, in the
order of the markers. The file exists only when there is something in it.
"""

from __future__ import annotations

import os
import struct
from typing import Final, NamedTuple

from klamm.log.disk.failure import is_shortage
from klamm.log.disk.files import FilePool, read_file, write_at

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class Aborted(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the abort marker
    last_stable_offset: int  # right after the abort


class TransactionIndex:
    """The aborted transactions whose markers are in one segment."""

    __slots__ = ("_entries", "_pool", "_saved", "path")

    def __init__(self, path: str, pool: FilePool) -> None:
        self.path = path
        self._pool = pool
        self._entries: list[Aborted] | None = None
        self._saved = 0  # how many entries the file has; -1: what it has is not right

    def entries(self) -> list[Aborted]:
        if self._entries is None:
            self._entries = self._read()
            self._saved = len(self._entries)
        return self._entries

    @property
    def is_on_disk(self) -> bool:
        """Whether there is a file, as far as anybody asked."""
        return bool(self._entries)

    def append(self, aborted: Aborted) -> None:
        """Add what a marker that is in the log has aborted.

        Where the file cannot be opened now it is left to a later save.
        """
        self.entries().append(aborted)
        self._save_if_possible()

    def save(self) -> None:
        """Bring the file up to date."""
        entries = self._entries
        if entries is None or self._saved == len(entries):
            return
        handle = self._pool.get(self.path, create=True)
        if self._saved < 0:
            os.ftruncate(handle.fileno(), 0)
            self._saved = 0
        # A flush may do this in another thread: what both write is the same.
        count, saved = len(entries), self._saved
        write_at(handle.fileno(), b"".join(map(_encode, entries[saved:count])), saved * _ENTRY.size)
        self._saved = count

    @property
    def is_unsaved(self) -> bool:
        return self._entries is not None and self._saved != len(self._entries)

    def _save_if_possible(self) -> None:
        try:
            self.save()
        except OSError as error:
            if not is_shortage(error):
                raise

    def reaches(self, offset: int) -> bool:
        """Whether a transaction ended at or after an offset."""
        return any(aborted.last_offset >= offset for aborted in self.entries())

    def truncate(self, offset: int) -> None:
        """Drop the transactions that ended at or after the new end of the log."""
        entries = self.entries()
        kept = [aborted for aborted in entries if aborted.last_offset < offset]
        if len(kept) < len(entries):
            self.replace(kept)

    def replace(self, entries: list[Aborted]) -> None:
        """Let these be the entries, whatever the file says."""
        self._entries = entries
        self._saved = -1 if entries or os.path.exists(self.path) else 0
        self._save_if_possible()

    def _read(self) -> list[Aborted]:
        content = read_file(self.path) or b""
        whole = len(content) - len(content) % _ENTRY.size
        return [Aborted(*fields[1:]) for fields in _ENTRY.iter_unpack(content[:whole])]


def _encode(aborted: Aborted) -> bytes:
    return _ENTRY.pack(_VERSION, *aborted)
