"""The register of a log directory: the logs that are on paper.

A log has no directory before its first record; until then a line of this file is all there is of
it. So a thousand new logs are one write and one sync. The line stays until the directory that took
its place, and the file in it that says whose it is, are on the disk.

The file grows by blocks, each with its length and its sum. A sync of the file makes every block
before it durable, so reading ends at the first block that is not whole: nobody was promised what
comes there. A start writes the file anew when it holds more than what counts.
"""

from __future__ import annotations

import errno
import os
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from klamm.log.disk.files import FILE_MODE, read_file, sync_directory, write_at, write_draft
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition, id_from_text, id_text, partition_faults

_VERSION: Final = b"0\n"
_ADDED: Final = "+"  # a log on paper, with its topic's id
_BEGUN: Final = "*"  # it has a directory, or had one
_STRUCK: Final = "-"  # it is nobody's concern any more
_NO_ID: Final = "-"
# Lines that say nothing any more and yet are kept until the next start.
_IDLE_LINES_MAX: Final = 10_000
_HEADER_MAX: Final = 64


class Entry(NamedTuple):
    """The state of one log by the register."""

    topic_id: uuid.UUID | None
    is_begun: bool = False  # whether it got a directory


class Register:
    """The file, opened when something is to be written to it.

    The broker's loop writes; workers sync, and strike out what they have brought to the disk.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._end = 0  # the size of the file as far as it is whole
        self._lines_count = 0
        self._is_synced = True
        self._is_named = True  # whether the file's name is on the disk
        self._writing = threading.Lock()
        self._syncing = threading.Lock()

    def read(self) -> dict[TopicPartition, Entry]:
        """The entries that count, in the order in which they were made."""
        content = read_file(self.path) or b""
        _check_version(self.path, content)
        entries, self._end, self._lines_count = _replay(content)
        if self._end < len(content):
            self._rewrite(entries)
        return entries

    def add(self, logs: Iterable[tuple[TopicPartition, uuid.UUID | None]]) -> None:
        """Write down new logs; they are there for good once `sync` has returned."""
        self._append(lambda: _added(logs))

    def begin(self, partition: TopicPartition) -> None:
        """Write down that a log has a directory from now on."""
        self._append(lambda: [f"{_BEGUN} {partition.topic} {partition.partition}"])

    def strike(self, partitions: Callable[[], Iterable[TopicPartition]]) -> None:
        """Write down that logs are gone, or need no line any more; asked while nobody writes."""
        self._append(lambda: [f"{_STRUCK} {topic} {index}" for topic, index in partitions()])

    def sync(self) -> None:
        """Bring everything written so far to the disk. For a worker thread."""
        with self._syncing:
            if self._is_synced or self._fd < 0:
                return
            # Said first: what is written meanwhile takes it back.
            self._is_synced = True
            try:
                os.fsync(self._fd)
                if not self._is_named:
                    sync_directory(os.path.dirname(self.path))
                    self._is_named = True
            except OSError:
                self._is_synced = False
                raise

    def shorten(
        self, entries: Callable[[], Mapping[TopicPartition, Entry]], idle_max: int = _IDLE_LINES_MAX
    ) -> None:
        """Write the file anew if it has many lines that say nothing. For a worker thread.

        `entries` gives what counts now. What is written meanwhile is kept.
        """
        if self._lines_count > idle_max:
            with self._syncing:
                with self._writing:
                    seen = self._end
                now = entries()
                if self._lines_count > 2 * len(now) + idle_max:
                    self._rewrite(now, seen)

    def _rewrite(self, entries: Mapping[TopicPartition, Entry], seen: int | None = None) -> None:
        """Let the file hold these, and what was written behind a place of the old one."""
        lines = _added((partition, entry.topic_id) for partition, entry in entries.items())
        lines += [f"{_BEGUN} {t} {p}" for (t, p), entry in entries.items() if entry.is_begun]
        content = _VERSION + (_block(lines) if lines else b"")
        draft = write_draft(self.path, content, durable=True)
        with self._writing:
            tail = b"" if seen is None else (read_file(self.path) or b"")[seen : self._end]
            if tail:
                # Nobody was promised it: a sync would have waited for us.
                _write_behind(draft, tail, len(content))
            self._close()
            os.replace(draft, self.path)
            self._end, self._lines_count = len(content) + len(tail), len(lines)
            self._is_synced = not tail
        sync_directory(os.path.dirname(self.path))
        self._is_named = True

    def close(self) -> None:
        with self._writing:
            self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, lines_of: Callable[[], Sequence[str]]) -> None:
        with self._writing:
            lines = lines_of()
            if not lines:
                return
            block = _block(lines)
            if self._fd < 0:
                self._open()
            if self._end == 0:
                block = _VERSION + block
            self._is_synced = False
            # One that is cut short is written over by the next.
            if os.pwrite(self._fd, block, self._end) < len(block):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            self._end += len(block)
            self._lines_count += len(lines)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(self.path, flags)
        except FileNotFoundError:
            self._fd = os.open(self.path, flags | os.O_CREAT, FILE_MODE)
            self._is_named = False


def _write_behind(path: str, content: bytes, at: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        write_at(fd, content, at)
    finally:
        os.close(fd)


def read_register(path: str) -> dict[TopicPartition, Entry]:
    """The entries of a register that nobody uses now; nothing is changed."""
    return _replay(read_file(path) or b"")[0]


def _check_version(path: str, content: bytes) -> None:
    version = content[: content.find(b"\n") + 1]
    if version != _VERSION and version.strip().isdigit():
        raise UsageError(f"{path} is of a later version of klamm: start that one")


def _added(logs: Iterable[tuple[TopicPartition, uuid.UUID | None]]) -> list[str]:
    return [
        f"{_ADDED} {topic} {index} {_NO_ID if topic_id is None else id_text(topic_id)}"
        for (topic, index), topic_id in logs
    ]


def _block(lines: Sequence[str]) -> bytes:
    content = ("\n".join(lines) + "\n").encode()
    return b"%d %d %08x\n" % (len(lines), len(content), zlib.crc32(content)) + content


def _replay(content: bytes) -> tuple[dict[TopicPartition, Entry], int, int]:
    """The entries of the whole blocks, where these end, and how many lines they have."""
    entries: dict[TopicPartition, Entry] = {}
    if not content.startswith(_VERSION):
        return entries, 0, 0
    end, count = len(_VERSION), 0
    while (found := _whole_block(content, end)) is not None:
        lines, end = found
        count += len(lines)
        for line in lines:
            _apply(entries, line.split(" "))
    for fault in partition_faults(entries):
        del entries[TopicPartition(*fault)]
    return entries, end, count


def _whole_block(content: bytes, at: int) -> tuple[list[str], int] | None:
    """The lines of the block at a position, and where it ends; None where there is none."""
    line_end = content.find(b"\n", at, at + _HEADER_MAX)
    try:
        count, size, crc = content[at:line_end].split(b" ")
        end = line_end + 1 + int(size)
        body = content[line_end + 1 : end]
        if line_end < 0 or len(body) != int(size) or zlib.crc32(body) != int(crc, 16):
            return None
        lines = body.decode().split("\n")[:-1]
        return (lines, end) if len(lines) == int(count) > 0 else None
    except ValueError:
        return None


def _apply(entries: dict[TopicPartition, Entry], fields: list[str]) -> None:
    try:
        kind, topic, index, *rest = fields
        partition = TopicPartition(topic, int(index))
        if kind == _ADDED:
            entries.pop(partition, None)
            entries[partition] = Entry(None if rest == [_NO_ID] else id_from_text(rest[0]))
        elif kind == _STRUCK:
            entries.pop(partition, None)
        elif kind == _BEGUN and partition in entries:
            entries[partition] = entries[partition]._replace(is_begun=True)
    except (ValueError, IndexError):
        return  # its sum is right: somebody's hand
