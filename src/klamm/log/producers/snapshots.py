"""The producer snapshots of one log: files named by the offset they were taken at."""

from __future__ import annotations

import os
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable

from klamm.log.disk import names
from klamm.log.disk.files import read_file, remove_files, replace_unsynced
from klamm.log.disk.filesystem import Replace
from klamm.log.producers.tracking import ProducerStates


class Snapshots:
    """The snapshots on disk, and their content."""

    __slots__ = ("_directory", "_offsets")

    def __init__(self, directory: str, offsets: Iterable[int] = ()) -> None:
        self._directory = directory
        self._offsets = sorted(offsets)

    def relocate(self, directory: str) -> None:
        """The files are in another directory now."""
        self._directory = directory

    def __bool__(self) -> bool:
        return bool(self._offsets)

    @property
    def latest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        return os.path.join(self._directory, names.offset_name(offset, names.SNAPSHOT))

    def take(
        self, offset: int, states: ProducerStates, replace: Replace = replace_unsynced
    ) -> None:
        """Keep the state before this offset."""
        replace(self.path(offset), states.encode())
        if offset not in self._offsets:
            insort(self._offsets, offset)

    def newest(self) -> tuple[int, ProducerStates] | None:
        """The newest snapshot; broken ones are removed on the way."""
        for offset in reversed(self._offsets):
            states = ProducerStates.decode(read_file(self.path(offset)) or b"")
            if states is not None:
                return offset, states
            self._remove([offset])
        return None

    def cut(self, offset: int) -> None:
        """Remove those above the new end of the log."""
        self._remove(self._offsets[bisect_right(self._offsets, offset) :])

    def prune(self, bases: Collection[int]) -> None:
        """Keep those at a live segment's base, from which it could be recovered, and the newest."""
        kept = {*bases, self.latest}
        self._remove([offset for offset in self._offsets if offset not in kept])

    def clear(self) -> None:
        self._remove(self._offsets)

    def _remove(self, offsets: list[int]) -> None:
        gone = set(offsets)
        remove_files(self.path(offset) for offset in gone)
        self._offsets = [offset for offset in self._offsets if offset not in gone]
