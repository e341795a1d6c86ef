"""Logs that are on paper: without a record, and without a directory.

A new log is a line in the register of its directory (`disk.register`) and an object that is empty
to whoever reads it. The first record, or whatever else needs a file, lets the log begin: its
directory is made, and from then on it is a log like any other. Most partitions of a wide topic wait
long for their first record; until then they cost a few hundred bytes.

A crash at any point leaves a log. Until the directory is on the disk the register has its line;
after that the directory counts, and the line goes when the file with the topic's id is safe too.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from klamm.log.disk import names
from klamm.log.disk.checkpoints import write_topic_id_in
from klamm.log.disk.failure import Health, StorageShortage
from klamm.log.disk.files import DIRECTORY_MODE, FilePool
from klamm.log.disk.filesystem import FileSystem
from klamm.log.disk.register import Entry, Register
from klamm.log.durability import Durability
from klamm.log.epochs import EpochCache
from klamm.log.home import Home
from klamm.log.partition import PartitionLog
from klamm.log.producers.history import ProducerHistory
from klamm.log.producers.snapshots import Snapshots
from klamm.log.producers.tracking import ProducerStates
from klamm.log.segments.segment import Segment
from klamm.log.segments.series import SegmentList
from klamm.log.settings import LogSettings
from klamm.log.syncing import sync_births
from klamm.model.names import TopicPartition


class NewLog(NamedTuple):
    """A log that is to be made."""

    partition: TopicPartition
    topic_id: uuid.UUID | None
    settings: LogSettings


class PaperLog(PartitionLog):
    """A log without a record. Its parts are made when somebody looks at them."""

    __slots__ = ()  # so that it can become what it stands for
    is_on_paper = True

    def __init__(
        self,
        topic_partition: TopicPartition,
        settings: LogSettings,
        pool: FilePool,
        *,
        topic_id: uuid.UUID | None,
        health: Health,
        home: Home[PartitionLog],
    ) -> None:
        self._begin_empty(topic_partition, settings, pool, topic_id, health, home)

    if not TYPE_CHECKING:  # the parts are attributes like those of any log

        def __getattr__(self, name: str) -> Any:
            make = _PARTS.get(name)
            if make is None:
                raise AttributeError(name)
            part = make(self)
            setattr(self, name, part)
            return part

    def begin(self) -> None:
        """Make the log's directory: it is a log like any other from now on.

        Raises the OSError that was in the way, and is on paper still.
        """
        for name in _PARTS:
            getattr(self, name)
        _make_place(self.directory)
        home, self.home = self.home, None
        object.__setattr__(self, "__class__", PartitionLog)
        assert home is not None, f"{self} was on paper and had no home"
        home.begun(self)

    def make_room(
        self, size: int, first_offset: int, last_offset: int, timestamp: int, now_ms: int
    ) -> Segment:
        self.begin()
        return PartitionLog.make_room(self, size, first_offset, last_offset, timestamp, now_ms)

    def start_segment(self, base_offset: int, now_ms: int = 0) -> None:
        raise AssertionError(f"{self} is on paper")

    def restart_at(self, offset: int) -> None:
        self.health.check()
        if offset == 0:
            self.epochs.clear()
            return
        with self.health.watched():
            self.begin()
        PartitionLog.restart_at(self, offset)

    def skip_to(self, offset: int) -> None:
        self.health.check()
        with self.health.watched():
            self.begin()
        PartitionLog.skip_to(self, offset)

    def set_topic_id(self, topic_id: uuid.UUID) -> None:
        self.health.check()
        assert self.home is not None, f"{self} has no home"
        self.topic_id = topic_id
        with self.health.watched():
            self.home.identified(self)

    @property
    def size_bytes(self) -> int:
        return 0

    def apply_retention(self, now_ms: int) -> int:
        return 0

    def expire_producers(self, before_ms: int) -> int:
        return 0

    def finalize(self, bulk: object = None) -> None:
        """There is nothing that a later start would have to find out."""

    def close(self, *, clean: bool) -> None:
        self.is_open = False


def _directory(log: PartitionLog) -> str:
    return os.path.join(log.health.path, str(log.topic_partition))


def _segments(log: PartitionLog) -> SegmentList:
    reserve = log.settings.segment_bytes if log.settings.preallocate else 0
    segment = Segment(log.directory, 0, log.pool, reserve=reserve)
    segment.start(on_disk=False)
    return SegmentList(log.pool, [segment])


def _log_end(log: PartitionLog) -> int:
    return log.log_end_offset


def _history(log: PartitionLog) -> ProducerHistory:
    history = ProducerHistory(Snapshots(log.directory), log.replay)
    history.know(ProducerStates())
    return history


_PARTS: Final[Mapping[str, Callable[[PartitionLog], Any]]] = {
    "directory": _directory,
    "segments": _segments,
    "history": _history,
    "epochs": lambda log: EpochCache(MethodType(_log_end, log)),
    "durability": lambda log: Durability(),
}


def _make_place(path: str) -> None:
    """Make a log's directory; what somebody has put there meanwhile is kept under another name."""
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileExistsError:
        partition = names.parse_partition(os.path.basename(path))
        assert partition is not None, f"{path} is no log's"
        aside = names.aside_name(partition, names.STRAY)
        os.rename(path, os.path.join(os.path.dirname(path), aside))
        os.mkdir(path, DIRECTORY_MODE)


