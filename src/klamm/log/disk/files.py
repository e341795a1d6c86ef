"""Open files, bounded.

A broker may hold ten thousand logs and a process perhaps a thousand descriptors, so nobody here
keeps a file open: whoever needs one asks the pool, which closes those unused for longest. A handle
given out stays valid for as long as somebody refers to it, even when the pool has let go of it or
the file was renamed or unlinked; the descriptor is closed with the last reference. That is what
makes it safe to send from a handle while the log rolls, cleans or deletes underneath.

All writes name their position, so a handle has no state but its descriptor, and the loop and worker
threads may use one at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

# What others may do with the files of a broker: nothing. A stricter umask makes it less still.
FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
_OTHERS: Final = 0o077
_LIMIT_MIN: Final = 32
_LIMIT_MAX: Final = 1024
DRAFT: Final = ".tmp"  # what a file is called until it takes the place of another
_READ_SIZE: Final = 1 << 16


class Handle:
    """One open file: something with a `fileno`, closed when nobody refers to it any more."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, flags: int = 0) -> None:
        self._fd = -1
        self.path = path
        if path:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, FILE_MODE)

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


# What a slice of no bytes is a slice of.
NO_FILE: Final = Handle("")


def fair_limit() -> int:
    """The number of files one broker may keep open: an eighth of the process's limit.

    Several brokers share a process, and each needs descriptors for its connections too.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_LIMIT_MIN, min(allowed // 8, _LIMIT_MAX))


class FilePool:
    """The files open now, the longest unused first."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = fair_limit() if limit is None else limit
        self._open: OrderedDict[str, Handle] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str, *, create: bool = False) -> Handle:
        """The file of this path, opened when it is not open, made only when that is asked for.

        Keep the handle, not its number: the number may be another file's as soon as it is gone.
        """
        handle = self._open.get(path)
        if handle is None:
            return self._admit(path, os.O_CREAT if create else 0)
        try:  # noqa: SIM105 - a context manager costs more than what it would guard
            self._open.move_to_end(path)
        except KeyError:
            pass  # another thread has let go of it between the two lines; we hold it
        return handle

    def forget(self, *paths: str) -> None:
        """Let go of files that are about to be renamed, removed or replaced."""
        for path in paths:
            self._open.pop(path, None)

    def forget_under(self, *directories: str) -> None:
        """Let go of every file of these directories."""
        gone = frozenset(directories)
        for path in [path for path in list(self._open) if os.path.dirname(path) in gone]:
            self._open.pop(path, None)

    def clear(self) -> None:
        self._open.clear()

    def _admit(self, path: str, flags: int) -> Handle:
        try:
            handle = Handle(path, flags)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            # Others have taken the descriptors: do with fewer from now on.
            self._limit = max(len(self._open) // 2, 1)
            self._shrink(self._limit - 1)
            handle = Handle(path, flags)
        self._open[path] = handle
        self._shrink(self._limit)
        return handle

    def _shrink(self, count: int) -> None:
        while len(self._open) > count:
            with contextlib.suppress(KeyError):
                self._open.popitem(last=False)


def write_at(fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
    """Write all of it; a file system may take less than it was given in one go."""
    written = os.pwrite(fd, data, position)
    size = len(data)
    while written < size:
        written += os.pwrite(fd, memoryview(data)[written:], position + written)
    return written


def sync_file(path: str) -> None:
    """Make the content of one file durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable: a new file is not there until its name is."""
    sync_file(path)


@contextlib.contextmanager
def syncing(path: str) -> Iterator[Callable[[], None]]:
    """Sync a directory as often as wanted; that there is a descriptor for it is known before."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield lambda: os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: str) -> None:
    """Make a directory and those above it, where they are missing, so that they are there to stay.

    A synced file is as lost as any other when the name of a directory above it is.
    """
    above = os.path.dirname(path)
    if os.path.isdir(path) or above == path:
        return
    make_directory(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, DIRECTORY_MODE)
    sync_directory(above)


def tighten(path: str) -> bool:
    """Let nobody else use what an earlier version has left open to them; whether it was open.

    A directory that everybody shares stays as it is, and so does what belongs to another user.
    """
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
        if not mode & _OTHERS or mode & stat.S_ISVTX or stat.S_ISLNK(mode):
            return False
        os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)
    except (PermissionError, FileNotFoundError):
        return False
    return True


def tighten_below(directory: str) -> None:
    """The same for the files of a directory, where the directory itself was open to others."""
    if tighten(directory):
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            if not os.path.isdir(path):
                tighten(path)


def read_file(path: str) -> bytes | None:
    """The whole of a small file; None when there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        content = os.read(fd, _READ_SIZE)
        if len(content) < _READ_SIZE:
            return content
        return content + b"".join(iter(lambda: os.read(fd, _READ_SIZE), b""))
    finally:
        os.close(fd)


def write_file(
    path: str, content: bytes, *, durable: bool = False, directory: int | None = None
) -> None:
    """Write a whole file; a crash may leave half of it. A link is not followed, but refused.

    `directory` is an open one that the path is relative to.
    """
    _write(path, content, os.O_TRUNC, durable=durable, directory=directory)


def write_draft(path: str, content: bytes, *, durable: bool = False) -> str:
    """Write the file that is to replace one; its name.

    It is a new file in any case: what an earlier life, or somebody with a link, has put there goes.
    """
    draft = path + DRAFT
    try:
        _write(draft, content, os.O_EXCL, durable=durable)
    except FileExistsError:
        os.unlink(draft)
        _write(draft, content, os.O_EXCL, durable=durable)
    return draft


def _write(
    path: str, content: bytes, flags: int, *, durable: bool, directory: int | None = None
) -> None:
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, FILE_MODE, dir_fd=directory)
    try:
        write_at(fd, content, 0)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: str, content: bytes) -> None:
    """Write a whole file such that a crash leaves the old one or the new one, never half.

    It is the new one for sure once the directory is synced, which is left to the caller.
    """
    os.replace(write_draft(path, content, durable=True), path)


def replace_unsynced(path: str, content: bytes) -> None:
    """As `replace_file`, for what can be derived again: a loss of power may leave half of it."""
    os.replace(write_draft(path, content), path)


def remove_files(paths: Iterable[str]) -> None:
    """Unlink what is there."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
