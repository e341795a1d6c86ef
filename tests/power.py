"""A disk that can lose its power at any moment.

While `recording` is on, every change that the code below makes to the files of one directory is
written down: bytes, lengths, names, and what was synced. Afterwards the disk can be had as a loss
of power at any of these moments may leave it. What was synced is there. Of the rest, each file
keeps its changes up to some point, the one after that may be torn or have left only zeros, and each
directory keeps its new names and renames up to some point; files and directories do not wait for
each other, so a name may have come through without its bytes, and bytes without a name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from klamm.log.disk.filesystem import FileSystem

Change = Callable[[], None]


@dataclass
class File:
    """Bytes, in the order in which they were changed."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: cut there

    def write(self, at: int, data: bytes) -> None:
        self.pending.append((at, data))

    def cut(self, size: int) -> None:
        self.pending.append((size, None))

    def sync(self) -> None:
        for at, data in self.pending:
            _apply(self.synced, at, data)
        self.pending.clear()

    def left(self, dice: Random) -> bytes:
        """What of it may be there afterwards."""
        content = bytearray(self.synced)
        count = dice.randint(0, len(self.pending))
        for at, data in self.pending[:count]:
            _apply(content, at, data)
        if count < len(self.pending):
            at, data = self.pending[count]
            if data is not None and (fate := dice.choice(("absent", "torn", "zeros"))) != "absent":
                torn = data[: dice.randint(0, len(data))]
                _apply(content, at, torn if fate == "torn" else bytes(len(torn)))
        return bytes(content)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    size = at + len(data or b"")
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at:size] = data


@dataclass
class Directory:
    """Names, in the order in which they were changed."""

    synced: dict[str, File | Directory] = field(default_factory=dict)
    pending: list[tuple[str, str, File | Directory | None]] = field(default_factory=list)
    names: dict[str, File | Directory] = field(default_factory=dict)  # as a process sees it

    def put(self, name: str, what: File | Directory) -> None:
        self.names[name] = what
        self.pending.append((name, "", what))

    def rename(self, old: str, new: str) -> None:
        self.names[new] = self.names.pop(old)
        self.pending.append((old, new, None))

    def remove(self, name: str) -> None:
        del self.names[name]
        self.pending.append((name, "", None))

    def sync(self) -> None:
        self.synced, self.pending = dict(self.names), []

    def left(self, dice: Random) -> dict[str, File | Directory]:
        found = dict(self.synced)
        for old, new, what in self.pending[: dice.randint(0, len(self.pending))]:
            if what is not None:
                found[old] = what
            elif not new:
                found.pop(old, None)
            else:
                found[new] = found.pop(old)
        return found


