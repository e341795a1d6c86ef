"""The log of one partition on this broker.

A log is a list of segments; the last takes appends. Offsets bound what may be seen of it:

    log start <= last stable offset <= high watermark <= log end

Below the log start records are gone or going; consumers see up to the high watermark, those that
read committed records up to the last stable offset; followers see all.

One thread at a time uses a log: the broker's loop. Only `flush` and the cleaner's reading run in
worker threads, and they look at nothing but files and values that are replaced whole. An OS error
while writing ends the use of the whole directory (`LogDirectoryFailed`): what is in doubt
is found out by recovery at the next start, never guessed.
"""

from __future__ import annotations

import os
import random
import struct
import uuid
from collections.abc import Iterator
from typing import ClassVar, Final

from klamm.log.cleaning.retention import let_go
from klamm.log.disk import names
from klamm.log.disk.checkpoints import write_topic_id
from klamm.log.disk.failure import Damage, Health, LogDirectoryFailed, StorageTrouble, is_shortage
from klamm.log.disk.files import DIRECTORY_MODE, FilePool, remove_files
from klamm.log.disk.filesystem import Bulk
from klamm.log.durability import Durability
from klamm.log.epochs import EpochCache
from klamm.log.home import Home
from klamm.log.lookup import Search, first_at_or_after, newest
from klamm.log.producers.history import ProducerHistory
from klamm.log.producers.snapshots import Snapshots
from klamm.log.producers.tracking import ProducerStates, WrittenBatch
from klamm.log.reading import Slice, bound_of, find_aborted, find_slice, no_bytes
from klamm.log.segments.segment import Segment
from klamm.log.segments.series import SegmentList
from klamm.log.segments.transactions import Aborted
from klamm.log.settings import LogSettings
from klamm.log.writing import cutting
from klamm.log.writing.append import (
    NO_TIME,
    Appended,
    AppendRefused,
    Inspected,
    Later,
    checked_header,
    inspect,
    inspect_at_once,
    stamp_append_time,
)
from klamm.log.writing.following import append_run_by_run
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import TopicPartition
from klamm.protocol.batch import EPOCH_AT, BatchHeader

# All that a user of a log needs to name.
__all__ = [
    "AppendRefused",
    "Appended",
    "LogDirectoryFailed",
    "PartitionLog",
    "Slice",
    "StorageTrouble",
]

_new: Final = tuple.__new__
_pack_offset: Final = struct.Struct(">q").pack_into
_pack_epoch: Final = struct.Struct(">i").pack_into


