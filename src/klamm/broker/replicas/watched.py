"""Those who watch a partition, in sets that are made when the first one comes.

Most partitions of a wide cluster are never watched, and three empty sets are as large as all the
rest of such a partition.
"""

from __future__ import annotations

from typing import Generic, TypeVar

W = TypeVar("W")
F = TypeVar("F")


class Watched(Generic[W, F]):
    """A thing with three kinds of watchers."""

    __slots__ = ("_append_watches", "_committed_watches", "_follower_watches")

    def __init__(self) -> None:
        self._append_watches: set[W] | tuple[()] = ()
        self._committed_watches: set[W] | tuple[()] = ()
        self._follower_watches: set[F] | tuple[()] = ()

    @property
    def append_watches(self) -> set[W]:
        """Those who hear of appended records."""
        if isinstance(self._append_watches, tuple):
            self._append_watches = set()
        return self._append_watches

    @property
    def committed_watches(self) -> set[W]:
        """Those who hear of records below the high watermark."""
        if isinstance(self._committed_watches, tuple):
            self._committed_watches = set()
        return self._committed_watches

    @property
    def follower_watches(self) -> set[F]:
        """The sessions of followers."""
        if isinstance(self._follower_watches, tuple):
            self._follower_watches = set()
        return self._follower_watches
