"""A directory of logs: whose it is, what it remembers, how it comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.log.directory import LogDirectory
from klamm.log.disk import names
from klamm.log.disk.checkpoints import read_offsets
from klamm.log.disk.failure import LogDirectoryFailed
from klamm.log.lookup import finish
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition, id_text
from unit.log.helpers import T0, append, values

CLUSTER = "a" * 22
ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills.open-ones", 12)
TOPIC_ID = uuid.UUID(int=0x1234)
SMALL = LogSettings(segment_bytes=400)


def open_directory(path: Path, **options: object) -> LogDirectory:
    options.setdefault("settings_for", lambda topic: SMALL)
    return LogDirectory.open(path, 1, CLUSTER, **options)  # type: ignore[arg-type]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = open_directory(tmp_path / "data")
    yield directory
    directory.close(clean=False)


def fill(directory: LogDirectory, partition: TopicPartition = ORDERS, count: int = 10) -> None:
    log = directory.create(partition, TOPIC_ID, SMALL)
    for number in range(count):
        append(log, b"%d" % number * 60, epoch=number // 4)
    log.advance_high_watermark(count - 1)


def the(directory: LogDirectory, partition: TopicPartition) -> PartitionLog:
    log = directory.get(partition)
    assert log is not None, partition
    return log


def again(directory: LogDirectory, *, clean: bool, **options: object) -> LogDirectory:
    directory.close(clean=clean)
    return open_directory(Path(directory.path), **options)


def test_a_directory_belongs_to_one_broker_of_one_cluster(tmp_path: Path) -> None:
    open_directory(tmp_path).close()
    text = (tmp_path / "meta.properties").read_text()
    assert "broker.id=1\n" in text
    assert f"cluster.id={CLUSTER}\n" in text
    with pytest.raises(UsageError, match="belongs to broker 1, not to broker 2"):
        LogDirectory.open(tmp_path, 2, CLUSTER)
    with pytest.raises(UsageError, match="belongs to cluster"):
        LogDirectory.open(tmp_path, 1, "b" * 22)


def test_a_directory_has_one_user_in_one_process(directory: LogDirectory) -> None:
    with pytest.raises(UsageError, match="in use by another broker of this process"):
        open_directory(Path(directory.path))


def test_a_directory_has_one_user_among_processes(directory: LogDirectory) -> None:
    code = (
        "import sys; from klamm.log.directory import LogDirectory\n"
        f"LogDirectory.open({directory.path!r}, 1, {CLUSTER!r})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "in use by another process" in ran.stderr


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart(directory: LogDirectory, clean: bool) -> None:
    fill(directory)
    fill(directory, BILLS, 3)
    before = directory.get(ORDERS)
    assert before is not None
    expected = (values(before), before.epochs.entries, before.segments.bases)
    directory.checkpoint_high_watermarks()
    directory = again(directory, clean=clean)
    log = directory.get(ORDERS)
    assert log is not None
    assert (values(log), log.epochs.entries, log.segments.bases) == expected
    assert (log.log_end_offset, log.high_watermark, log.topic_id) == (10, 9, TOPIC_ID)
    assert log.recovery_point == (10 if clean else 0)
    assert append(log, b"more").base_offset == 10
    assert len(directory) == 2
    directory.close(clean=False)


def test_the_marker_of_a_clean_stop_is_used_once(directory: LogDirectory) -> None:
    marker = Path(directory.path) / ".kafka_cleanshutdown"
    directory.close(broker_epoch=77)
    assert marker.read_text() == '{"version":0,"brokerEpoch":77}'
    open_directory(Path(directory.path)).close(clean=False)
    assert not marker.exists()


def test_a_clean_start_opens_no_file_of_a_log(directory: LogDirectory) -> None:
    fill(directory)
    directory = again(directory, clean=True)
    assert len(directory.pool) == 0
    directory.close(clean=False)


def test_a_second_clean_stop_without_appends_keeps_everything(directory: LogDirectory) -> None:
    fill(directory)
    directory = again(directory, clean=True)
    directory = again(directory, clean=True)
    log = directory.get(ORDERS)
    assert log is not None
    assert len(values(log)) == 10
    directory.close(clean=False)


def test_files_of_the_layout(directory: LogDirectory) -> None:
    fill(directory, count=4)
    directory.close()
    found = sorted(os.listdir(Path(directory.path) / "orders-0"))
    assert found == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000003.index",
        "00000000000000000003.log",
        "00000000000000000003.snapshot",
        "00000000000000000003.timeindex",
        "00000000000000000004.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    metadata = Path(directory.path) / "orders-0" / "partition.metadata"
    assert metadata.read_text() == f"version: 0\ntopic_id: {id_text(TOPIC_ID)}"
    assert (Path(directory.path) / names.RECOVERY_POINTS).read_text() == "0\n1\norders 0 4\n"


def test_a_deleted_log_is_renamed_at_once_and_removed_when_due(tmp_path: Path) -> None:
    directory = open_directory(tmp_path, delete_delay_ms=60_000)
    fill(directory)
    fill(directory, BILLS)
    directory.schedule_delete([ORDERS], now_ms=T0)
    assert directory.get(ORDERS) is None
    (aside,) = [name for name in os.listdir(tmp_path) if name.endswith("-delete")]
    assert len(aside) == len("orders-0.") + 32 + len("-delete")
    directory.flush_due(T0)
    assert read_offsets(str(tmp_path / names.RECOVERY_POINTS)).keys() == {BILLS}
    assert directory.next_purge_ms() == T0 + 60_000
    assert directory.purge_due(T0 + 59_999) == 0
    assert (tmp_path / aside).exists()
    assert directory.purge_due(T0 + 60_000) == 1
    assert not (tmp_path / aside).exists()
    directory.close()


def test_a_deletion_goes_on_after_a_restart(directory: LogDirectory) -> None:
    fill(directory)
    directory.schedule_delete([ORDERS], now_ms=T0)
    directory = again(directory, clean=False, now_ms=T0 + 5)
    assert directory.get(ORDERS) is None
    assert directory.purge_due(T0 + 60_004) == 0
    assert directory.purge_due(T0 + 60_005) == 1
    directory.close()


def test_the_name_of_a_deleted_log_fits_a_file_system(directory: LogDirectory) -> None:
    long = TopicPartition("t" * 249, 100)
    fill(directory, long, 1)
    directory.schedule_delete([long])
    assert [len(name) for name in os.listdir(directory.path) if name.startswith("tt")] == [255]


def test_a_topic_may_come_back_while_its_last_life_is_being_removed(
    directory: LogDirectory,
) -> None:
    fill(directory)
    directory.schedule_delete([ORDERS])
    fill(directory, count=2)
    log = directory.get(ORDERS)
    assert log is not None
    assert log.log_end_offset == 2


def test_a_stray_log_is_kept_but_not_loaded(directory: LogDirectory) -> None:
    fill(directory)
    directory.set_aside(ORDERS)
    directory = again(directory, clean=False)
    assert len(directory) == 0
    assert directory.purge_due(T0 * 2) == 0
    assert any(name.endswith("-stray") for name in os.listdir(directory.path))
    directory.close()


def test_a_failing_write_takes_the_directory_offline(tmp_path: Path) -> None:
    told: list[LogDirectory] = []
    directory = open_directory(tmp_path, on_offline=told.append)
    fill(directory, count=1)
    fill(directory, BILLS, count=1)
    log, other = directory.get(ORDERS), directory.get(BILLS)
    assert log is not None
    assert other is not None
    _break_file(log.segments.active.handle().fileno())
    with pytest.raises(LogDirectoryFailed):
        append(log, b"lost")
    assert log.log_end_offset == 1
    assert not directory.is_online
    with pytest.raises(LogDirectoryFailed):
        append(other, b"refused")
    with pytest.raises(LogDirectoryFailed):
        directory.checkpoint()
    assert told == [directory]
    directory.close()
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()


def test_a_failed_fsync_is_not_tried_again(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    fill(directory, count=1)
    log = directory.get(ORDERS)
    assert log is not None
    _break_file(log.segments.active.handle().fileno())
    with pytest.raises(LogDirectoryFailed):
        log.flush()
    directory.pool.clear()  # a fresh descriptor could be flushed: it must not be
    with pytest.raises(LogDirectoryFailed):
        log.flush()
    assert log.recovery_point == 0
    directory.close()


def test_a_disk_that_fails_at_the_end_leaves_no_marker(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    fill(directory, count=1)
    log = directory.get(ORDERS)
    assert log is not None
    _break_file(log.segments.active.handle().fileno())
    directory.close()
    assert directory.failure is not None
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()


def _break_file(fd: int) -> None:
    """Let a descriptor lead to a closed pipe, where neither writing nor flushing can work."""
    reader, writer = os.pipe()
    os.dup2(writer, fd)
    os.close(reader)
    os.close(writer)


def test_flushing_is_due_when_a_segment_was_closed_or_time_has_passed(tmp_path: Path) -> None:
    slow = LogSettings(segment_bytes=400, flush_ms=1000)
    directory = open_directory(tmp_path, settings_for=lambda topic: slow)
    log = directory.create(ORDERS, TOPIC_ID, slow)
    assert directory.flush_due(T0) == 0
    append(log, b"x" * 200)
    assert directory.flush_due(T0 + 999) == 0
    assert directory.flush_due(T0 + 1000) == 1
    assert log.recovery_point == 1
    append(log, b"x" * 200)
    append(log, b"x" * 200)
    assert directory.flush_due(T0 + 1001) == 1
    assert log.recovery_point == 3
    directory.close()


def test_flush_messages_counts_records(tmp_path: Path) -> None:
    eager = LogSettings(flush_messages=3)
    directory = open_directory(tmp_path)
    log = directory.create(ORDERS, TOPIC_ID, eager)
    append(log, b"a", b"b")
    assert log.recovery_point == 0
    append(log, b"c")
    assert log.recovery_point == 3
    directory.close()


def test_the_log_start_survives(directory: LogDirectory) -> None:
    fill(directory)
    log = directory.get(ORDERS)
    assert log is not None
    assert log.advance_log_start(5)
    directory = again(directory, clean=True)
    log = directory.get(ORDERS)
    assert log is not None
    assert log.log_start_offset == 5
    assert len(values(log)) == 5
    directory.close()


def segment_file(directory: LogDirectory, base: int) -> Path:
    return Path(directory.path) / "orders-0" / f"{base:020d}.log"


def test_a_log_that_was_cut_after_a_clean_stop_is_told_of(directory: LogDirectory) -> None:
    fill(directory)
    directory.close()
    last = max(Path(directory.path).glob("orders-0/*.log"))
    os.truncate(last, os.path.getsize(last) // 2)
    directory = open_directory(Path(directory.path))
    log = directory.get(ORDERS)
    assert log is not None
    assert log.damage is not None
    assert (log.damage.at_rest, log.damage.log_end) == (True, log.log_end_offset)
    assert log.log_end_offset + log.damage.missing == 10
    assert len(values(log)) == log.log_end_offset < 10
    assert directory.missing == {ORDERS: 10}
    directory.close(clean=False)


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_hole_ends_a_log_and_what_lies_behind_is_kept(
    directory: LogDirectory, is_removed: bool
) -> None:
    fill(directory)
    log = directory.get(ORDERS)
    assert log is not None
    hole, behind = log.segments.bases[1:3]
    (_, header), *_ = log.segments[1].headers()
    directory.close()
    if is_removed:
        segment_file(directory, hole).unlink()
    else:
        os.truncate(segment_file(directory, hole), header.size)
    directory = open_directory(Path(directory.path))
    log = directory.get(ORDERS)
    assert log is not None
    assert log.log_end_offset == (hole if is_removed else header.last_offset + 1)
    assert len(values(log)) == log.log_end_offset
    assert directory.missing == {ORDERS: 10}
    assert Path(f"{segment_file(directory, behind)}.lost").exists()
    assert append(log, b"next").base_offset == log.log_end_offset - 1
    directory = again(directory, clean=False)
    assert directory.get(ORDERS) is not None
    directory.close(clean=False)


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_missed_is_not_forgotten_by_a_restart(directory: LogDirectory, clean: bool) -> None:
    fill(directory)
    fill(directory, BILLS)
    directory.close()
    segment_file(directory, 0).unlink()
    shutil.rmtree(Path(directory.path) / str(BILLS))
    directory = open_directory(Path(directory.path))
    assert directory.missing == {ORDERS: 10, BILLS: 10}
    directory = again(directory, clean=clean)
    assert directory.missing == {ORDERS: 10, BILLS: 10}
    directory.made_up_for(BILLS)
    directory.flush_due(0)
    directory = again(directory, clean=clean)
    assert directory.missing == {ORDERS: 10}
    directory.close(clean=False)


def test_what_was_deleted_or_set_aside_is_not_missed(directory: LogDirectory) -> None:
    fill(directory)
    fill(directory, BILLS)
    directory.checkpoint()
    directory.schedule_delete([ORDERS])
    directory.set_aside(BILLS)
    directory = again(directory, clean=False)
    assert directory.missing == {}
    directory.close(clean=False)


def test_what_another_kind_of_broker_left_is_taken_on_trust(directory: LogDirectory) -> None:
    fill(directory)
    directory.close(broker_epoch=7)
    marker = Path(directory.path) / names.CLEAN_SHUTDOWN
    marker.write_text('{"version":0,"brokerEpoch":8}')
    last = max(Path(directory.path).glob("orders-0/*.log"))
    with last.open("ab") as file:
        file.write(b"x")
    directory = open_directory(Path(directory.path))
    log = directory.get(ORDERS)
    assert log is not None
    assert log.damage is None
    directory.close(clean=False)


def test_a_name_with_a_strange_suffix_is_left_alone(directory: LogDirectory) -> None:
    fill(directory)
    copy = Path(f"{segment_file(directory, 0)}.bak")
    copy.write_text("an operator's")
    directory = again(directory, clean=False)
    assert copy.read_text() == "an operator's"
    directory.close(clean=False)


def test_many_small_logs_are_left_bare_and_come_back_whole(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "data")
    partitions = [TopicPartition(f"t{number}", 0) for number in range(64)]
    for partition in partitions:
        log = directory.create(partition, uuid.uuid4(), LogSettings())
        append(log, b"a", b"b", epoch=3)
        append(log, b"c", epoch=3, timestamp=T0 + 7)
        log.advance_high_watermark(3)
    second = directory.create(ORDERS, TOPIC_ID, LogSettings())
    append(second, b"x", epoch=1)
    append(second, b"y", epoch=2)
    third = directory.create(BILLS, TOPIC_ID, LogSettings())
    append(third, b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    for _ in range(2):
        directory = again(directory, clean=True)
        home = tmp_path / "data"
        assert {path.suffix for path in (home / "t0-0").iterdir()} == {".log", ".metadata"}
        assert (home / "orders-0" / "leader-epoch-checkpoint").exists(), "two epochs are told"
        assert list((home / str(BILLS)).glob("*.snapshot")), "a producer is remembered"
        for partition in partitions:
            log = the(directory, partition)
            assert log.damage is None
            assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (3, 3, 3)
            assert log.epochs.entries == ((3, 0),)
            assert values(log) == [b"a", b"b", b"c"]
            found = finish(log.search_timestamp(T0 + 7, 3), 1 << 20)
            assert found is not None
            assert found.offset == 2
    append(the(directory, partitions[0]), b"d", epoch=4)
    directory = again(directory, clean=True)
    assert the(directory, partitions[0]).epochs.entries == ((3, 0), (4, 3))
    assert values(the(directory, partitions[0])) == [b"a", b"b", b"c", b"d"]
    directory.close(clean=False)


def test_a_bare_log_that_was_changed_at_rest_is_told(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "data")
    for number in range(64):
        log = directory.create(TopicPartition(f"t{number}", 0), uuid.uuid4(), LogSettings())
        append(log, b"a")
        append(log, b"b")
    directory.close(clean=True)
    file = tmp_path / "data" / "t5-0" / f"{0:020}.log"
    content = bytearray(file.read_bytes())
    content[-1] ^= 0xFF
    file.write_bytes(content)
    directory = open_directory(tmp_path / "data")
    damage = the(directory, TopicPartition("t5", 0)).damage
    assert damage is not None
    assert (damage.missing, damage.at_rest) == (1, True)
    assert the(directory, TopicPartition("t6", 0)).damage is None
    directory.close(clean=False)
