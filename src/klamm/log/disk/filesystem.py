"""Bringing many files to the disk at once.

An fsync waits for the disk each time, so that a thousand new logs or ten thousand dirty ones take
seconds. `syncfs` brings everything of one file system to the disk in one go, a hundred times
quicker. It may only stand for many fsyncs where it tells of failed writes as they do: since Linux
5.8 it reports every error since the descriptor was opened, on file systems that keep a device of
their own. Elsewhere, and for a handful of files, fsync it is.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from typing import Final

from klamm.log.disk.files import DRAFT, write_draft

# What statfs calls ext2-4, XFS, Btrfs, F2FS and tmpfs.
_TRUSTED: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
_SINCE: Final = (5, 8)
_STATFS_BYTES: Final = 512  # more than the structure has anywhere

Replace = Callable[[str, bytes], None]  # gives a file a new content; see `files.replace_file`


class FileSystem:
    """The file system that one directory is on.

    Open for as long as the directory is used: an error of any write in that time is told.
    """

    __slots__ = ("_fd", "_libc", "can_sync")

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.can_sync = _kernel() >= _SINCE and self._kind(path) in _TRUSTED

    def sync(self) -> None:
        """Bring all that was written to this file system to its disk; only where `can_sync`."""
        if self._libc.syncfs(self._fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _kind(self, path: str) -> int:
        found = ctypes.create_string_buffer(_STATFS_BYTES)
        if not hasattr(self._libc, "syncfs") or self._libc.statfs(os.fsencode(path), found) != 0:
            return -1
        return ctypes.c_long.from_buffer(found).value


class Bulk:
    """Files that get a new content, all together: the old ones are there until all new ones are."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._staged: list[str] = []

    def replace(self, path: str, content: bytes) -> None:
        write_draft(path, content)
        self._staged.append(path)

    def finish(self) -> None:
        """Make everything durable, whether it was written through here or not."""
        self._file_system.sync()
        for path in self._staged:
            os.replace(path + DRAFT, path)
        self._file_system.sync()


def _kernel() -> tuple[int, ...]:
    system = os.uname()
    numbers = re.match(r"(\d+)\.(\d+)", system.release)
    is_linux = system.sysname == "Linux" and numbers is not None
    return tuple(map(int, numbers.groups())) if is_linux and numbers else (0, 0)
