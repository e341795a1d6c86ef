"""One user at a time for a log directory."""

from __future__ import annotations

import fcntl
import os

from klamm.log.disk import names
from klamm.log.disk.files import FILE_MODE
from klamm.model.errors import UsageError

# Kafka takes a POSIX lock, so we do. That kind does not hold between two users in one process;
# this set does.
_held: set[str] = set()


class DirectoryLock:
    """Held while a broker uses a directory; the kernel lets go of it when the process dies."""

    __slots__ = ("_directory", "_fd")

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1

    def take(self) -> None:
        """Raise UsageError when somebody has it."""
        if self._directory in _held:
            raise UsageError(f"{self._directory} is in use by another broker of this process")
        path = os.path.join(self._directory, names.LOCK)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise UsageError(f"{self._directory} is in use by another process") from error
        self._fd = fd
        _held.add(self._directory)

    def drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _held.discard(self._directory)
