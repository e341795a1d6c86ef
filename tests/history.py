"""Checks what producers were promised against what the replicas hold.

A producer notes each record that was acknowledged, with its partition and offset. Afterwards the
segment files of every replica are read, and the checker says what is wrong: a loss, a duplicate, a
reordering, or replicas that differ. It knows nothing of klamm but the format of the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from klamm.protocol.batch import crc_ok, decode_records, iter_batches

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Acked:
    """A producer was told that its record is at this offset."""

    producer: str
    sequence: int  # the order in which the producer sent its records
    partition: Partition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as a replica holds it."""

    offset: int
    value: bytes


Replicas = Mapping[int, Sequence[Stored]]  # broker id -> its records, in the order of the file


def check(acked: Iterable[Acked], logs: Mapping[Partition, Replicas]) -> list[str]:
    """Everything that is wrong, in words; empty when all promises were kept."""
    faults: list[str] = []
    by_partition: defaultdict[Partition, list[Acked]] = defaultdict(list)
    for record in acked:
        by_partition[record.partition].append(record)
    for partition, replicas in logs.items():
        faults += _divergence(partition, replicas)
        for broker, records in replicas.items():
            where = f"{partition[0]}-{partition[1]} on broker {broker}"
            faults += _losses(where, by_partition[partition], records)
            faults += _duplicates(where, records)
            faults += _reorders(where, by_partition[partition], records)
    missing = by_partition.keys() - logs.keys()
    faults += [f"{p[0]}-{p[1]}: no replica at all" for p in sorted(missing) if by_partition[p]]
    return faults


def _losses(where: str, acked: Sequence[Acked], records: Sequence[Stored]) -> list[str]:
    held = {record.offset: record.value for record in records}
    return [
        f"{where}: lost {a.value!r} of {a.producer}, acknowledged at offset {a.offset}"
        for a in acked
        if held.get(a.offset) != a.value
    ]


def _duplicates(where: str, records: Sequence[Stored]) -> list[str]:
    seen: dict[bytes, int] = {}
    faults = []
    for record in records:
        if record.value in seen:
            at = f"offsets {seen[record.value]} and {record.offset}"
            faults.append(f"{where}: {record.value!r} is there twice, at {at}")
        seen[record.value] = record.offset
    return faults


def _reorders(where: str, acked: Sequence[Acked], records: Sequence[Stored]) -> list[str]:
    faults = [
        f"{where}: offset {after.offset} stands behind {before.offset}"
        for before, after in pairwise(records)
        if after.offset <= before.offset
    ]
    origin = {a.value: (a.producer, a.sequence) for a in acked}
    latest: dict[str, int] = {}
    for record in records:
        if record.value not in origin:
            continue  # sent but never acknowledged: it may be there or not
        producer, sequence = origin[record.value]
        if sequence < latest.get(producer, -1):
            faults.append(f"{where}: {record.value!r} stands behind a later one of {producer}")
        latest[producer] = max(sequence, latest.get(producer, -1))
    return faults


def _divergence(partition: Partition, replicas: Replicas) -> list[str]:
    held = {broker: {r.offset: r.value for r in records} for broker, records in replicas.items()}
    faults = []
    first, *others = held or [-1]
    for other in others:
        faults += [
            f"{partition[0]}-{partition[1]}: brokers {first} and {other} differ at offset {offset}"
            for offset in sorted(held[first].keys() & held[other].keys())
            if held[first][offset] != held[other][offset]
        ]
    return faults


def read_replicas(
    data: Path, topic: str, partitions: Iterable[int], brokers: Iterable[int]
) -> dict[Partition, dict[int, list[Stored]]]:
    """What every replica of a topic holds, from the segment files below a cluster's data."""
    logs: dict[Partition, dict[int, list[Stored]]] = {}
    for number in partitions:
        for broker in brokers:
            directory = data / f"broker-{broker}" / f"{topic}-{number}"
            if directory.is_dir():
                logs.setdefault((topic, number), {})[broker] = _read_directory(directory)
    return logs


def _read_directory(directory: Path) -> list[Stored]:
    records: list[Stored] = []
    for segment in sorted(directory.glob("*.log")):
        for header, batch in iter_batches(segment.read_bytes()):
            assert crc_ok(batch), f"a batch of {segment} has a wrong checksum"
            if header.is_control:
                continue
            records += (Stored(r.offset, bytes(r.value or b"")) for r in decode_records(batch))
    return records