class PartitionLog:
    """One partition's records, in order; see the module for what its offsets mean."""

    is_on_paper: ClassVar[bool] = False  # whether there is nothing of it but a line (`paper`)

    __slots__ = (
        *("topic_partition", "topic_id", "directory", "settings", "pool", "health", "home"),
        *("log_start_offset", "log_end_offset", "recovery_point", "high_watermark", "cleaned_to"),
        *("segments", "history", "epochs", "durability"),
        *("is_open", "is_relocating", "truncations", "damage"),
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        settings: LogSettings,
        pool: FilePool,
        *,
        topic_id: uuid.UUID | None = None,
        health: Health | None = None,
    ) -> None:
        self._begin_empty(topic_partition, settings, pool, topic_id, health or Health(directory))
        self.directory = directory
        self.segments = SegmentList(pool)
        self.history = ProducerHistory(Snapshots(directory), self.replay)
        self.epochs = EpochCache(lambda: self.log_end_offset)
        self.durability = Durability()

    def _begin_empty(
        self,
        topic_partition: TopicPartition,
        settings: LogSettings,
        pool: FilePool,
        topic_id: uuid.UUID | None,
        health: Health,
        home: Home[PartitionLog] | None = None,
    ) -> None:
        self.home = home  # keeps its line, while the log is on paper
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.settings = settings
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0  # everything below is on the disk, not only in its cache
        self.high_watermark = 0
        self.cleaned_to = 0  # below, compaction has left every key once
        self.pool = pool
        self.is_open = True
        self.is_relocating = False  # to another directory: compacting it would be lost work
        self.truncations = 0  # how often records were taken back, which others may have to know
        self.health = health
        self.damage: Damage | None = None  # that recovery has found

    @classmethod
    def create(
        cls,
        topic_partition: TopicPartition,
        directory: str,
        settings: LogSettings,
        pool: FilePool,
        *,
        topic_id: uuid.UUID | None = None,
        health: Health | None = None,
    ) -> PartitionLog:
        """A new log in a directory that does not exist yet, and does not where this fails."""
        os.mkdir(directory, DIRECTORY_MODE)
        log = cls(topic_partition, directory, settings, pool, topic_id=topic_id, health=health)
        if topic_id is not None:
            try:
                write_topic_id(log.metadata_path, topic_id)
            except OSError:
                remove_files([log.metadata_path])
                os.rmdir(directory)
                raise
        log.history.know(ProducerStates())
        log.durability.home_synced = False
        log.start_segment(0)
        return log

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.topic_partition}, {self.log_start_offset}-{self.log_end_offset})"
        )

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def producers(self) -> ProducerStates:
        """The state of the producers; read from the files when first needed."""
        return self.history.states

    @property
    def last_stable_offset(self) -> int:
        """Up to where every transaction is decided, and no further than the high watermark."""
        states = self.history.states
        if states.is_decided:
            return self.high_watermark
        unstable = states.first_unstable(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        # Records that are deleted are decided: nobody can be told to wait below the start.
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    # Appending

    def inspect(
        self,
        batch: memoryview,
        *,
        now_ms: int,
        request_version: int = 11,
        size_max: int | None = None,
    ) -> Inspected | AppendRefused:
        """Look through what a client sent, for a later append. May run in a worker thread."""
        settings = self.settings
        header = checked_header(batch, settings, request_version, True)
        if isinstance(header, AppendRefused):
            return header
        return inspect(batch, header, settings, now_ms, size_max)

    def append_at_once(
        self,
        batch: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        request_version: int = 11,
        from_client: bool = True,
    ) -> Appended | AppendRefused | Later:
        """Check one batch, give it the next offsets and write it.

        The batch is changed in place where its buffer allows it. `Later`, where it takes so long to
        look through the records that others would wait: then `inspect` and `append_inspected`.
        """
        self.health.check()
        settings = self.settings
        header = checked_header(batch, settings, request_version, from_client)
        if isinstance(header, AppendRefused):
            return header
        inspected: Inspected | AppendRefused | Later
        if from_client:
            inspected = inspect_at_once(batch, header, settings, now_ms)
        elif settings.codec in (None, header.codec) or header.is_control:
            inspected = Inspected(batch, header)
        else:
            inspected = inspect(batch, header, settings, now_ms)
        if not isinstance(inspected, Inspected):
            return inspected
        return self._append(inspected, leader_epoch, now_ms, from_client)

    def append_inspected(
        self, inspected: Inspected, *, leader_epoch: int, now_ms: int
    ) -> Appended | AppendRefused:
        """Give a client's batch that was looked through the next offsets and write it."""
        self.health.check()
        return self._append(inspected, leader_epoch, now_ms, True)

    def _append(
        self, inspected: Inspected, leader_epoch: int, now_ms: int, from_client: bool
    ) -> Appended | AppendRefused:
        settings = self.settings
        batch, header = inspected
        has_producer = header.producer_id >= 0
        if has_producer:
            verdict = self.history.check(batch, header, from_client)
            if isinstance(verdict, Refused):
                return AppendRefused(verdict.code, verdict.why)
            if verdict is not None:
                return self._repeated(verdict)
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        max_timestamp, append_time = header.max_timestamp, NO_TIME
        if settings.log_append_time:
            append_time = max_timestamp = now_ms
            stamp_append_time(batch, now_ms)
        first = self.log_end_offset
        last = first + header.last_offset_delta
        _pack_offset(batch, 0, first)
        _pack_epoch(batch, EPOCH_AT, leader_epoch)
        try:
            active = self.make_room(len(batch), first, last, max_timestamp, now_ms)
            active.append(batch, first, last, max_timestamp, settings.index_interval_bytes)
            self.epochs.assign(leader_epoch, first)
            if has_producer:
                self.note_producer(batch, header, first, max_timestamp)
        except OSError as error:
            raise self.health.failed(error) from error
        self.log_end_offset = last + 1
        if last + 1 - self.recovery_point >= settings.flush_messages:
            self.flush()
        return _new(Appended, (first, last, self.log_start_offset, append_time, False))

    def append_as_follower(self, batches: memoryview, *, now_ms: int = 0) -> Appended:
        """Write batches as the leader sent them; a batch cut off at the end is left out.

        What is below the end of the log already is skipped. Raises ProtocolError when the
        first batch is damaged or does not fit here.
        """
        self.health.check()
        first = self.log_end_offset
        append_run_by_run(self, batches, now_ms)
        if self.log_end_offset - self.recovery_point >= self.settings.flush_messages:
            self.flush()
        return Appended(first, self.log_end_offset - 1, self.log_start_offset)

    def _repeated(self, batch: WrittenBatch) -> Appended:
        """The answer to a batch that is in the log already: what was answered then."""
        time = batch.timestamp if self.settings.log_append_time else NO_TIME
        return Appended(batch.first_offset, batch.last_offset, self.log_start_offset, time, True)

    def note_producer(
        self, batch: memoryview, header: BatchHeader, offset: int, timestamp: int
    ) -> None:
        """Remember what a batch that is in the active segment says of its producer."""
        aborted = self.history.note(batch, header, offset, timestamp)
        if aborted is not None:
            self.segments.active.aborted.append(aborted)

    def make_room(
        self, size: int, first_offset: int, last_offset: int, timestamp: int, now_ms: int
    ) -> Segment:
        """The active segment: a new one when the last is full or old enough."""
        active = self.segments.active
        settings = self.settings
        if active.size and (
            active.is_full(size, last_offset, settings.segment_bytes, settings.segment_index_bytes)
            or active.age_ms(timestamp, now_ms) > settings.roll_ms - active.jitter_ms
        ):
            self.roll(first_offset, now_ms=now_ms)
            active = self.segments.active
        return active

    def roll(self, base_offset: int | None = None, *, now_ms: int = 0) -> None:
        """Close the active segment and begin a new one; an empty one is used on."""
        active = self.segments.active
        if not active.size:
            return
        offset = self.log_end_offset if base_offset is None else base_offset
        with self.health.watched():
            active.seal()
            self.durability.closed(self)
            self.history.snapshot(offset, self.segments.bases)
            self.start_segment(offset, now_ms)

    def start_segment(self, base_offset: int, now_ms: int = 0) -> None:
        """Let a new segment take the appends from here on."""
        reserve = self.settings.segment_bytes if self.settings.preallocate else 0
        segment = Segment(
            self.directory, base_offset, self.pool, created_ms=now_ms, reserve=reserve
        )
        jitter = self.settings.segment_jitter_ms
        segment.jitter_ms = random.randrange(jitter) if jitter else 0
        try:
            segment.start(on_disk=base_offset > 0)
        except OSError as error:
            # Its first record makes the file as well; a crash before that costs the name alone.
            if not is_shortage(error):
                raise
        self.segments.add(segment)
        self.durability.names_synced = False

    # Reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        upto: int | None = None,
        at_least_one: bool = True,
    ) -> Slice | ErrorCode:
        """The bytes from the batch that holds an offset, below `upto`, of one segment.

        No more than `max_bytes`, unless the first batch alone is larger and `at_least_one`.
        """
        self.health.check()
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        bound = end if upto is None or upto > end else upto
        if offset >= bound or (max_bytes <= 0 and not at_least_one):
            return no_bytes(offset)
        try:
            return find_slice(
                self.segments,
                offset,
                max_bytes=max_bytes,
                bound=bound,
                log_end=end,
                at_least_one=at_least_one,
            )
        except OSError as error:
            if not self.is_open:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER  # deleted, or moved, while we were at it
            raise self.health.failed(error) from error

    def bound_of(self, part: Slice) -> int:
        """An offset above all records of a slice, not far above: what to look up aborts for."""
        with self.health.watched():
            return bound_of(self.segments, part, self.log_end_offset)

    def aborted_transactions(self, from_offset: int, upto: int) -> list[Aborted]:
        """The aborted transactions with records in [from_offset, upto), by first offset."""
        with self.health.watched():
            return find_aborted(self.segments, from_offset, upto)

    def replay(self, from_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """The headers of all batches from an offset on, and the bytes of control batches."""
        for segment in self.segments.from_offset(from_offset):
            found = segment.locate(from_offset)
            if found is None:
                continue
            for position, header in segment.headers(found[0]):
                if header.base_offset >= self.log_end_offset:
                    return
                yield header, segment.read(position, header) if header.is_control else b""

    # Offsets that bound it

    def advance_high_watermark(self, offset: int) -> bool:
        """Let consumers see more; it never goes back, and never past the end."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def advance_log_start(self, offset: int) -> bool:
        """Hide the records below an offset; retention removes their segments in its own time."""
        if offset <= self.log_start_offset or offset > self.high_watermark:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)
        return True

    def apply_retention(self, now_ms: int) -> int:
        """Let go of segments that are too old, too much or below the start; how many it was."""
        self.health.check()
        with self.health.watched():
            return let_go(self, now_ms)

    # Going back, and on

    def truncate_to(self, offset: int) -> int:
        """Drop everything from an offset on; where the log ends now.

        A batch is dropped as a whole: the log then ends where the batch began.
        """
        self.health.check()
        return cutting.truncate(self, offset)

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at an offset, as an empty log."""
        cutting.restart(self, offset)

    def skip_to(self, offset: int) -> None:
        """Go on at a later offset: between there and the end compaction has left no records."""
        cutting.skip(self, offset)

    def relocate(self, directory: str) -> None:
        """Rename the log's directory and go on under the new name."""
        self.health.check()
        self.segments.purge(names.OFFSET_MAX)
        self.pool.forget_under(self.directory)
        with self.health.watched():
            os.rename(self.directory, directory)
        self.directory = directory
        self.history.snapshots.relocate(directory)
        for segment in self.segments:
            segment.relocate(directory)

    def expire_producers(self, before_ms: int) -> int:
        """Forget producers that have been silent since then; how many there were."""
        return self.history.expire(before_ms)

    # Durability

    def needs_flush(self, now_ms: int) -> bool:
        """Whether a segment was closed, or `flush.ms` has passed, since the last flush."""
        return self.durability.is_due(self, now_ms)

    def flush(self, now_ms: int = 0) -> None:
        """Bring everything appended so far to the disk. May run in a worker thread."""
        self.durability.flush(self, now_ms)

    def set_topic_id(self, topic_id: uuid.UUID) -> None:
        """Write down whose records these are, where that was not known."""
        self.health.check()
        with self.health.watched():
            write_topic_id(self.metadata_path, topic_id)
            self.durability.sync_birth(self)
        self.topic_id = topic_id

    @property
    def metadata_path(self) -> str:
        return f"{self.directory}{os.sep}{names.PARTITION_METADATA}"

    def close(self, *, clean: bool) -> None:
        """Stop using the log. A clean close leaves nothing for recovery to do."""
        if clean:
            self.finalize()
        self.is_open = False
        self.pool.forget_under(self.directory)

    def finalize(self, bulk: Bulk | None = None) -> None:
        """Put everything on the disk that a later start would have to find out otherwise.

        With a bulk it is there when the bulk is finished.
        """
        self.health.check()
        with self.health.watched():
            self.durability.finalize(self, bulk)

    # Finding by time

    def search_timestamp(self, timestamp: int, upto: int) -> Search:
        """The search for the first record not older than a timestamp, below `upto`."""
        return first_at_or_after(self.segments, timestamp, self.log_start_offset, upto)

    def search_max_timestamp(self, upto: int) -> Search:
        """The search for the record with the largest timestamp below `upto`."""
        return newest(self.segments, self.log_start_offset, upto)
