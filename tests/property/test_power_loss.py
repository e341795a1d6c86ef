"""A log directory loses its power, at any moment of any life.

A life is a list of things that happen to one log. The disk remembers what was synced when, so that
for every moment there are the images that a loss of power could have left; each must open, and be
what its log promised: readable from its start to its end, every sum right, nothing in it that was
never written, nothing missing that was synced, and all that is derived from records agrees with
them. With flush.messages=1 every record that was acknowledged is there.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.log.cleaning import cleaner
from klamm.log.directory import LogDirectory
from klamm.log.partition import PartitionLog
from klamm.log.producers.tracking import ProducerStates, follow
from klamm.log.segments.transactions import Aborted
from klamm.log.settings import LONG_MAX, LogSettings
from klamm.log.writing.append import Appended
from klamm.model.names import TopicPartition
from klamm.protocol.batch import (
    BatchHeader,
    ControlKind,
    Record,
    crc_ok,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_batches,
)
from leading import append_as_leader, offset_for_timestamp
from power import Disk

PARTITION = TopicPartition("t", 0)
NOW = 1_700_000_000_000
HOME = "data/broker-1"  # made when the log's life begins


@dataclass(frozen=True)
class Promise:
    """What holds between two things that happen."""

    moment: int
    records: dict[int, bytes] = field(default_factory=dict)  # by offset, as a reader sees them
    start: int = 0
    synced: int = 0  # the log is on the disk up to here
    topic_id: uuid.UUID | None = None


class Life:
    """One log, and what it has promised so far."""

    def __init__(self, root: Path, log_settings: LogSettings) -> None:
        root.mkdir()
        self.disk = Disk(root)
        self.settings = log_settings
        self.ever: dict[int, set[bytes]] = {}  # every value that was ever at an offset
        self.records: dict[int, bytes] = {}
        self.promises: list[Promise] = []
        self.epoch = 0
        self.count = 0
        self.sequences: dict[int, int] = {}
        self.in_transaction = False

    def begin(self) -> None:
        self._open()
        self.create()

    def _open(self) -> None:
        self.directory = LogDirectory.open(
            Path(self.disk.root) / HOME,
            1,
            "cluster",
            settings_for=lambda _: self.settings,
            delete_delay_ms=0,
        )

    @property
    def log(self) -> PartitionLog:
        log = self.directory.get(PARTITION)
        assert log is not None
        return log

    def live(self, what: str, size: int) -> None:
        getattr(self, what)(size)
        self.promise()

    def promise(self) -> None:
        log = self.log
        start = log.log_start_offset
        synced = log.log_end_offset if self.settings.flush_messages == 1 else log.recovery_point
        kept = {offset: value for offset, value in self.records.items() if offset >= start}
        self.promises.append(Promise(self.disk.now, kept, start, synced, self.log.topic_id))

    # What may happen

    def create(self, _: int = 0) -> None:
        self.directory.create(PARTITION, uuid.uuid4(), self.settings)
        self.directory.sync_new(self.directory.take_new())
        self.records = {}
        self.sequences.clear()
        self.in_transaction = False
        self.promise()

    def append(self, size: int) -> None:
        self._append(size)

    def append_once(self, size: int) -> None:
        """As an idempotent producer."""
        self._append(size, producer=7)

    def append_in_transaction(self, size: int) -> None:
        self._append(size, producer=9, is_transactional=True)
        self.in_transaction = True

    def _append(self, size: int, producer: int = -1, is_transactional: bool = False) -> None:
        first = self.log.log_end_offset
        count = 1 + size % 3
        values = [b"%d " % (self.count + n) + b"x" * size for n in range(count)]
        keys = [b"k%d" % ((self.count + n) % 4) for n in range(count)]
        # Times that now and then go back.
        since = NOW + (self.count * 7) % 50 - 25 * (size % 2)
        self.count += count
        batch = encode_batch(
            [Record(n, since + n, keys[n], value) for n, value in enumerate(values)],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences.get(producer, 0) if producer >= 0 else -1,
            is_transactional=is_transactional,
        )
        for offset, value in enumerate(values, first):
            self.ever.setdefault(offset, set()).add(value)
        done = append_as_leader(
            self.log, memoryview(bytearray(batch)), leader_epoch=self.epoch, now_ms=NOW
        )
        assert isinstance(done, Appended), done
        if producer >= 0:
            self.sequences[producer] = self.sequences.get(producer, 0) + count
        self.records |= dict(enumerate(values, first))

    def end_transaction(self, size: int) -> None:
        if not self.in_transaction:
            return
        kind = ControlKind.ABORT if size % 2 else ControlKind.COMMIT
        marker = encode_control_batch(
            kind, producer_id=9, producer_epoch=0, coordinator_epoch=1, timestamp=NOW
        )
        done = append_as_leader(
            self.log,
            memoryview(bytearray(marker)),
            leader_epoch=self.epoch,
            now_ms=NOW,
            from_client=False,
        )
        assert isinstance(done, Appended), done
        self.in_transaction = False

    def show(self, size: int) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset - size % 3)

    def flush(self, _: int) -> None:
        self.log.flush(NOW)

    def flush_due(self, _: int) -> None:
        self.directory.flush_due(NOW)

    def checkpoint(self, size: int) -> None:
        self.directory.checkpoint()
        if size % 2:
            self.directory.checkpoint_high_watermarks()
            self.directory.checkpoint_cleaned()

    def roll(self, _: int) -> None:
        self.log.roll(now_ms=NOW)

    def cut(self, size: int) -> None:
        """Another leader does not have the last records."""
        log = self.log
        end = log.truncate_to(max(log.high_watermark, log.log_end_offset - size))
        self._cut_to(end)

    def restart_elsewhere(self, size: int) -> None:
        """The leader begins later than this log ends, or has nothing in common with it."""
        log = self.log
        offset = log.log_end_offset + size if size % 2 else max(log.log_start_offset - size, 0)
        log.restart_at(offset)
        self.records = {}
        self._cut_to(offset)

    def _cut_to(self, end: int) -> None:
        self.epoch += 1
        self.records = {offset: v for offset, v in self.records.items() if offset < end}
        states = self.log.producers
        known = {pid: p.last_sequence + 1 for pid, p in states.by_id.items() if p.batches}
        self.sequences = {7: known.get(7, 0), 9: known.get(9, 0)}
        self.in_transaction = not states.is_decided

    def delete_records(self, size: int) -> None:
        log = self.log
        log.advance_log_start(min(log.log_start_offset + size, log.high_watermark))
        log.apply_retention(NOW)

    def purge(self, _: int) -> None:
        self.directory.purge_due(NOW + 100_000)

    def compact(self, _: int) -> None:
        cleaner.clean(self.log, NOW)  # where the topic wants that
        self.records = {record.offset: record.value or b"" for record in _data(self.log)}

    def stop_and_start(self, _: int) -> None:
        self.directory.close()
        self._open()

    def crash_and_start(self, _: int) -> None:
        """The process dies, the machine does not."""
        self.directory.close(clean=False)
        self._open()

    def delete_and_create(self, size: int) -> None:
        self.directory.schedule_delete([PARTITION], NOW)
        if size % 2:
            self.purge(0)
        self.create()


HAPPENINGS = (
    *("append", "append", "append", "append_once", "append_once", "append_in_transaction"),
    *("end_transaction", "show", "show", "flush", "flush_due", "checkpoint", "checkpoint", "roll"),
    *("cut", "delete_records", "purge", "stop_and_start", "crash_and_start", "delete_and_create"),
    *("restart_elsewhere", "compact"),
)


# Looking at what is left


def _batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch from the start to the end, read the way a consumer reads."""
    at = log.log_start_offset
    while True:
        part = log.read(at, max_bytes=1 << 20)
        assert not isinstance(part, int), part
        found = list(iter_batches(part.read()))
        if not found:
            return
        yield from found
        at = found[-1][0].last_offset + 1


