"""Which records of a compacted log stay.

For each key the last record stays. A last record without a value is a tombstone: it stays for
`delete.retention.ms` after the first cleaning that met it, so that a reader who started before can
still learn of the deletion. That deadline, the delete horizon, is written into the batch itself
(KIP-534): the batch gets a bit in its attributes, and its base timestamp becomes the deadline.

Transactions: records of aborted ones go at once. A marker goes when nothing of its transaction is
left, after a delete horizon of its own. The last batch of a living producer stays, if need be
without records, because the producer's sequence is continued from it.

Offsets never change; a batch keeps its first and last one whatever is taken out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.log.batches import read_marker
from klamm.log.transactions import Aborted
from klamm.protocol.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    BatchHeader,
    Codec,
    Record,
    decode_records,
    encode_batch,
)

_NONE: Final = -1
_UNKNOWN: Final = -2


class LastOffsets:
    """The last offset of every key in the part of a log that was written since it was cleaned."""

    __slots__ = ("_by_key", "_limit", "end")

    def __init__(self, start: int, limit: int) -> None:
        self._by_key: dict[bytes, int] = {}
        self._limit = limit
        self.end = start  # every batch below it is accounted for

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def is_full(self) -> bool:
        return len(self._by_key) >= self._limit

    def add(self, header: BatchHeader, records: Iterable[Record]) -> None:
        """Take in a batch, always as a whole."""
        for record in records:
            if record.key is not None:
                self._by_key[record.key] = record.offset
        self.end = header.last_offset + 1

    def is_outdated(self, record: Record) -> bool:
        """Whether a later record has the same key; a record without a key has no place here."""
        if record.key is None:
            return True
        return self._by_key.get(record.key, _NONE) > record.offset


class AbortedRanges:
    """Which batches belong to transactions that were aborted."""

    __slots__ = ("_by_producer",)

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._by_producer: dict[int, list[Aborted]] = {}
        for entry in aborted:
            self._by_producer.setdefault(entry.producer_id, []).append(entry)

    def holds(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.is_control:
            return False
        return any(
            entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in self._by_producer.get(header.producer_id, ())
        )


@dataclass(slots=True)
class Sieve:
    """Decides batch by batch, in the order of the log, what is left of it."""

    last_offsets: LastOffsets
    aborted: AbortedRanges
    # Of each living producer: its last record's offset, -1 when it has none, and its epoch.
    last_of_producer: Mapping[int, tuple[int, int]]
    now_ms: int
    delete_retention_ms: int
    # Producers with a transaction of which something was kept: its marker stays as well.
    _with_records: set[int] = field(default_factory=set)

    def sift(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """What to write instead of a batch: itself, a smaller one, or None."""
        if header.is_control:
            return self._marker(header, batch)
        if self.aborted.holds(header):
            return self._without_records(header)
        records = list(decode_records(batch))
        kept = [record for record in records if self._stays(record, header)]
        if header.is_transactional and (kept or self._is_last_of_producer(header)):
            self._with_records.add(header.producer_id)
        if not kept:
            return self._without_records(header)
        horizon = self._horizon(header, any(record.value is None for record in kept))
        if len(kept) == len(records) and horizon == _horizon_of(header):
            return batch
        return rewrite(header, kept, horizon)

    def _stays(self, record: Record, header: BatchHeader) -> bool:
        if record.offset >= self.last_offsets.end:
            return True
        if self.last_offsets.is_outdated(record):
            return False
        return record.value is not None or not self._horizon_passed(header)

    def _marker(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        if read_marker(batch) is None:
            return batch
        needed = header.producer_id in self._with_records
        self._with_records.discard(header.producer_id)
        if needed or header.base_offset >= self.last_offsets.end:
            return batch
        if self._horizon_passed(header) and not self._is_last_of_producer(header):
            return None
        horizon = self._horizon(header, True)
        if horizon == _horizon_of(header):
            return batch
        return rewrite(header, list(decode_records(batch)), horizon)

    def _without_records(self, header: BatchHeader) -> bytes | None:
        return rewrite(header, [], None) if self._is_last_of_producer(header) else None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        offset, epoch = self.last_of_producer.get(header.producer_id, (_UNKNOWN, _NONE))
        if header.is_control:
            # All that is known of this producer is that its epoch has ended.
            return offset == _NONE and epoch == header.producer_epoch
        return offset == header.last_offset

    def _horizon(self, header: BatchHeader, has_deletes: bool) -> int | None:
        horizon = _horizon_of(header)
        if horizon is None and has_deletes:
            return self.now_ms + self.delete_retention_ms
        return horizon

    def _horizon_passed(self, header: BatchHeader) -> bool:
        horizon = _horizon_of(header)
        return horizon is not None and horizon <= self.now_ms


def _horizon_of(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def rewrite(header: BatchHeader, records: list[Record], horizon: int | None) -> bytes:
    """The batch with these of its records, at the same offsets."""
    late = header.is_log_append_time or not records
    return encode_batch(
        records,
        base_offset=header.base_offset,
        codec=header.codec if records else Codec.NONE,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_offset=header.last_offset,
        base_timestamp=header.base_timestamp if horizon is None else horizon,
        max_timestamp=header.max_timestamp if late else None,
        attributes=header.attributes & ~CODEC_MASK & ~DELETE_HORIZON
        | (DELETE_HORIZON if horizon is not None else 0),
    )
