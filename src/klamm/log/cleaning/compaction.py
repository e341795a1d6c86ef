"""Decides which records of a compacted log stay.

For each key the last record stays. A last record without a value is a tombstone: it stays for
`delete.retention.ms` after the first cleaning that met it, so that a reader who started before can
still learn of the deletion. That deadline, the delete horizon, is written into the batch itself
(KIP-534): the batch gets a bit in its attributes, and its base timestamp becomes the deadline.

Transactions: records of aborted ones go at once. A marker goes when nothing of its transaction is
left, after a delete horizon of its own. The last batch of a living producer stays, if need be
without records, because the producer's sequence is continued from it.

Offsets never change; a batch keeps its first and last one whatever is taken out of it.

A batch is gone through record by record without an object for each, twice where something is taken
out of it: a few kilobytes may hold millions of records, and neither memory nor the other threads
should notice. A batch that cannot be opened stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from klamm.log.segments.batches import read_marker
from klamm.log.segments.transactions import Aborted
from klamm.log.writing.records import Rest, area_of, rest
from klamm.model.errors import ProtocolError
from klamm.protocol.batch import CODEC_MASK, DELETE_HORIZON, BatchHeader, compress, seal
from klamm.protocol.compression import Buffer
from klamm.protocol.varint import read_varint, varint

_NONE: Final = -1
_UNKNOWN: Final = -2
_SLICE: Final = 1000  # records between two rests
_KEY_SIZE_MAX: Final = 24  # longer keys are known by a digest, which takes less memory
_DIGEST_SIZE: Final = 16
_OVERSHOOT: Final = 100_000  # keys of one batch that may be too many


class Raw(NamedTuple):
    """One record where it lies in its area, and what decides about it."""

    start: int
    after_length: int
    after_time: int
    end: int
    timestamp_delta: int
    offset: int
    key: bytes | None
    has_value: bool


def raw_records(area: Buffer, header: BatchHeader, pause: Rest = rest) -> Iterator[Raw]:
    """The records of an area, one at a time. ProtocolError where they make no sense."""
    at = 0
    size_all = len(area)
    try:
        for number in range(header.record_count):
            if number % _SLICE == _SLICE - 1:
                pause()
            start = at
            size, inside = read_varint(area, at)
            end = inside + size
            if size < 0 or end > size_all:
                raise ProtocolError("a record is longer than its batch")
            delta, after_time = read_varint(area, inside + 1)
            place, at = read_varint(area, after_time)
            key_size, at = read_varint(area, at)
            key = None
            if key_size >= 0:
                key = bytes(area[at : at + key_size])
                at += key_size
            value_size, at = read_varint(area, at)
            if at + max(value_size, 0) >= end:
                raise ProtocolError("a key or value is longer than its record")
            offset = header.base_offset + place
            yield Raw(start, inside, after_time, end, delta, offset, key, value_size >= 0)
            at = end
    except IndexError:
        raise ProtocolError("a record is longer than its batch") from None
    if at != size_all:
        raise ProtocolError("a batch has more bytes than records")


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

    def add(self, header: BatchHeader, records: Iterable[Raw]) -> bool:
        """Take in a batch; False when it was not taken in as a whole.

        Of keys that are not taken in more records stay than need to.
        """
        by_key = self._by_key
        size_max = self._limit + _OVERSHOOT
        self.end = header.last_offset + 1
        try:
            for record in records:
                if record.key is not None:
                    by_key[_short(record.key)] = record.offset
                    if len(by_key) >= size_max:
                        return False
        except ProtocolError:
            return False
        return True

    def is_outdated(self, key: bytes | None, offset: int) -> bool:
        """Whether a later record has the same key; a record without a key has no place here."""
        return key is None or self._by_key.get(_short(key), _NONE) > offset


def _short(key: bytes) -> bytes:
    if len(key) <= _KEY_SIZE_MAX:
        return key
    return blake2b(key, digest_size=_DIGEST_SIZE).digest()


class AbortedRanges:
    """The batches that belong to aborted transactions."""

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
    expanded_size_max: int
    pause: Rest = rest  # between some records and the next
    # Producers with a transaction of which something was kept: its marker stays as well.
    _with_records: set[int] = field(default_factory=set)

    def sift(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """The bytes to write in place of a batch: itself, a smaller one, or None."""
        if self.aborted.holds(header):
            return self._without_records(header)
        try:
            if header.is_control:
                return self._marker(header, batch)
            return self._sifted(header, batch)
        except ProtocolError:
            if header.is_transactional:
                self._with_records.add(header.producer_id)
            return batch

    def _sifted(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        area = area_of(batch, header, self.expanded_size_max)
        kept, has_deletes = 0, False
        for record in raw_records(area, header, self.pause):
            if self._stays(record, header):
                kept += 1
                has_deletes = has_deletes or not record.has_value
        if header.is_transactional and (kept or self._is_last_of_producer(header)):
            self._with_records.add(header.producer_id)
        if not kept:
            return self._without_records(header)
        horizon = self._horizon(header, has_deletes)
        if kept == header.record_count and horizon == _horizon_of(header):
            return batch
        staying = (r for r in raw_records(area, header, self.pause) if self._stays(r, header))
        return rewrite(header, area, staying, horizon)

    def _stays(self, record: Raw, header: BatchHeader) -> bool:
        if record.offset >= self.last_offsets.end:
            return True
        if self.last_offsets.is_outdated(record.key, record.offset):
            return False
        return record.has_value or not self._horizon_passed(header)

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
        area = area_of(batch, header, self.expanded_size_max)
        return rewrite(header, area, raw_records(area, header, self.pause), horizon)

    def _without_records(self, header: BatchHeader) -> bytes | None:
        return rewrite(header, b"", (), None) if self._is_last_of_producer(header) else None

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


def rewrite(
    header: BatchHeader, area: Buffer, records: Iterable[Raw], horizon: int | None
) -> bytes:
    """The batch with these of its records, at the same offsets."""
    base = header.base_timestamp if horizon is None else horizon
    shift = header.base_timestamp - base
    out = bytearray()
    count, latest = 0, _NONE
    for start, after_length, after_time, end, delta, _, _, _ in records:
        count += 1
        latest = max(latest, header.base_timestamp + delta)
        if not shift:
            out += area[start:end]
            continue
        time = varint(delta + shift)
        out += varint(end - after_time + 1 + len(time))
        out += area[after_length : after_length + 1]  # the attributes
        out += time
        out += area[after_time:end]
    late = header.is_log_append_time or not count
    attributes = header.attributes & ~DELETE_HORIZON
    attributes |= DELETE_HORIZON if horizon is not None else 0
    if not count:
        attributes &= ~CODEC_MASK
    fresh = header._replace(
        crc=0,
        attributes=attributes,
        base_timestamp=base,
        max_timestamp=header.max_timestamp if late else latest,
        record_count=count,
    )
    return seal(fresh, compress(header.codec, out) if count else out)
