"""Tracks the producers of a log.

An idempotent producer numbers its batches; the log remembers the last five of each producer, so
that a batch sent again is recognised, and a gap is refused (KIP-98). A transactional producer has
at most one open transaction in a log; readers of committed records stop before the oldest open
one, the last stable offset.

The state follows from the batches alone, so it is rebuilt by reading their headers. A snapshot at
each segment's start keeps that short. It holds only the last batch of a producer: after a restart
a retry of one of the four before it is refused instead of recognised, as in Kafka.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import crc32c

from klamm.log.segments.batches import read_marker
from klamm.log.segments.transactions import Aborted
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.batch import BatchHeader

BATCHES_KEPT: Final = 5
NO_SEQUENCE: Final = -1
NONE: Final = -1
_SEQUENCE_MAX: Final = (1 << 31) - 1

SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = struct.Struct(">hIi")  # version, checksum of what follows it, count
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_FROM: Final = 6


class WrittenBatch(NamedTuple):
    """One batch of a producer, as far as a retry of it must be answered alike."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class EndedTransaction(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker


@dataclass(slots=True, eq=False)
class Guard:
    """Stands for a question to a coordinator about a producer, from before it was asked."""

    is_old: bool = False


@dataclass(slots=True)
class TrackedProducer:
    """One producer id's state in one log."""

    id: int
    epoch: int
    batches: deque[WrittenBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))
    coordinator_epoch: int = NONE
    transaction_start: int = NONE  # first offset of the open transaction
    last_timestamp: int = NONE

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def expect(self, epoch: int, first: int, last: int) -> WrittenBatch | Refused | None:
        """None when a batch with these sequences continues the series; the batch it repeats."""
        if epoch < self.epoch:
            return Refused(
                f"epoch {epoch} of producer {self.id} is older than {self.epoch}",
                ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        if epoch > self.epoch:
            return None if first == 0 else self._gap(epoch, first)
        for batch in self.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None if first == next_sequence(self.last_sequence) else self._gap(epoch, first)

    def _gap(self, epoch: int, first: int) -> Refused:
        return Refused(
            f"sequence {first} of producer {self.id} epoch {epoch} does not follow "
            f"{self.last_sequence} of epoch {self.epoch}",
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        )

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


def next_sequence(sequence: int) -> int:
    return 0 if sequence == _SEQUENCE_MAX else sequence + 1


def last_sequence(first: int, offset_delta: int) -> int:
    """The sequence of a batch's last record; sequences wrap from 2^31-1 to 0."""
    return (first + offset_delta) & _SEQUENCE_MAX


def first_sequence(last: int, offset_delta: int) -> int:
    return (last - offset_delta) & _SEQUENCE_MAX


class ProducerStates:
    """All producers of one log, and which transactions hold readers back."""

    __slots__ = ("_ended", "_guards", "_open", "by_id")

    def __init__(self) -> None:
        self.by_id: dict[int, TrackedProducer] = {}
        # Open transactions by producer id, oldest first: they open in the order of the log.
        self._open: dict[int, int] = {}
        # Ended ones whose marker is not yet below the high watermark still hold readers back, for
        # a new leader might not have the marker.
        self._ended: deque[EndedTransaction] = deque()
        # Producers about which their coordinator is being asked; a marker ends what it said.
        self._guards: dict[int, Guard] = {}

    def guard(self, producer_id: int, epoch: int) -> Guard | None:
        """The guard that a batch needs to open a transaction here; None if one is open already."""
        producer = self.by_id.get(producer_id)
        if producer is not None and producer.epoch == epoch and producer.transaction_start != NONE:
            return None
        return self._guards.setdefault(producer_id, Guard())

    def admits(self, producer_id: int, guard: Guard) -> bool:
        """Whether no marker has come since the guard was given out."""
        return self._guards.get(producer_id) is guard

    def check(
        self, producer_id: int, epoch: int, first: int, last: int, *, transactional: bool
    ) -> WrittenBatch | Refused | None:
        """Whether a client's batch may be appended: None yes, a batch it repeats, or a refusal."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return None
        verdict = producer.expect(epoch, first, last)
        if verdict is None and not transactional and producer.transaction_start != NONE:
            return Refused(
                f"producer {producer_id} has an open transaction in this partition",
                ErrorCode.INVALID_TXN_STATE,
            )
        return verdict

    def check_epoch(self, producer_id: int, epoch: int) -> Refused | None:
        """Whether a coordinator may append for this producer; it sends no sequences."""
        producer = self.by_id.get(producer_id)
        if producer is None or epoch >= producer.epoch:
            return None
        return Refused(
            f"epoch {epoch} of producer {producer_id} is older than {producer.epoch}",
            ErrorCode.INVALID_PRODUCER_EPOCH,
        )

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> Refused | None:
        """Whether a transaction marker comes from the coordinator that is in charge now."""
        producer = self.by_id.get(producer_id)
        if producer is not None and coordinator_epoch < producer.coordinator_epoch:
            return Refused(
                f"coordinator epoch {coordinator_epoch} is older than {producer.coordinator_epoch}",
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            )
        return self.check_epoch(producer_id, epoch)

    def wrote(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        offset: int,
        offset_delta: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """A data batch of this producer is in the log."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = TrackedProducer(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.enter_epoch(epoch)
        if first_sequence != NO_SEQUENCE:
            producer.batches.append(
                WrittenBatch(
                    first_sequence,
                    (first_sequence + offset_delta) & _SEQUENCE_MAX,
                    offset + offset_delta,
                    offset_delta,
                    timestamp,
                )
            )
        producer.last_timestamp = timestamp
        if transactional and producer.transaction_start == NONE:
            self._guards.pop(producer_id, None)
            producer.transaction_start = offset
            self._open[producer_id] = offset

    def ended(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int
    ) -> EndedTransaction | None:
        """A marker is in the log; the transaction it ended, None when it was an empty one."""
        self._guards.pop(producer_id, None)
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = TrackedProducer(producer_id, epoch)
        producer.enter_epoch(epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        start = producer.transaction_start
        if start == NONE:
            return None
        producer.transaction_start = NONE
        del self._open[producer_id]
        ended = EndedTransaction(producer_id, start, offset)
        self._ended.append(ended)
        return ended

    @property
    def is_decided(self) -> bool:
        """Whether no transaction, open or ended of late, may hold readers back."""
        return not (self._open or self._ended)

    @property
    def first_open(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open.values()), None)

    def first_unstable(self, high_watermark: int) -> int | None:
        """The offset where readers of committed records must stop, if below the high watermark."""
        ended = self._ended
        while ended and ended[0].last_offset < high_watermark:
            ended.popleft()
        undecided = self.first_open
        if ended:
            oldest = min(transaction.first_offset for transaction in ended)
            return oldest if undecided is None else min(undecided, oldest)
        return undecided

    def expire(self, before_ms: int) -> int:
        """Forget producers silent since then that have nothing open; how many there were."""
        silent = [
            producer.id
            for producer in self.by_id.values()
            if producer.last_timestamp < before_ms and producer.transaction_start == NONE
        ]
        for producer_id in silent:
            del self.by_id[producer_id]
        # Nobody asks for as long as it takes to come by here twice.
        self._guards = {who: guard for who, guard in self._guards.items() if not guard.is_old}
        for guard in self._guards.values():
            guard.is_old = True
        return len(silent)

    def forget_oldest(self, keep: int) -> int:
        """Forget all but so many that wrote last, and those with something open; how many.

        Times are the clients' own; offsets are not.
        """
        idle = [p for p in self.by_id.values() if p.transaction_start == NONE]
        idle.sort(key=lambda p: p.batches[-1].last_offset if p.batches else NONE)
        gone = idle[: max(len(self.by_id) - keep, 0)]
        for producer in gone:
            del self.by_id[producer.id]
        return len(gone)

    def last_offsets(self) -> dict[int, tuple[int, int]]:
        """Of each producer: its last record's offset, -1 when it has none, and its epoch."""
        return {
            producer.id: (
                producer.batches[-1].last_offset if producer.batches else NONE,
                producer.epoch,
            )
            for producer in self.by_id.values()
        }

    def encode(self) -> bytes:
        """The content of a snapshot file."""
        body = bytearray(4)
        struct.pack_into(">i", body, 0, len(self.by_id))
        for producer in self.by_id.values():
            last = producer.batches[-1] if producer.batches else None
            body += _SNAPSHOT_ENTRY.pack(
                producer.id,
                producer.epoch,
                last.last_sequence if last else NO_SEQUENCE,
                last.last_offset if last else NONE,
                last.offset_delta if last else 0,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.transaction_start,
            )
        return struct.pack(">hI", SNAPSHOT_VERSION, crc32c.crc32c(bytes(body))) + bytes(body)

    @classmethod
    def decode(cls, content: bytes) -> ProducerStates | None:
        """The state of a snapshot, or None when its bytes are not what was written."""
        if len(content) < _SNAPSHOT_HEAD.size:
            return None
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
        expected = _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size
        if version != SNAPSHOT_VERSION or count < 0 or len(content) < expected:
            return None
        if crc32c.crc32c(content[_CRC_FROM:]) != crc:
            return None
        states = cls()
        for at in range(_SNAPSHOT_HEAD.size, expected, _SNAPSHOT_ENTRY.size):
            states._restore(*_SNAPSHOT_ENTRY.unpack_from(content, at))
        states._open = dict(sorted(states._open.items(), key=lambda item: item[1]))
        return states

    def _restore(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        offset: int,
        offset_delta: int,
        timestamp: int,
        coordinator_epoch: int,
        transaction_start: int,
    ) -> None:
        producer = TrackedProducer(producer_id, epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.transaction_start = transaction_start
        producer.last_timestamp = timestamp
        if offset != NONE:
            first = first_sequence(sequence, offset_delta)
            producer.batches.append(WrittenBatch(first, sequence, offset, offset_delta, timestamp))
        self.by_id[producer_id] = producer
        if transaction_start != NONE:
            self._open[producer_id] = transaction_start


def follow(
    states: ProducerStates,
    batch: bytes | memoryview,
    header: BatchHeader,
    offset: int,
    timestamp: int,
) -> Aborted | None:
    """Let the states know a batch of a producer that is in the log at this offset.

    The bytes are looked at only for a control batch; the transaction that it aborted is returned.
    """
    if not header.is_control:
        states.wrote(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            offset,
            header.last_offset_delta,
            timestamp,
            header.is_transactional,
        )
        return None
    marker = read_marker(batch)
    if marker is None:
        return None
    ended = states.ended(
        header.producer_id, header.producer_epoch, marker.coordinator_epoch, offset, timestamp
    )
    if ended is None or marker.committed:
        return None
    undecided = states.first_open
    stable = offset + 1 if undecided is None else undecided
    return Aborted(ended.producer_id, ended.first_offset, offset, stable)
