"""What a log is after its files were damaged, half written or half replaced."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.recovery.loading import Known, load_log
from klamm.log.settings import LogSettings
from klamm.log.writing.append import Appended
from klamm.protocol.batch import ControlKind, encode_control_batch
from leading import offset_for_timestamp
from unit.log.conftest import PARTITION
from unit.log.helpers import T0, append, batch, try_append, values

SETTINGS = LogSettings(segment_bytes=500, index_interval_bytes=100)


@pytest.fixture
def log(tmp_path: Path, pool: FilePool) -> PartitionLog:
    """Three segments of four batches, two records each."""
    log = PartitionLog.create(PARTITION, str(tmp_path / "orders-3"), SETTINGS, pool)
    for number in range(12):
        append(log, b"%02d" % number * 20, b"-", epoch=number // 5)
    assert log.segments.bases == [0, 8, 16]
    return log


def crashed(log: PartitionLog, **known: int) -> PartitionLog:
    """The log as it is found after the process has died."""
    log.close(clean=False)
    return load_log(PARTITION, log.directory, log.settings, log.pool, Known(**known))


def stopped(log: PartitionLog) -> PartitionLog:
    """The log as it is found after a clean stop."""
    log.close(clean=True)
    known = Known(clean=True, recovery_point=log.log_end_offset)
    return load_log(PARTITION, log.directory, log.settings, log.pool, known)


def test_nothing_is_lost_with_the_process(log: PartitionLog) -> None:
    found = crashed(log)
    assert values(found) == values(log)
    assert found.log_end_offset == 24
    assert found.epochs.entries == ((0, 0), (1, 10), (2, 20))


def test_a_torn_last_batch_is_cut_off(log: PartitionLog) -> None:
    path = log.segments.active.path
    os.truncate(path, os.path.getsize(path) - 7)
    found = crashed(log)
    assert found.log_end_offset == 22
    assert os.path.getsize(path) == found.segments.active.size
    assert append(found, b"next").base_offset == 22


def test_a_header_alone_is_cut_off(log: PartitionLog) -> None:
    with open(log.segments.active.path, "ab") as file:
        file.write(bytes(batch(b"torn"))[:61])
    assert crashed(log).log_end_offset == 24


def test_zeros_at_the_end_are_cut_off(log: PartitionLog) -> None:
    with open(log.segments.active.path, "ab") as file:
        file.write(bytes(5000))
    found = crashed(log)
    assert found.log_end_offset == 24
    assert values(found) == values(log)


def test_every_flipped_bit_is_found(log: PartitionLog, tmp_path: Path) -> None:
    segment = log.segments.active
    size = segment.size
    positions = [position for position, _ in segment.headers()]
    log.close(clean=False)
    for at in range(0, size, 3):
        copy = tmp_path / "copy"
        shutil.copytree(log.directory, copy)
        with open(copy / os.path.basename(segment.path), "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x10]))
        found = load_log(PARTITION, str(copy), SETTINGS, log.pool, Known())
        whole = sum(position <= at for position in positions) - 1
        # The base offset and the leader epoch are outside of the checksum: only an offset that
        # goes backwards can be told.
        inside = at - positions[whole]
        if not (inside < 8 or 12 <= inside < 16):
            assert found.log_end_offset == 16 + 2 * whole, at
        found.close(clean=False)
        shutil.rmtree(copy)


def test_damage_in_the_middle_ends_the_log_there(log: PartitionLog) -> None:
    middle = log.segments[1]
    with open(middle.path, "r+b") as file:
        file.seek(middle.size // 2)
        file.write(b"\xff\xff\xff")
    found = crashed(log)
    assert found.segments.bases == [0, 8]
    assert found.log_end_offset == 12
    assert values(found) == values(log, 0, upto=12)


def test_damage_below_the_recovery_point_is_not_looked_for(log: PartitionLog) -> None:
    with open(log.segments[0].path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff")
    assert crashed(log, recovery_point=8).log_end_offset == 24


def test_the_active_segment_is_read_whatever_the_recovery_point(log: PartitionLog) -> None:
    os.truncate(log.segments.active.path, 100)
    assert crashed(log, recovery_point=24).log_end_offset == 16


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd", "backwards"])
def test_a_broken_index_is_rebuilt(log: PartitionLog, kind: str, damage: str) -> None:
    log.close(clean=True)
    path = Path(log.segments[0].path).with_suffix(kind)
    right = path.read_bytes()
    assert right
    if damage == "missing":
        path.unlink()
    elif damage == "odd":
        path.write_bytes(right[:-1])
    else:
        path.write_bytes(right[:-4] + b"\xff" * 4 if kind == ".index" else right[-12:] + right[:12])
    known = Known(clean=True, recovery_point=24)
    found = load_log(PARTITION, log.directory, SETTINGS, log.pool, known)
    assert values(found, 5) == values(log, 5)
    found.high_watermark = 24
    assert offset_for_timestamp(found, T0 + 1) == (1, T0 + 1)


def test_recovery_rebuilds_the_same_indexes(log: PartitionLog) -> None:
    log.close(clean=True)
    kinds = (".index", ".timeindex")
    paths = [Path(s.path).with_suffix(kind) for s in log.segments for kind in kinds]
    right = [path.read_bytes() for path in paths]
    for path in paths:
        path.write_bytes(b"garbage!")
    crashed(log).close(clean=True)
    assert [path.read_bytes() for path in paths] == right


def test_an_index_without_records_is_removed(log: PartitionLog) -> None:
    stray = Path(log.directory) / "00000000000000000099.index"
    stray.write_bytes(b"")
    crashed(log)
    assert not stray.exists()


def test_files_on_their_way_out_are_removed(log: PartitionLog) -> None:
    leftover = Path(log.directory) / "00000000000000000000.log.deleted"
    leftover.write_bytes(b"x")
    scratch = Path(log.directory) / "leader-epoch-checkpoint.tmp"
    scratch.write_bytes(b"x")
    crashed(log)
    assert not leftover.exists()
    assert not scratch.exists()


def test_an_unfinished_cleaning_is_undone(log: PartitionLog) -> None:
    for name in ("00000000000000000000.log.cleaned", "00000000000000000008.log.swap"):
        (Path(log.directory) / name).write_bytes(b"")
    found = crashed(log)
    assert values(found) == values(log)
    assert not [name for name in os.listdir(log.directory) if name.count(".") > 1]


def test_a_decided_cleaning_is_finished(log: PartitionLog) -> None:
    first, second = log.segments[0], log.segments[1]
    swap = Path(log.directory) / "00000000000000000000.log.swap"
    data = Path(first.path).read_bytes() + Path(second.path).read_bytes()
    swap.write_bytes(data)
    expected = values(log)
    found = crashed(log)
    assert found.segments.bases == [0, 16]
    assert Path(first.path).read_bytes() == data
    assert values(found) == expected


def test_an_empty_directory_is_a_new_log(tmp_path: Path, pool: FilePool) -> None:
    (tmp_path / "orders-3").mkdir()
    found = load_log(PARTITION, str(tmp_path / "orders-3"), SETTINGS, pool, Known())
    assert (found.log_start_offset, found.log_end_offset) == (0, 0)
    assert append(found, b"a").base_offset == 0


def test_a_log_that_ends_below_its_start_begins_there_anew(log: PartitionLog) -> None:
    found = crashed(log, log_start=50)
    assert (found.log_start_offset, found.log_end_offset) == (50, 50)
    assert append(found, b"a").base_offset == 50


@pytest.mark.parametrize(("checkpoint", "expected"), [(0, 5), (7, 7), (99, 24)])
def test_the_high_watermark_is_kept_between_start_and_end(
    log: PartitionLog, checkpoint: int, expected: int
) -> None:
    assert crashed(log, log_start=5, high_watermark=checkpoint).high_watermark == expected


@pytest.mark.parametrize("restart", [crashed, stopped])
def test_producers_are_known_again(
    log: PartitionLog,
    restart: type[crashed],  # type: ignore[valid-type]
) -> None:
    for sequence in (0, 2):
        append(log, b"x", b"y", producer_id=9, producer_epoch=1, base_sequence=sequence)
    log.roll()
    append(log, b"x", producer_id=9, producer_epoch=1, base_sequence=4)
    found = restart(log)
    retry = batch(b"x", producer_id=9, producer_epoch=1, base_sequence=4)
    assert try_append(found, retry) == Appended(28, 28, 0, is_duplicate=True)
    assert found.producers.by_id[9].last_sequence == 4


@pytest.mark.parametrize("restart", [crashed, stopped])
def test_transactions_are_known_again(
    log: PartitionLog,
    restart: type[crashed],  # type: ignore[valid-type]
) -> None:
    transaction = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, b"dropped", producer_id=1, **transaction)
    append(log, b"open", producer_id=2, **transaction)
    marker = encode_control_batch(
        ControlKind.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=3, timestamp=T0
    )
    try_append(log, memoryview(bytearray(marker)), from_client=False)
    log.advance_high_watermark(log.log_end_offset)
    found = restart(log)
    found.advance_high_watermark(found.log_end_offset)
    assert found.last_stable_offset == 25
    assert found.aborted_transactions(0, 100) == [(1, 24, 26, 25)]


def test_a_broken_snapshot_is_passed_over(log: PartitionLog) -> None:
    append(log, b"x", producer_id=9, producer_epoch=1, base_sequence=0)
    log.close(clean=True)
    newest = Path(log.directory) / "00000000000000000025.snapshot"
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    known = Known(clean=True, recovery_point=25)
    found = load_log(PARTITION, log.directory, SETTINGS, log.pool, known)
    assert found.producers.by_id[9].last_sequence == 0
    assert not newest.exists()
