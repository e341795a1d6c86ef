"""The directory a cluster lives in: where it is by default, and who may use it.

One process runs one cluster on one directory. The lock is the kernel's (flock): it ends with the
process however that ends, so there is never a stale one to clean up by hand.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from klamm.log.disk.files import FILE_MODE, make_directory, tighten, tighten_below
from klamm.log.disk.names import META_PROPERTIES, REGISTER, parse_partition
from klamm.log.disk.register import read_register
from klamm.model.errors import UsageError
from klamm.store.backups import DIRECTORY as BACKUPS
from klamm.store.backups import LOST_MARK, put_in_place

LOCK_NAME = "klamm.lock"
_REMOVERS: Final = 8  # threads
STORE_NAME = "store.db"
ZOOKEEPER_NAME = "zookeeper"  # the data of a ZooKeeper of the cluster's own
ADDRESS_NAME = "store.address"  # where the store of a running cluster is served, if it is


def default_data() -> Path:
    """`$XDG_STATE_HOME/klamm`, by the XDG rule that a relative value is no value."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "klamm"


class InUse(UsageError):
    """Another process uses the directory."""


class DataDirectory:
    """A directory that this process alone uses until `release`."""

    def __init__(self, path: Path, *, temporary: bool, lock: int) -> None:
        self.path = path
        self.temporary = temporary
        self._lock: int | None = lock

    @classmethod
    def claim(cls, path: Path | None) -> Self:
        """Make and lock the directory; None is a temporary one, removed on release."""
        if path is None:
            temporary = Path(tempfile.mkdtemp(prefix="klamm-"))
            return cls(temporary, temporary=True, lock=_lock(temporary))
        try:
            make_directory(str(path.absolute()))
            claimed = cls(path.resolve(), temporary=False, lock=_lock(path))
            # One that was killed has left it behind, and somebody else may have its port now.
            (claimed.path / ADDRESS_NAME).unlink(missing_ok=True)
            return claimed
        except OSError as error:
            raise UsageError(f"cannot write to {path}: {error.strerror}") from error

    @property
    def store(self) -> Path:
        return self.path / STORE_NAME

    def broker(self, broker_id: int) -> Path:
        """The log directory of one broker."""
        return self.path / f"broker-{broker_id}"

    @property
    def brokers(self) -> list[Path]:
        """The directories of all brokers that ever ran here."""
        found = (path for path in self.path.glob("broker-*") if path.is_dir())
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def refuse_loss(self, more: Iterable[Path] = (), *, is_empty: bool = False) -> None:
        """Raise UsageError where the store was lost, and starting anew would orphan logs.

        `more` are log directories elsewhere; `is_empty` says that the store holds nothing.
        """
        mark = self.path / LOST_MARK
        repair = (
            f"rebuild it from a back-up and the logs with `klamm store repair --data {self.path}`, "
            f"or put a back-up in its place with `klamm store restore --data {self.path}`"
        )
        if mark.exists():
            raise UsageError(f"the store {self.store} was lost while the cluster ran: {repair}")
        try:
            size = self.store.stat().st_size
        except FileNotFoundError:
            size = -1
        if size > 0 and not is_empty:
            return
        count = count_logs([*self.brokers, *more])
        if count:
            what = "is missing" if size < 0 else "is empty"
            raise UsageError(
                f"the store {self.store} {what}, but there are {count} logs of partitions beside "
                f"it: {repair}"
            )

    def tell_address(self, address: str) -> None:
        """Write where the store is served, for tools on this machine."""
        put_in_place(lambda draft: _fill(draft, f"{address}\n"), self.path / ADDRESS_NAME)

    def release(self) -> None:
        """Let others use the directory; a temporary one is removed."""
        if self._lock is None:
            return
        (self.path / ADDRESS_NAME).unlink(missing_ok=True)
        if self.temporary:
            _remove(self.path)
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.release()


def _remove(path: Path) -> None:
    """Remove a directory with all logs in it, many at a time.

    A disk that is busy takes some milliseconds for each file; one after the other, those of a
    thousand logs take ten seconds and more, together one.
    """
    logs = _inside(_inside([str(path)]))
    with ThreadPoolExecutor(_REMOVERS, "klamm-remover") as threads:
        for doomed in (_inside(logs), logs):
            for _ in threads.map(partial(shutil.rmtree, ignore_errors=True), doomed):
                pass
    shutil.rmtree(path, ignore_errors=True)


def _inside(paths: Iterable[str]) -> list[str]:
    """The directories in these directories; a link to one is none."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            found += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
    return found


def log_directories(broker: Path) -> list[Path]:
    """The log directories of a broker: its own, or those of `log.dirs` below it."""
    below = (path.parent for path in broker.glob(f"*/{META_PROPERTIES}"))
    return [broker, *sorted(below)]


def count_logs(directories: Iterable[Path]) -> int:
    """The number of partition logs in these directories."""
    places = [place for directory in directories for place in log_directories(directory)]
    return sum(map(_count_logs_in, filter(Path.is_dir, places)))


def _count_logs_in(place: Path) -> int:
    on_paper = {str(partition) for partition in read_register(str(place / REGISTER))}
    with_files = {
        entry.name
        for entry in place.iterdir()
        if parse_partition(entry.name) is not None and entry.is_dir()
    }
    return len(on_paper | with_files)


def _fill(path: Path, text: str) -> None:
    path.write_text(text)


def _lock(directory: Path) -> int:
    """Hold the directory's lock file; its content says who, for the one who comes second."""
    path = directory / LOCK_NAME
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    tighten(str(path))
    tighten_below(str(directory / BACKUPS))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
        os.close(lock)
        by = f" by process {holder}" if holder else ""
        raise InUse(
            f"{directory} is in use{by}; stop that cluster or choose another with --data"
        ) from None
    try:
        # A full disk shows here, before anything else has been touched.
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        os.close(lock)
        raise
    return lock
