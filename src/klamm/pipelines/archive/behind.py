"""Following a file that grows: its checksum is taken and it is brought to the disk on the way.

Whoever writes the file goes on at once; a thread of the follower's own reads what is new, from
memory as a rule, and waits for the disk now and then, so that little is left to do at the end.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_READ_BYTES: Final = 1 << 20
_SYNC_BYTES: Final = 32 << 20  # after so many the disk is waited for


class Follower:
    """Knows a file as far as it was told that it reaches."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="behind")
        self._steps: list[Future[None]] = []
        self._sum = hashlib.sha256()
        self._size = self._synced = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._file.close()

    def reached(self, size: int) -> None:
        """So many bytes of the file are written and stay as they are."""
        self._steps.append(self._pool.submit(self._follow, size))

    def finish(self, size: int) -> str:
        """Waits until the whole file is on the disk; its SHA-256."""
        self.reached(size)
        for step in self._steps:
            step.result()
        os.fsync(self._file.fileno())
        return self._sum.hexdigest()

    def _follow(self, size: int) -> None:
        while self._size < size:
            piece = self._file.read(min(_READ_BYTES, size - self._size))
            if not piece:
                raise OSError(f"{self._file.name} has lost its end")
            self._sum.update(piece)
            self._size += len(piece)
        if self._size - self._synced >= _SYNC_BYTES:
            os.fsync(self._file.fileno())
            self._synced = self._size