class Disk:
    """One directory, and all that happened to it."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.abspath(root)
        self.history: list[Change] = []
        self._open: dict[int, str] = {}
        # The tree as the process sees it, to tell what a call does; images have trees of their own.
        self._tree = Directory()

    @property
    def now(self) -> int:
        """The moment before the next change."""
        return len(self.history)

    def image(self, moment: int, into: Path, dice: Random) -> None:
        """Put there what a loss of power at a moment may leave."""
        self._tree = Directory()
        for change in self.history[:moment]:
            change()
        _pour(self._tree, into, dice)

    def _do(self, change: Change) -> None:
        change()
        self.history.append(change)

    def _parts(self, path: Any, dir_fd: int | None = None) -> list[str] | None:
        """The names on the way to a path; None when it is elsewhere."""
        text = os.fspath(path)
        if dir_fd is not None:
            text = os.path.join(self._open.get(dir_fd, "/"), text)
        inside = os.path.relpath(os.path.abspath(text), self.root)
        if inside.startswith(".."):
            return None
        return [] if inside == "." else inside.split(os.sep)

    def _at(self, parts: list[str]) -> Any:
        found: Any = self._tree
        for part in parts:
            found = found.names.get(part) if isinstance(found, Directory) else None
        return found

    def create(self, parts: list[str], kind: type[File] | type[Directory]) -> None:
        self._do(lambda: self._at(parts[:-1]).put(parts[-1], kind()))

    def opened(self, fd: int, path: Any, flags: int, dir_fd: int | None) -> None:
        parts = self._parts(path, dir_fd)
        self._open.pop(fd, None)
        if parts is None:
            return
        self._open[fd] = os.path.join(self.root, *parts)
        if flags & os.O_CREAT and self._at(parts) is None:
            self.create(parts, File)
        if flags & os.O_TRUNC:
            self.on_open_file(fd, lambda file: file.cut(0))

    def on_open_file(self, fd: int, what: Callable[[Any], None]) -> None:
        """Do something to whatever this descriptor is open on, if it is ours."""
        path = self._open.get(fd)
        if path is None:
            return
        # The file may have been renamed since it was opened; it is known by its inode.
        found = self._by_inode(os.fstat(fd).st_ino)
        if found is not None:
            self._do(lambda: what(self._at(found)))

    def _by_inode(self, inode: int) -> list[str] | None:
        for where, _, files in os.walk(self.root):
            if os.stat(where).st_ino == inode:
                return self._parts(where)
            for name in files:
                if os.stat(os.path.join(where, name)).st_ino == inode:
                    return self._parts(os.path.join(where, name))
        return None

    def renamed(self, old: Any, new: Any) -> None:
        before, after = self._parts(old), self._parts(new)
        assert before is not None, old
        assert after is not None, new
        assert before[:-1] == after[:-1], "nothing here moves to another directory"
        self._do(lambda: self._at(before[:-1]).rename(before[-1], after[-1]))

    def removed(self, path: Any, dir_fd: int | None) -> None:
        parts = self._parts(path, dir_fd)
        assert parts, path
        self._do(lambda: self._at(parts[:-1]).remove(parts[-1]))

    def sync_all(self) -> None:
        self._do(lambda: _sync_all(self._tree))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Listen to what this process does to the directory, which must be empty."""
        calls = _Calls(self)
        with pytest.MonkeyPatch.context() as patch:
            for name, call in calls.wrapped().items():
                patch.setattr(os, name, call)
            patch.setattr(FileSystem, "sync", lambda _: self.sync_all())
            yield


class _Calls:
    """The system calls that change files, done and written down."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._real = {name: getattr(os, name) for name in self._names()}

    def _names(self) -> list[str]:
        return [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]

    def wrapped(self) -> dict[str, Any]:
        return {name: getattr(self, f"do_{name}") for name in self._names()}

    def do_open(
        self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        fd: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        self._disk.opened(fd, path, flags, dir_fd)
        return fd

    def do_pwrite(self, fd: int, data: Any, at: int) -> int:
        written: int = self._real["pwrite"](fd, data, at)
        kept = bytes(memoryview(data)[:written])
        self._disk.on_open_file(fd, lambda file: file.write(at, kept))
        return written

    def do_ftruncate(self, fd: int, size: int) -> None:
        self._real["ftruncate"](fd, size)
        self._disk.on_open_file(fd, lambda file: file.cut(size))

    def do_fsync(self, fd: int) -> None:
        self._disk.on_open_file(fd, lambda what: what.sync())

    do_fdatasync = do_fsync

    def do_rename(self, old: Any, new: Any) -> None:
        self._real["rename"](old, new)
        self._disk.renamed(old, new)

    do_replace = do_rename

    def do_unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._real["unlink"](path, dir_fd=dir_fd)
        self._disk.removed(path, dir_fd)

    do_remove = do_unlink

    def do_rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._real["rmdir"](path, dir_fd=dir_fd)
        self._disk.removed(path, dir_fd)

    def do_mkdir(self, path: Any, mode: int = 0o777) -> None:
        self._real["mkdir"](path, mode)
        parts = self._disk._parts(path)
        if parts:
            self._disk.create(parts, Directory)


def _sync_all(tree: Directory) -> None:
    tree.sync()
    for what in tree.names.values():
        if isinstance(what, Directory):
            _sync_all(what)
        else:
            what.sync()


def _pour(tree: Directory, into: Path, dice: Random) -> None:
    into.mkdir()
    for name, what in tree.left(dice).items():
        if isinstance(what, Directory):
            _pour(what, into / name, dice)
        else:
            (into / name).write_bytes(what.left(dice))