def _data(log: PartitionLog) -> Iterator[Record]:
    for header, batch in _batches(log):
        if not header.is_control:
            yield from (r for r in decode_records(batch) if r.offset >= log.log_start_offset)


def _look(log: PartitionLog, life: Life, before: Promise, after: Promise) -> None:
    found = list(_batches(log))
    assert all(crc_ok(batch) for _, batch in found)
    if before.topic_id != after.topic_id:
        return  # it is being deleted, file by file
    end = log.log_start_offset
    epoch = -1
    for header, _ in found:
        assert header.base_offset >= end or header is found[0][0]
        assert header.leader_epoch >= epoch, "no leader's records follow those of a later one"
        # A start that was moved up may be forgotten while the epochs know of it, as in Kafka.
        known_from = log.epochs.entries[0][1] if log.epochs.entries else log.log_end_offset
        first = max(header.base_offset, known_from)
        assert first > header.last_offset or log.epochs.epoch_at(first) == header.leader_epoch
        end, epoch = header.last_offset + 1, header.leader_epoch
    assert end <= log.log_end_offset
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark
    assert log.high_watermark <= log.log_end_offset
    assert log.recovery_point <= log.log_end_offset
    assert all(start <= log.log_end_offset for _, start in log.epochs.entries)
    records = {record.offset: record for record in _data(log)}
    for offset, record in records.items():
        assert record.value in life.ever[offset], "nobody has written this"
    _look_for_the_promised(log, {o: r.value or b"" for o, r in records.items()}, before, after)
    _look_at_producers(log, found)
    _look_up_times(log, [record for _, batch in found for record in decode_records(batch)])


