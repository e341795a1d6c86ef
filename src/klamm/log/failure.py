"""When the disk fails.

The first error of the operating system below a log directory ends the use of that directory. What
was being written is then in doubt, and trying again would only hide that: after a failed fsync the
kernel may have dropped the very pages it could not write, and report success the next time.
Recovery at the next start reads what is really there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from klamm.model.errors import KlammError


class LogDirectoryFailed(KlammError):
    """The disk below a log directory cannot be trusted any more: everything on it is offline."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"log directory {path} failed: {cause}")
        self.path = path
        self.cause = cause


class Damage(NamedTuple):
    """What recovery found wrong with a log, for somebody to be told."""

    cut: int  # bytes at the end that were no whole, undamaged batches, or came after such
    log_end: int  # where the log ends now
    missing: int  # records that are known to have been there, on the disk or in consumers' sight


class Health:
    """Whether one log directory can be used; all its logs share this."""

    __slots__ = ("_on_failure", "failure", "path")

    def __init__(self, path: str, on_failure: Callable[[], None] | None = None) -> None:
        self.path = path
        self.failure: LogDirectoryFailed | None = None
        self._on_failure = on_failure

    def check(self) -> None:
        """Raise when the directory has failed before."""
        if self.failure is not None:
            raise self.failure

    def failed(self, error: OSError) -> LogDirectoryFailed:
        """Note the first failure and tell about it, in whatever thread it came; what to raise."""
        if self.failure is None:
            self.failure = LogDirectoryFailed(self.path, error)
            if self._on_failure is not None:
                self._on_failure()
        return self.failure
