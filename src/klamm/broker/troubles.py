"""Storage troubles: failed disks, and shortages that pass.

A disk that failed once is not trusted again until a restart, and whoever keeps something on it is
told once. A shortage is only logged, and not for every request that meets it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from klamm.log.disk.failure import LogDirectoryFailed, StorageTrouble

log = logging.getLogger(__name__)

_TOLD_EVERY_MS: Final = 30_000


class Troubles:
    """The storage troubles of one broker."""

    def __init__(self, elapsed_ms: Callable[[], int]) -> None:
        self.on_failure: list[Callable[[LogDirectoryFailed], None]] = []
        self._elapsed_ms = elapsed_ms
        self._failed_paths: set[str] = set()
        self._untold_count = 0
        self._told_ms: int | None = None

    def met(self, trouble: StorageTrouble) -> None:
        """A log could not do what it should; what that means depends on whose fault it is."""
        if isinstance(trouble, LogDirectoryFailed):
            self.directory_failed(trouble)
            return
        # Thousands of requests may meet the same shortage: one of them speaks for a while.
        now_ms = self._elapsed_ms()
        self._untold_count += 1
        if self._told_ms is None or now_ms - self._told_ms >= _TOLD_EVERY_MS:
            log.error("storage trouble", extra={"why": str(trouble), "times": self._untold_count})
            self._told_ms, self._untold_count = now_ms, 0

    def directory_failed(self, failure: LogDirectoryFailed) -> None:
        """A disk cannot be trusted any more: what is on it is offline until a restart."""
        if failure.path in self._failed_paths:
            return  # several who met the failure tell of it
        self._failed_paths.add(failure.path)
        # The operating system's word says it all; where in the code it was met helps nobody.
        why = failure.cause.strerror or str(failure.cause)
        log.critical("a log directory failed", extra={"path": failure.path, "why": why})
        for hook in self.on_failure:
            hook(failure)
