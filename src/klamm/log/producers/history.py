"""Rebuilds what a log knows of its producers.

The state is read from the newest snapshot and the batches behind it when it is first asked for:
most logs are never written to by a producer with an id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from klamm.log.disk.filesystem import Replace
from klamm.log.producers.snapshots import Snapshots
from klamm.log.producers.tracking import ProducerStates, WrittenBatch, follow, last_sequence
from klamm.log.segments.batches import read_marker
from klamm.log.segments.transactions import Aborted
from klamm.model.errors import Refused
from klamm.protocol.batch import BatchHeader

# The batches from an offset to the end of the log; the bytes matter for control batches only.
Replay = Callable[[int], Iterator[tuple[BatchHeader, bytes]]]


class ProducerHistory:
    """The producers' state at the end of a log."""

    __slots__ = ("_replay", "_states", "snapshots")

    def __init__(self, snapshots: Snapshots, replay: Replay) -> None:
        self.snapshots = snapshots
        self._replay = replay
        self._states: ProducerStates | None = None

    @property
    def states(self) -> ProducerStates:
        if self._states is None:
            self._states = self._read()
        return self._states

    def _read(self) -> ProducerStates:
        """The state from the files: a snapshot, and what was written since."""
        offset, states = self.snapshots.newest() or (0, ProducerStates())
        for header, batch in self._replay(offset):
            if header.producer_id >= 0:
                follow(states, batch, header, header.base_offset, header.max_timestamp)
        return states

    def know(self, states: ProducerStates) -> None:
        """Somebody has found out the state on another way."""
        self._states = states

    def check(
        self, batch: memoryview, header: BatchHeader, from_client: bool
    ) -> WrittenBatch | Refused | None:
        """Whether a producer may write this batch now: None, or the batch it repeats, or no."""
        states = self.states
        if from_client:
            return states.check(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                last_sequence(header.base_sequence, header.last_offset_delta),
                transactional=header.is_transactional,
            )
        if header.is_control and (marker := read_marker(batch)) is not None:
            return states.check_marker(
                header.producer_id, header.producer_epoch, marker.coordinator_epoch
            )
        return states.check_epoch(header.producer_id, header.producer_epoch)

    def note(
        self, batch: bytes | memoryview, header: BatchHeader, offset: int, timestamp: int
    ) -> Aborted | None:
        """A batch is in the log; the transaction that it aborted, if it did."""
        return follow(self.states, batch, header, offset, timestamp)

    def snapshot(self, offset: int, segment_bases: Collection[int]) -> None:
        """Keep the state for the segment that begins at this offset."""
        self.snapshots.take(offset, self.states)
        self.snapshots.prune(segment_bases)

    @property
    def has_any(self) -> bool:
        """Whether there are producers, or may be, that a start has to know of."""
        return bool(self.snapshots) or (self._states is not None and bool(self._states.by_id))

    def finalize(self, offset: int, segment_bases: Collection[int], replace: Replace) -> bool:
        """Keep the state for the next start; a log without producers needs no file for that."""
        if self._states is None or not (self._states.by_id or self.snapshots):
            return False
        self.snapshots.take(offset, self._states, replace)
        self.snapshots.prune(segment_bases)
        return True

    def expire(self, before_ms: int) -> int:
        """Forget producers that have been silent since then; how many there were."""
        return self._states.expire(before_ms) if self._states is not None else 0

    @property
    def count(self) -> int:
        """The producers that are in memory."""
        return len(self._states.by_id) if self._states is not None else 0

    def forget_oldest(self, keep: int) -> int:
        """Forget all but those that wrote last; how many there were."""
        return self._states.forget_oldest(keep) if self._states is not None else 0

    def cut(self, offset: int) -> None:
        """The log ends here now: what it remembers has to be read again."""
        self.snapshots.cut(offset)
        self._states = None

    def clear(self) -> None:
        self.snapshots.clear()
        self._states = ProducerStates()
