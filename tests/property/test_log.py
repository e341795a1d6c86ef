"""A log against a list.

Whatever is done to a log, in whatever order, with clean stops and crashes in between: it holds the
records that a list would hold. A crash may take unflushed batches off the end, never others.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import Known, load_log
from klamm.log.settings import LogSettings
from klamm.log.writing.append import Appended
from klamm.model.names import TopicPartition
from klamm.protocol.batch import Record, decode_records, encode_batch, iter_batches
from leading import append_as_leader

PARTITION = TopicPartition("t", 0)
NOW = 1_700_000_000_000


class LogMachine(RuleBasedStateMachine):
    """Batches as (first offset, values); the log must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.mkdtemp(prefix="klamm-log-")
        self.batches: list[tuple[int, list[bytes]]] = []
        self.start = self.end = self.flushed = 0
        self.epoch = 0

    @initialize(
        segment_bytes=st.sampled_from([200, 500, 5000]), interval=st.sampled_from([0, 100, 4096])
    )
    def create(self, segment_bytes: int, interval: int) -> None:
        self.settings = LogSettings(segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.pool = FilePool(limit=2)
        path = os.path.join(self.home, "t-0")
        self.log = PartitionLog.create(PARTITION, path, self.settings, self.pool)

    @rule(values=st.lists(st.binary(max_size=40), min_size=1, max_size=3), lead=st.booleans())
    def append(self, values: list[bytes], lead: bool) -> None:
        first = 0 if lead else self.end
        records = [Record(first + n, NOW + n, None, value) for n, value in enumerate(values)]
        data = encode_batch(records, base_offset=first, leader_epoch=self.epoch)
        view = memoryview(bytearray(data))
        if lead:
            outcome = append_as_leader(self.log, view, leader_epoch=self.epoch, now_ms=NOW)
        else:
            outcome = self.log.append_as_follower(view)
        assert isinstance(outcome, Appended)
        assert outcome.base_offset == self.end
        self.batches.append((self.end, values))
        self.end += len(values)

    @rule()
    def become_leader(self) -> None:
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.end)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        target = self.start + round((self.end - self.start) * share)
        self.batches = [(at, values) for at, values in self.batches if at + len(values) <= target]
        if target < self.end:
            dropped_at = self.batches[-1][0] + len(self.batches[-1][1]) if self.batches else None
            self.end = min(target, dropped_at if dropped_at is not None else self._base())
        assert self.log.truncate_to(target) == self.end
        self.flushed = min(self.flushed, self.end)
        self.start = min(self.start, self.end)

    def _base(self) -> int:
        return self.log.segments[0].base_offset

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.log.advance_high_watermark(self.end)
        target = self.start + round((self.end - self.start) * share)
        self.log.advance_log_start(target)
        self.start = target
        self.log.apply_retention(NOW)
        base = self._base()
        self.batches = [(at, values) for at, values in self.batches if at + len(values) > base]

    @rule()
    def restart(self) -> None:
        self.log.close(clean=True)
        known = Known(clean=True, recovery_point=self.end, log_start=self.start)
        self._load(known)
        self.flushed = self.end

    @rule(torn=st.integers(0, 200))
    def crash(self, torn: int) -> None:
        """The process dies, and the disk with unflushed bytes at the end of the last segment."""
        active = self.log.segments.active
        keep = active.end_before(self.flushed) if self.flushed > active.base_offset else 0
        size = max(active.size - torn, keep)
        if os.path.exists(active.path):
            os.truncate(active.path, size)
        known = Known(recovery_point=self.flushed, log_start=self.start)
        self.log.close(clean=False)
        self._load(known)
        lost = [at for at, values in self.batches if at + len(values) > self.log.log_end_offset]
        assert all(at >= self.flushed for at in lost)
        self.batches = [(at, v) for at, v in self.batches if at not in lost]
        if lost or torn:
            self.end = self.log.log_end_offset
        self.start = min(self.start, self.end)

    def _load(self, known: Known) -> None:
        self.log = load_log(PARTITION, self.log.directory, self.settings, self.pool, known)

    @precondition(lambda self: self.end > self.start)
    @rule(share=st.floats(0, 1), size=st.integers(1, 400))
    def read(self, share: float, size: int) -> None:
        offset = min(self.start + round((self.end - self.start) * share), self.end - 1)
        part = self.log.read(offset, max_bytes=size)
        found = list(iter_batches(part.read()))
        expected = [at for at, values in self.batches if at + len(values) > offset]
        if expected:
            assert found[0][0].base_offset == expected[0]

    @invariant()
    def same_as_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        stored = [
            (header.base_offset, [record.value for record in decode_records(data)])
            for segment in log.segments
            if segment.size
            for header, data in iter_batches(_bytes_of(segment.path))
        ]
        assert stored == self.batches
        assert len(self.pool) <= 2

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.pool.clear()
        shutil.rmtree(self.home)


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
