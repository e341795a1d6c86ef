"""A compacted log against a dictionary.

Whoever reads a compacted log from its start, committed records only, ends with the last committed
value of every key, however often it was cleaned, restarted or killed in between; and a producer can
always go on where it was.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from klamm.log.cleaning import cleaner
from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import Known, load_log
from klamm.log.settings import LogSettings
from klamm.log.writing.append import Appended
from klamm.model.names import TopicPartition
from klamm.protocol.batch import (
    ControlKind,
    Record,
    control_kind,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_batches,
)
from leading import append_as_leader

PARTITION = TopicPartition("t", 0)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.one_of(st.none(), st.binary(min_size=1, max_size=30))
PRODUCERS = st.sampled_from([1, 2, 3])
PLAIN = -1


class CompactedMachine(RuleBasedStateMachine):
    """What each key should have, and what open transactions would change."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.mkdtemp(prefix="klamm-log-")
        self.now = 1_700_000_000_000
        self.committed: dict[bytes, bytes | None] = {}
        # Changes in log order with the producer that is not done yet, None once it is.
        self.changes: list[tuple[int | None, bytes, bytes | None]] = []
        self.sequences = {1: 0, 2: 0, 3: 0}
        self.open: set[int] = set()

    @initialize(segment_bytes=st.sampled_from([300, 1000]), codec=st.sampled_from([0, 1, 4]))
    def create(self, segment_bytes: int, codec: int) -> None:
        self.codec = codec
        self.pool = FilePool(limit=3)
        self.settings = LogSettings(
            compact=True, segment_bytes=segment_bytes, index_interval_bytes=100
        )
        path = os.path.join(self.home, "t-0")
        self.log = PartitionLog.create(PARTITION, path, self.settings, self.pool)

    @rule(
        pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4),
        producer=st.one_of(st.just(PLAIN), PRODUCERS),
        transactional=st.booleans(),
    )
    def put(
        self, pairs: list[tuple[bytes, bytes | None]], producer: int, transactional: bool
    ) -> None:
        transactional = producer != PLAIN and (transactional or producer in self.open)
        records = [Record(n, self.now + n, key, value) for n, (key, value) in enumerate(pairs)]
        data = encode_batch(
            records,
            codec=self.codec,
            producer_id=producer,
            producer_epoch=-1 if producer == PLAIN else 0,
            base_sequence=self.sequences.get(producer, -1),
            is_transactional=transactional,
        )
        self._append(data)
        if producer != PLAIN:
            self.sequences[producer] += len(pairs)
        if transactional:
            self.open.add(producer)
        pending = producer if transactional else None
        self.changes += [(pending, key, value) for key, value in pairs]

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        marker = encode_control_batch(
            ControlKind.COMMIT if commit else ControlKind.ABORT,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.now,
        )
        self._append(marker, from_client=False)
        self.open.discard(producer)
        self.changes = [
            (None if pending == producer else pending, key, value)
            for pending, key, value in self.changes
            if commit or pending != producer
        ]

    def _append(self, data: bytes, *, from_client: bool = True) -> None:
        outcome = append_as_leader(
            self.log,
            memoryview(bytearray(data)),
            leader_epoch=0,
            now_ms=self.now,
            from_client=from_client,
        )
        assert isinstance(outcome, Appended), outcome
        assert not outcome.is_duplicate
        self.log.advance_high_watermark(self.log.log_end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(later_ms=st.sampled_from([1, 86_400_000, 100_000_000]))
    def clean(self, later_ms: int) -> None:
        cleaner.clean(self.log, self.now)
        self.now += later_ms

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.log.close(clean=clean)
        end, cleaned_to = self.log.log_end_offset, self.log.cleaned_to
        known = Known(clean=clean, recovery_point=end if clean else 0)
        self.log = load_log(PARTITION, self.log.directory, self.settings, self.pool, known)
        assert self.log.log_end_offset == end
        self.log.cleaned_to = cleaned_to
        self.log.advance_high_watermark(end)

    @invariant()
    def a_reader_ends_with_the_same_values(self) -> None:
        if not hasattr(self, "log"):
            return
        expected = {key: value for pending, key, value in self.changes if pending is None}
        # What an open transaction would change comes behind the last stable offset, and so does
        # everything after it, committed or not.
        if self.open:
            expected = self._expected_before_the_oldest_open()
        found = self._read_committed()
        assert {k: v for k, v in found.items() if v is not None} == {
            k: v for k, v in expected.items() if v is not None
        }

    def _expected_before_the_oldest_open(self) -> dict[bytes, bytes | None]:
        expected: dict[bytes, bytes | None] = {}
        for pending, key, value in self.changes:
            if pending is not None:
                break
            expected[key] = value
        return expected

    def _read_committed(self) -> dict[bytes, bytes | None]:
        """As a consumer does it: the list of aborted transactions, and markers on the way."""
        log, found = self.log, dict[bytes, bytes | None]()
        stable = log.last_stable_offset
        waiting = sorted(log.aborted_transactions(0, stable), key=lambda a: a.first_offset)
        aborting: set[int] = set()
        offset = 0
        while offset < stable:
            part = log.read(offset, max_bytes=500, upto=stable)
            batches = list(iter_batches(part.read()))
            if not batches:
                break
            assert batches[-1][0].last_offset >= offset, "a reader gets on"
            for header, data in batches:
                while waiting and waiting[0].first_offset <= header.last_offset:
                    aborting.add(waiting.pop(0).producer_id)
                if header.is_control:
                    if header.record_count and control_kind(data) is ControlKind.ABORT:
                        aborting.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborting):
                    found.update((r.key or b"", r.value) for r in decode_records(data))
                offset = header.last_offset + 1
        return found

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.pool.clear()
        shutil.rmtree(self.home)


TestCompaction = CompactedMachine.TestCase
TestCompaction.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
