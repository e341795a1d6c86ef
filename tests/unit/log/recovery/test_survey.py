"""A log directory looked at from outside tells where its logs end, and changes nothing."""

from __future__ import annotations

import uuid
from pathlib import Path

from klamm.log.disk import checkpoints, names
from klamm.log.disk.checkpoints import DirectoryIdentity
from klamm.log.recovery.survey import survey
from klamm.model.names import TopicPartition
from klamm.protocol.batch import Record, encode_batch

ID = uuid.UUID(int=7)


def batch(first: int, count: int, epoch: int, producer_id: int = -1) -> bytes:
    records = [Record(at, 0, None, b"v") for at in range(first, first + count)]
    return encode_batch(records, base_offset=first, leader_epoch=epoch, producer_id=producer_id)


def directory(root: Path) -> Path:
    identity = DirectoryIdentity(2, "cluster", "d")
    checkpoints.write_identity(str(root / names.META_PROPERTIES), identity)
    return root


def a_log(root: Path, name: str, segments: dict[int, bytes]) -> Path:
    log = root / name
    log.mkdir()
    checkpoints.write_topic_id(str(log / names.PARTITION_METADATA), ID)
    for base, content in segments.items():
        (log / names.offset_name(base, names.LOG)).write_bytes(content)
    return log


def test_ends_epochs_and_producers_are_read_from_the_batches(tmp_path: Path) -> None:
    root = directory(tmp_path)
    torn = batch(12, 3, 9)[:-1]
    damaged = bytearray(batch(14, 1, 9))
    damaged[-1] ^= 1
    a_log(root, "a-b-3", {0: batch(0, 10, 1), 10: batch(10, 2, 4, producer_id=77) + torn})
    log = a_log(root, "empty-0", {5: b""})
    checkpoints.write_epochs(str(log / names.EPOCHS), [(2, 0), (6, 3)])
    a_log(root, "rolled-0", {0: batch(0, 4, 3), 4: b""})
    a_log(root, "sick-0", {12: batch(12, 2, 5) + bytes(damaged)})
    (root / "old-0.0123456789abcdef0123456789abcdef-stray").mkdir()
    (root / "gone-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    before = sorted(path.name for path in root.rglob("*"))
    found = survey(str(root))
    assert found is not None
    told = {str(log.partition): (log.epoch, log.epoch_max, log.end) for log in found.logs}
    assert told == {
        "a-b-3": (4, 4, 12),
        "empty-0": (-1, 6, 5),
        "rolled-0": (3, 3, 4),
        "sick-0": (5, 5, 14),
    }
    (first, *_) = found.logs
    assert (first.broker, first.topic_id, first.producer_id_max) == (2, ID, 77)
    assert len(found.set_aside) == 1
    assert sorted(path.name for path in root.rglob("*")) == before


def test_a_compacted_partition_is_known_by_its_checkpoint(tmp_path: Path) -> None:
    root = directory(tmp_path)
    a_log(root, "k-0", {0: b""})
    checkpoints.write_offsets(str(root / names.CLEANER_OFFSETS), {TopicPartition("k", 0): 0})
    found = survey(str(root))
    assert found is not None
    assert [log.is_compacted for log in found.logs] == [True]


def test_a_directory_of_nobody_tells_nothing(tmp_path: Path) -> None:
    assert survey(str(tmp_path)) is None