def _look_for_the_promised(
    log: PartitionLog, found: dict[int, bytes], before: Promise, after: Promise
) -> None:
    assert log.topic_id == after.topic_id
    if all(offset in after.records for offset in before.records if offset >= after.start):
        assert log.log_start_offset <= max(after.start, before.start)
    for offset, value in before.records.items():
        # What the thing that was happening takes away may be gone or not.
        if offset < min(before.synced, after.synced) and after.records.get(offset) == value:
            assert found.get(offset) == value, f"{offset} was on the disk"


def _look_at_producers(log: PartitionLog, found: list[tuple[BatchHeader, memoryview]]) -> None:
    states = ProducerStates()
    aborted: list[Aborted] = []
    for header, batch in found:
        if header.producer_id >= 0:
            one = follow(states, batch, header, header.base_offset, header.max_timestamp)
            aborted += [one] if one else []
    for producer_id, producer in states.by_id.items():
        kept = log.producers.by_id[producer_id]
        if producer.batches:
            assert kept.last_sequence == producer.last_sequence
            assert kept.batches[-1].last_offset == producer.batches[-1].last_offset
    for producer in log.producers.by_id.values():
        assert all(batch.last_offset < log.log_end_offset for batch in producer.batches)
    if log.settings.compact or (found and found[0][0].base_offset > log.segments[0].base_offset):
        return
    known = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    starts = {(one.producer_id, one.last_offset) for one in known}
    assert {(one.producer_id, one.last_offset) for one in aborted} <= starts


def _look_up_times(log: PartitionLog, records: list[Record]) -> None:
    visible = [record for record in records if record.offset >= log.log_start_offset]
    for time in {record.timestamp for record in visible}:
        found = offset_for_timestamp(log, time, log.log_end_offset)
        expected = min(record.offset for record in visible if record.timestamp >= time)
        assert found is not None
        assert found.offset == expected, f"the first record at {time}"


# An abort marker is cut off: the index of aborted transactions must not shrink before the records.
_CUT_ABORT = [
    *[("append", 0)] * 2, ("append", 32), ("checkpoint", 1), ("append_in_transaction", 0),
    ("stop_and_start", 0), ("append", 17), ("append", 35), ("end_transaction", 1), ("append", 0),
    ("checkpoint", 1), ("roll", 0), ("cut", 2),
]  # fmt: skip


LIVES = st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 40)), max_size=25)


@settings(max_examples=40, deadline=None)
@given(
    life=LIVES,
    flush_messages=st.sampled_from([1, 1, LONG_MAX]),
    segment_bytes=st.sampled_from([300, 900]),
    compact=st.booleans(),
    preallocate=st.booleans(),
    dice=st.integers(0, 1 << 32),
)
def test_what_was_promised_is_there_after_a_loss_of_power(
    life: list[tuple[str, int]],
    flush_messages: int,
    segment_bytes: int,
    compact: bool,
    preallocate: bool,
    dice: int,
) -> None:
    log_settings = LogSettings(
        flush_messages=flush_messages,
        segment_bytes=segment_bytes,
        index_interval_bytes=0,
        compact=compact,
        preallocate=preallocate,
        file_delete_delay_ms=0,
    )
    _live_and_lose_power(life, log_settings, dice)


@pytest.mark.parametrize("dice", [27, 30, 41, 47])
def test_a_cut_abort_marker_takes_its_index_along(dice: int) -> None:
    log_settings = LogSettings(
        flush_messages=1, segment_bytes=900, index_interval_bytes=0, file_delete_delay_ms=0
    )
    _live_and_lose_power(_CUT_ABORT, log_settings, dice)


def _live_and_lose_power(life: list[tuple[str, int]], log_settings: LogSettings, dice: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        lived = Life(Path(home) / "disk", log_settings)
        with lived.disk.recording():
            lived.begin()
            for what, size in life:
                lived.live(what, size)
            lived.directory.close(clean=False)
        _lose_power(lived, Path(home), Random(dice))


def _lose_power(lived: Life, home: Path, dice: Random) -> None:
    """Open what may be left of some moments."""
    for number in range(8):
        moment = dice.randint(lived.promises[0].moment, lived.disk.now)
        before = [p for p in lived.promises if p.moment <= moment][-1]
        after = next((p for p in lived.promises if p.moment > moment), before)
        image = home / f"image-{number}"
        lived.disk.image(moment, image, dice)
        directory = LogDirectory.open(
            image / HOME, 1, "cluster", settings_for=lambda _: lived.settings
        )
        try:
            log = directory.get(PARTITION)
            if log is not None:
                _look(log, lived, before, after)
            else:
                assert before.topic_id != after.topic_id, "the log is gone"
        finally:
            directory.close(clean=False)
