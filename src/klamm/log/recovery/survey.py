"""A look at a broker's log directory from outside, while nobody uses it.

Nothing is changed, and nothing is taken on trust: where a log ends is read from its last segment,
batch by batch with their checksums, because after a crash no checkpoint says it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from klamm.log.disk import names
from klamm.log.disk.checkpoints import (
    CheckpointCorrupt,
    DirectoryIdentity,
    read_epochs,
    read_identity,
    read_offsets,
    read_topic_id,
)
from klamm.log.disk.register import Entry, read_register
from klamm.log.recovery.opening import look_into
from klamm.log.segments.batches import is_intact, whole_batches
from klamm.model.found_logs import FoundLog
from klamm.model.names import BrokerId, TopicPartition, name_fault

_NOTHING: Final = -1


@dataclass(frozen=True, slots=True)
class Survey:
    """The content of one log directory."""

    identity: DirectoryIdentity
    logs: tuple[FoundLog, ...]
    set_aside: tuple[str, ...]  # directories of logs that some start took for nobody's


def survey(path: str) -> Survey | None:
    """Surveys a directory; None if it belongs to no broker."""
    identity = read_identity(os.path.join(path, names.META_PROPERTIES))
    if identity is None:
        return None
    compacted = _compacted(path)
    found = look_into(path).logs
    broker = BrokerId(identity.broker_id)
    registered = read_register(os.path.join(path, names.REGISTER))
    logs = [
        _log(broker, partition, where, partition in compacted, registered.get(partition))
        for partition, where, is_future in found
        if not is_future and name_fault(partition.topic) is None
    ]
    here = {log.partition for log in logs}
    logs += [_paper(broker, p, entry) for p, entry in registered.items() if p not in here]
    aside = tuple(sorted(name for name in os.listdir(path) if name.endswith(names.STRAY)))
    return Survey(identity, tuple(logs), aside)


def _compacted(path: str) -> frozenset[TopicPartition]:
    try:
        return frozenset(read_offsets(os.path.join(path, names.CLEANER_OFFSETS)))
    except CheckpointCorrupt:
        return frozenset()


def _paper(broker: BrokerId, partition: TopicPartition, entry: Entry) -> FoundLog:
    """A log that is on paper: empty, but there."""
    return FoundLog(
        broker=broker,
        partition=partition,
        topic_id=entry.topic_id,
        epoch=_NOTHING,
        epoch_max=_NOTHING,
        end=0,
        producer_id_max=_NOTHING,
        is_compacted=False,
    )


def _log(
    broker: BrokerId, partition: TopicPartition, path: str, is_compacted: bool, entry: Entry | None
) -> FoundLog:
    segments = _segments(path)
    end, epoch, producer = (segments[-1] if segments else 0), _NOTHING, _NOTHING
    # Behind a roll the last segment may be empty; then the one before tells the epoch.
    for base in reversed(segments):
        last, epoch, producer = _last(os.path.join(path, names.offset_name(base, names.LOG)))
        end = max(end, last + 1)
        if epoch != _NOTHING:
            break
    known = _epochs(path)
    topic_id = read_topic_id(os.path.join(path, names.PARTITION_METADATA))
    return FoundLog(
        broker=broker,
        partition=partition,
        topic_id=topic_id or (entry.topic_id if entry is not None else None),
        epoch=epoch,
        epoch_max=max([epoch, *known]),
        end=end,
        producer_id_max=producer,
        is_compacted=is_compacted,
    )


def _segments(path: str) -> list[int]:
    """The base offsets of the segments, in order."""
    parsed = map(names.parse_offset_name, os.listdir(path))
    return sorted(found[0] for found in parsed if found and found[1:] == (names.LOG, ""))


def _last(path: str) -> tuple[int, int, int]:
    """The last offset, its leader epoch and the highest producer id of one segment."""
    offset = epoch = producer = _NOTHING
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        for _, header, batch in whole_batches(descriptor, 0, size):
            if not is_intact(batch, header):
                break
            offset, epoch = header.last_offset, header.leader_epoch
            producer = max(producer, header.producer_id)
    finally:
        os.close(descriptor)
    return offset, epoch, producer


def _epochs(path: str) -> list[int]:
    try:
        return [epoch for epoch, _ in read_epochs(os.path.join(path, names.EPOCHS))]
    except CheckpointCorrupt:
        return []
