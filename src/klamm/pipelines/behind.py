"""A file that is written behind its maker's back: summed, and brought to the disk as it grows.

Whoever makes the bytes goes on at once; a thread of the file's own takes their checksum and writes
them, and waits for the disk now and then, so that little is left to wait for at the end. A fault of
the disk comes up at a later write, or when the file is finished.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_WAITING_BYTES: Final = 32 << 20  # that may wait to be written
_SYNC_BYTES: Final = 32 << 20  # after so many the disk is waited for


class FileBehind:
    """A new file, as far as somebody who only writes needs one."""

    def __init__(self, path: Path) -> None:
        self._out = path.open("wb", buffering=0)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="behind")
        self._waiting: deque[tuple[int, Future[None]]] = deque()
        self._waiting_bytes = 0
        self._unsynced = 0
        self._sum = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._out.close()

    def write(self, data: Any) -> int:
        """Takes bytes; waits only while too many are under way."""
        piece = bytes(data)  # free of charge where it is bytes: nobody changes them meanwhile
        self.size += len(piece)
        self._waiting.append((len(piece), self._pool.submit(self._put, piece)))
        self._waiting_bytes += len(piece)
        self._await(_WAITING_BYTES)
        return len(piece)

    def flush(self) -> None:
        """Nothing: `finish` does it."""

    def tell(self) -> int:
        """How many bytes there are."""
        return self.size

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._out.closed

    def finish(self) -> str:
        """Waits until all of it is on the disk; the SHA-256 of the whole file."""
        self._await(0)
        os.fsync(self._out.fileno())
        return self._sum.hexdigest()

    def _await(self, most: int) -> None:
        while self._waiting and self._waiting_bytes > most:
            size, put = self._waiting.popleft()
            put.result()
            self._waiting_bytes -= size

    def _put(self, piece: bytes) -> None:
        self._sum.update(piece)
        left = memoryview(piece)
        while left:
            left = left[self._out.write(left) :]
        self._unsynced += len(piece)
        if self._unsynced >= _SYNC_BYTES:
            os.fsync(self._out.fileno())
            self._unsynced = 0
