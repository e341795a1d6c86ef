"""Translates errors of the operating system.

Where the disk fails, the first error below a log directory ends the use of that directory. What
was being written is then in doubt, and trying again would only hide that: after a failed fsync the
kernel may have dropped the very pages it could not write, and report success the next time.
Recovery at the next start reads what is really there.

Not every error is the disk's. A process that is out of descriptors, or a machine out of memory,
says nothing about the files: whatever was asked has not been done, and may be asked again later.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from klamm.model.errors import KlammError, UsageError

# What a system call says before it has touched a file: out of descriptors, here or on the whole
# machine; out of memory; come back later.
_SHORTAGES: Final = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EAGAIN,
        errno.EINTR,
        errno.ENAMETOOLONG,
    }
)


class StorageTrouble(KlammError):
    """Something could not be done with a log directory."""


class LogDirectoryFailed(StorageTrouble):
    """The disk below a log directory cannot be trusted any more: everything on it is offline."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"log directory {path} failed: {cause}")
        self.path = path
        self.cause = cause


class StorageShortage(StorageTrouble):
    """The process is short of something that is not the disk; asked again later, it may work."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"something was not done in log directory {path} for now: {cause}")
        self.path = path
        self.cause = cause


class LogRefused(StorageTrouble):
    """A log cannot be made under its name; nothing is wrong with any other."""


class Damage(NamedTuple):
    """A fault that recovery found in a log, to be reported."""

    cut: int  # bytes at the end that were no whole, undamaged batches, or came after such
    log_end: int  # where the log ends now
    missing: int  # records that are known to have been there, on the disk or in consumers' sight
    at_rest: bool = False  # whether they were on the disk for sure: somebody has taken them away


def is_shortage(error: OSError) -> bool:
    """Whether an error is about what the process may have, and not about the disk."""
    return error.errno in _SHORTAGES


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

    def failed(self, error: OSError) -> StorageTrouble:
        """The error to raise if everything is as it was, or if the directory has failed.

        The first failure of the disk is noted and told, in whatever thread it came.
        """
        return StorageShortage(self.path, error) if is_shortage(error) else self.in_doubt(error)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Translates errors of the operating system that come out of the block."""
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error

    def in_doubt(self, error: OSError) -> LogDirectoryFailed:
        """The error to raise for a failure half-way through, whatever its cause."""
        if self.failure is None:
            self.failure = LogDirectoryFailed(self.path, error)
            if self._on_failure is not None:
                self._on_failure()
        return self.failure


class DirectoryUnusable(UsageError):
    """The disk below a log directory fails before anything is known of the directory."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"log directory {path} cannot be used: {cause}")
        self.path = path
        self.cause = cause


def unusable(path: str, cause: OSError) -> UsageError:
    """The error that ends the opening of a directory; only a bad disk can be done without."""
    if is_shortage(cause):
        return UsageError(
            f"log directory {path} cannot be opened now: {cause}; "
            "let the process have more (ulimit -n), and start again"
        )
    return DirectoryUnusable(path, cause)
