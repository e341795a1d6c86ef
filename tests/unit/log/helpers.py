"""Short ways to write to a log and to read it back."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.log.partition import PartitionLog
from klamm.log.writing.append import Appended, AppendRefused
from klamm.protocol.batch import Record, decode_records, encode_batch, iter_batches
from leading import append_as_leader

T0 = 1_700_000_000_000


def batch(
    *values: bytes | None,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = T0,
    **options: object,
) -> memoryview:
    """One batch with a record for each value, a millisecond apart, as a producer sends it."""
    records = [
        Record(i, timestamp + i, keys[i] if keys else None, value) for i, value in enumerate(values)
    ]
    return memoryview(bytearray(encode_batch(records, **options)))  # type: ignore[arg-type]


def append(log: PartitionLog, *values: bytes | None, epoch: int = 0, **options: object) -> Appended:
    """Append one batch that must be taken."""
    outcome = try_append(log, batch(*values, **options), epoch=epoch)  # type: ignore[arg-type]
    assert isinstance(outcome, Appended), outcome
    return outcome


def try_append(
    log: PartitionLog, data: memoryview, *, epoch: int = 0, now_ms: int = T0, **options: object
) -> Appended | AppendRefused:
    return append_as_leader(log, data, leader_epoch=epoch, now_ms=now_ms, **options)  # type: ignore[arg-type]


def records(log: PartitionLog, offset: int | None = None, upto: int | None = None) -> list[Record]:
    """Every record from an offset on, read the way a consumer reads."""
    found: list[Record] = []
    at = log.log_start_offset if offset is None else offset
    while True:
        part = log.read(at, max_bytes=1 << 20, upto=upto)
        assert not isinstance(part, int), part
        batches = list(iter_batches(part.read()))
        if not batches:
            return found
        for header, data in batches:
            found += [record for record in decode_records(data) if record.offset >= at]
            last = header.last_offset
        at = last + 1


def values(log: PartitionLog, offset: int | None = None, upto: int | None = None) -> list[bytes]:
    return [record.value or b"" for record in records(log, offset, upto)]
