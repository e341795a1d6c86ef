"""One partition imported with its offsets, and read back: what tasks of an exact restore do.

A task that runs again asks the leader where its log ends and goes on there: batches are the same
on every attempt, because the archive has their limits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from klamm.client.blocking.importing import ImportLink, ImportTarget
from klamm.client.errors import Answered, Unreachable
from klamm.client.retries import may_pass
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.files import (
    GROUP_BYTES_MAX,
    Unreadable,
    read_file,
    window_frames,
)
from klamm.pipelines.archive.layout import File, PartitionEntry, below
from klamm.pipelines.places.remote import place_of
from klamm.pipelines.records.digests import Digests, window_offsets
from klamm.pipelines.records.exact import BATCH_COLUMNS, Built, Rebuilder, gap
from klamm.pipelines.source.ranges import Range

_CHUNK_BYTES: Final = 2 << 20
_PAUSE_S: Final = 0.1
_SHAPE: Final = ("offset", *BATCH_COLUMNS, "is_aborted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactJob:
    """All that a task must know."""

    connection: ConnectionOptions
    directory: str
    topic: str
    topic_id: str
    partitions: Mapping[int, tuple[PartitionEntry, Sequence[File]]]
    is_checked: bool = True  # somebody has compared the files with the manifest before
    group_bytes: int = GROUP_BYTES_MAX


def import_partition(job: ExactJob, partition: int) -> dict[str, Any]:
    """Imports what is still missing of one partition."""
    entry, _ = job.partitions[partition]
    target = ImportTarget(
        connection=job.connection,
        place=TopicPartition(job.topic, partition),
        topic_id=job.topic_id,
        log_start=entry.log_start,
    )
    began: int | None = None
    reached, patience_s = -1, job.connection.patience_ms / 1000
    deadline = time.monotonic() + patience_s
    while True:
        try:
            with ImportLink(target) as link:
                position = link.ask()
                began = position if began is None else began
                if position > reached:
                    reached, deadline = position, time.monotonic() + patience_s
                size = _send(job, partition, link)
                _check_end(target, entry, link)
                return {"partition": partition, "resumed": began, "bytes": size}
        except (Unreachable, Answered) as fault:
            if not may_pass(fault) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


def _send(job: ExactJob, partition: int, link: ImportLink) -> int:
    """Everything behind the end of the leader's log."""
    chunk: list[bytes] = []
    size = total = 0
    for built in batches_from(job, partition, link.log_end):
        chunk.append(built.data)
        size += len(built.data)
        if size >= _CHUNK_BYTES:
            link.send(chunk)
            chunk, size, total = [], 0, total + size
    if chunk:
        link.send(chunk)
    link.flush()
    return total + size


def _check_end(target: ImportTarget, entry: PartitionEntry, link: ImportLink) -> None:
    if (link.log_start, link.log_end) != (entry.log_start, entry.end):
        raise KlammError(
            f"{target.place} has offsets from {link.log_start} to {link.log_end}, and the archive "
            f"{entry.log_start} to {entry.end}: delete the topic and restore it again"
        )


def batches_from(job: ExactJob, partition: int, position: int) -> Iterator[Built]:
    """The batches of an archived partition that do not end below an offset."""
    entry, files = job.partitions[partition]
    rebuilder = Rebuilder()
    for file in files:
        # A batch may go on in the next file.
        if file.last < position and (nxt := _after(files, file)) and nxt.first < position:
            continue
        for frame in _frames(job, file):
            ends = frame.column("batch_last_offset").to_numpy()
            yield from rebuilder.feed(frame.slice(int(np.searchsorted(ends, position))))
    yield from rebuilder.close()
    last = rebuilder.last
    behind = max(position, entry.log_start if last is None else last.last_offset + 1)
    yield from gap(behind, entry.end, max(last.leader_epoch, 0) if last else _epoch(job, partition))


def _after(files: Sequence[File], file: File) -> File | None:
    return next((f for f in files if f.first > file.last), None)


def _epoch(job: ExactJob, partition: int) -> int:
    return max(last_epoch(job.directory, job.partitions[partition][1]), 0)


def last_epoch(directory: str, files: Sequence[File]) -> int:
    """The leader epoch of the last record, the highest of a partition; -1 if there is none."""
    for file in reversed(files):
        epoch = -1
        if file.rows:
            path = below(place_of(directory), file.path)
            for frame in read_file(path, ["leader_epoch"], rows=file.rows):
                epoch = int(frame.column(0)[frame.num_rows - 1].as_py())
            return epoch
    return -1


def _frames(job: ExactJob, file: File) -> Iterator[Any]:
    """The frames of a file, which the manifest must know unless that was seen to before."""
    path, digests = below(place_of(job.directory), file.path), Digests()
    for frame in read_file(path, rows=file.rows, group_bytes=job.group_bytes):
        if not job.is_checked:
            digests.add(frame)
        yield frame
    if not job.is_checked and digests.named() != file.digests:
        raise Unreadable(f"the archive is damaged: {path} is not what the manifest says")


class BatchSums:
    """Sums over all that an archive knows of batches: limits, producers, epochs, codecs."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_SHAPE, 0)

    def add(self, frame: Any) -> None:
        for name in _SHAPE:
            values = frame.column(name).to_numpy(zero_copy_only=False)
            self._sums[name] = crc32c(values.astype(np.int64).tobytes(), self._sums[name])

    def differences(self, other: BatchSums) -> list[str]:
        """The columns that differ."""
        return [name for name in _SHAPE if self._sums[name] != other._sums[name]]


def prove_file(job: ExactJob, file: File, wanted: Range) -> tuple[list[str], int]:
    """The differences between a file and what the topic has at its offsets; and bytes read."""
    digests, found, kept, size = Digests(), BatchSums(), BatchSums(), 0
    for frame in window_frames(job.connection, wanted):
        digests.add(frame)
        found.add(frame)
        size += frame.nbytes
    path = below(place_of(job.directory), file.path)
    for frame in read_file(path, list(_SHAPE), rows=file.rows, group_bytes=job.group_bytes):
        kept.add(frame)
    where = f"partition {file.partition}"
    read = digests.named()
    faults = [
        f"{where}, {window_offsets(int(n))}: the records differ"
        for n in sorted(read.keys() | file.digests.keys(), key=int)
        if read.get(n) != file.digests.get(n)
    ]
    faults += [
        f"{where}, offsets {file.first} to {file.last}: {name} differs"
        for name in kept.differences(found)
    ]
    return faults, size