class Papers:
    """The logs of one directory that its register tells of: those on paper, and since begun ones.

    The broker's loop lets logs begin; workers bring what has begun to the disk.
    """

    def __init__(
        self,
        home: str,
        health: Health,
        pool: FilePool,
        filed: dict[TopicPartition, PartitionLog],
    ) -> None:
        self._path = home
        self._health = health
        self._pool = pool
        self._filed = filed  # the directory's logs that have files
        self._begun: dict[int, PartitionLog] = {}  # by identity: those whose line is needed
        self._without_id: deque[PartitionLog] = deque()  # those that get a file with their id
        self._looked_ms = 0  # when it was last seen that logs on paper have nothing to flush
        self._register = Register(os.path.join(home, names.REGISTER))

    def put_down(self, wanted: Iterable[NewLog]) -> list[PartitionLog]:
        """New logs, in the register; they are there for good once `sync` has returned."""
        logs = [self.log(new) for new in wanted]
        with self._health.watched():
            self._register.add([(log.topic_partition, log.topic_id) for log in logs])
        return logs

    def begin(self, logs: Iterable[PartitionLog]) -> None:
        """Make directories that nobody needs yet; where the disk is full, they can wait."""
        with suppress(StorageShortage), self._health.watched():
            for log in logs:
                assert isinstance(log, PaperLog), f"{log} has begun"
                log.begin()

    def log(self, new: NewLog) -> PartitionLog:
        """A log on paper."""
        return PaperLog(
            new.partition,
            new.settings,
            self._pool,
            topic_id=new.topic_id,
            health=self._health,
            home=self,
        )

    def begun(self, log: PartitionLog) -> None:
        log.durability.begin(self._looked_ms)
        self._register.begin(log.topic_partition)
        self._filed[log.topic_partition] = log
        self._note_begun(log)

    def _note_begun(self, log: PartitionLog) -> None:
        self._begun[id(log)] = log
        self._without_id.append(log)

    def identified(self, log: PartitionLog) -> None:
        self._register.add([(log.topic_partition, log.topic_id)])
        self._register.sync()

    def is_registered(self, log: PartitionLog) -> bool:
        """Whether the register answers for a log that was made a moment ago."""
        return log.is_on_paper or id(log) in self._begun

    def strike(self, logs: Collection[PartitionLog]) -> None:
        """Let go of logs that have left."""
        known = [log for log in logs if self.is_registered(log)]
        for log in known:
            self._begun.pop(id(log), None)
        with self._health.watched():
            self._register.strike(lambda: [log.topic_partition for log in known])

    # What workers do

    def look(self, now_ms: int) -> None:
        """Do what is left to do for logs that have begun, as far as that is quick."""
        self._looked_ms = now_ms
        self.write_ids()
        self.sync()

    def sync(self) -> None:
        """Bring the register to the disk."""
        with self._health.watched():
            self._register.sync()

    def write_ids(self) -> None:
        """Write down in new directories whose they are.

        The register knows it as well: nothing needs to be synced yet.
        """
        with self._health.watched():
            while self._without_id:
                _write_id(self._without_id.popleft())

    def bring_to_disk(self, file_system: FileSystem) -> list[PartitionLog]:
        """Bring to the disk what has begun since.

        The logs that need no line any more, once the checkpoints tell of them (`strike_begun`).
        """
        self.write_ids()
        begun = [log for log in list(self._begun.values()) if log.is_open]
        if begun:
            with self._health.watched():
                sync_births(begun, self._path, file_system)
        return begun

    def strike_begun(self, begun: Collection[PartitionLog], logs: Iterable[PartitionLog]) -> None:
        """These are in the checkpoints, too; `logs` are all logs of the directory."""
        with self._health.watched():
            # Asked while nobody writes: one that is closed by then may have a successor whose line
            # must not go.
            self._register.strike(lambda: [log.topic_partition for log in begun if log.is_open])
            for log in begun:
                self._begun.pop(id(log), None)
            self._register.shorten(lambda: self._entries(logs))

    def _entries(self, logs: Iterable[PartitionLog]) -> dict[TopicPartition, Entry]:
        begun = list(self._begun.values())
        entries = {log.topic_partition: Entry(log.topic_id) for log in logs if log.is_on_paper}
        return entries | {g.topic_partition: Entry(g.topic_id, is_begun=True) for g in begun}

    def close(self) -> None:
        self._register.close()

    # Opening

    def read(self) -> dict[TopicPartition, Entry]:
        """The entries of the register as an earlier life has left them."""
        return self._register.read()

    def take_up(
        self,
        registered: Mapping[TopicPartition, Entry],
        logs: Mapping[TopicPartition, PartitionLog],
    ) -> None:
        """Let the lines go of logs that have files, when these are safe; of others at once."""
        for partition, entry in registered.items():
            log = logs.get(partition)
            if log is not None and not log.is_on_paper:
                log.topic_id = log.topic_id or entry.topic_id
                self._note_begun(log)
        self._register.shorten(lambda: self._entries(logs.values()), idle_max=0)


def _write_id(log: PartitionLog) -> None:
    if log.topic_id is None:
        return
    try:
        home = os.open(log.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # deleted meanwhile
    try:
        # A log is closed before its directory is renamed: if it is open now, it is this one, and
        # not that of a later log of the same name.
        if log.is_open:
            write_topic_id_in(home, log.topic_id)
    finally:
        os.close(home)
