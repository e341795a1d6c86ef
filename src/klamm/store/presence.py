"""Whether the store's file is still the one that was opened.

SQLite writes on happily into a file that somebody has unlinked, replaced or cut: a commit succeeds,
and the next start finds nothing of it. So the names are looked up before and after each commit, and
now and then while nobody writes. Neither the file nor its write-ahead log ever becomes shorter
while the store is open; one that did was cut by somebody else.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from klamm.model.errors import StoreUnavailable

WAL_SUFFIX: Final = "-wal"


class StoreLost(StoreUnavailable):
    """The store's file is gone, replaced or cut: nothing that is written to it will last."""


class _Seen(NamedTuple):
    """One file when it was last looked at."""

    device: int
    inode: int
    size: int


class StoreFiles:
    """The file and its write-ahead log, as they were when they were last looked at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # The log appears with the first write, and stays.
        self._names: Final = (str(path), f"{path}{WAL_SUFFIX}")
        self._seen: dict[str, _Seen] = {}
        self.look()
        if self._names[0] not in self._seen:
            raise StoreLost(self._told("it was removed"))

    def look(self) -> None:
        """Raise StoreLost when a file is no longer what it was. For the store's thread."""
        for name in self._names:
            before = self._seen.get(name)
            try:
                found = os.stat(name)
            except OSError as error:
                if before is None:
                    continue
                gone = isinstance(error, FileNotFoundError)
                why = "was removed" if gone else f"cannot be seen: {error.strerror}"
                raise StoreLost(self._told(f"{_which(name)} {why}")) from error
            now = _Seen(found.st_dev, found.st_ino, found.st_size)
            if before is not None and before[:2] != now[:2]:
                raise StoreLost(self._told(f"{_which(name)} was replaced by another"))
            if before is not None and now.size < before.size:
                cut = f"{_which(name)} was cut from {before.size} to {now.size} bytes"
                raise StoreLost(self._told(cut))
            self._seen[name] = now

    def _told(self, what: str) -> str:
        return f"the store {self._path} is lost: {what}"


def _which(name: str) -> str:
    return "its write-ahead log" if name.endswith(WAL_SUFFIX) else "its file"
