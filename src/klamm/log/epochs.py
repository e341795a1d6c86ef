"""Records which leader wrote which part of a log.

A leader epoch owns the offsets from where it began to where the next one begins. Two replicas
agree up to the end of the last epoch that both know, so this small list is all it takes to find
where a returning follower has to cut its log (KIP-101, KIP-279).

The list is written out when the log is flushed, not when an epoch is assigned: an epoch without
records is dropped at the next start anyway, and recovery finds the epochs of unflushed records in
the records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

UNDEFINED: Final = -1


def _epoch(entry: tuple[int, int]) -> int:
    return entry[0]


def _start(entry: tuple[int, int]) -> int:
    return entry[1]


@lru_cache(maxsize=256)  # most logs have no record, and the same few epochs
def _only(epoch: int, offset: int) -> tuple[tuple[int, int], ...]:
    return ((epoch, offset),)


class EpochCache:
    """The epochs of one log with their first offsets, both strictly increasing."""

    __slots__ = ("_entries", "_log_end", "is_dirty")

    def __init__(self, log_end: Callable[[], int], entries: Iterable[tuple[int, int]] = ()) -> None:
        self._log_end = log_end
        # Replaced as a whole, never changed: a flush in another thread writes what it has got.
        self._entries: tuple[tuple[int, int], ...] = tuple(entries)
        self.is_dirty = False  # whether the file does not say the same

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset), oldest first."""
        return self._entries

    @property
    def latest(self) -> int:
        """The newest epoch known, -1 when there is none."""
        return self._entries[-1][0] if self._entries else UNDEFINED

    def assign(self, epoch: int, offset: int) -> None:
        """This epoch writes from this offset on; what contradicts that was never committed."""
        entries = self._entries
        if epoch < 0 or (entries and entries[-1][0] == epoch and entries[-1][1] <= offset):
            return
        keep = min(
            bisect_left(entries, epoch, key=_epoch), bisect_left(entries, offset, key=_start)
        )
        self._replace((*entries[:keep], (epoch, offset)) if keep else _only(epoch, offset))

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(epoch, end): the largest known epoch not above this one and where it ended.

        (-1, -1) when that cannot be said. An epoch before the first known one ended where that
        begins.
        """
        entries = self._entries
        if epoch == UNDEFINED or not entries or epoch > entries[-1][0]:
            return UNDEFINED, UNDEFINED
        if epoch == entries[-1][0]:
            return epoch, self._log_end()
        after = bisect_right(entries, epoch, key=_epoch)
        if after == 0:
            return epoch, entries[0][1]
        return entries[after - 1][0], entries[after][1]

    def epoch_at(self, offset: int) -> int:
        """The epoch that owns an offset, -1 when unknown."""
        at = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[at][0] if at >= 0 else UNDEFINED

    def truncate_end(self, offset: int) -> None:
        """Forget epochs that begin at or after the new end of the log."""
        keep = bisect_left(self._entries, offset, key=_start)
        if keep < len(self._entries):
            self._replace(self._entries[:keep])

    def truncate_start(self, offset: int) -> None:
        """Forget epochs that ended before the new start; the one that spans it starts there."""
        entries = self._entries
        first = bisect_right(entries, offset, key=_start) - 1
        if first < 0 or (first == 0 and entries[0][1] == offset):
            return
        self._replace(((entries[first][0], offset), *entries[first + 1 :]))

    def take_over(self, entries: tuple[tuple[int, int], ...]) -> None:
        """Let these be the epochs: those of another log with the same records."""
        if self._entries != entries:
            self._replace(entries)

    def clear(self) -> None:
        if self._entries:
            self._replace(())

    def _replace(self, entries: tuple[tuple[int, int], ...]) -> None:
        self._entries = entries
        self.is_dirty = True
