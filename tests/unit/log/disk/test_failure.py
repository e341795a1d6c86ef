"""What is the disk's fault, and what is only a shortage of descriptors or memory."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.log.cleaning import cleaner
from klamm.log.directory import LogDirectory
from klamm.log.disk.failure import (
    DirectoryUnusable,
    Health,
    LogDirectoryFailed,
    LogRefused,
    StorageShortage,
)
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from leading import offset_for_timestamp
from unit.log.helpers import append, batch, try_append, values

CLUSTER = "a" * 22
ORDERS = TopicPartition("orders", 0)
SMALL = LogSettings(segment_bytes=400)
COMPACTED = LogSettings(segment_bytes=400, compact=True)


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Let no file be opened; those that are open stay so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(tmp_path, 1, CLUSTER, settings_for=lambda _: SMALL)
    yield directory
    directory.close(clean=False)


def filled(directory: LogDirectory, settings: LogSettings = SMALL) -> PartitionLog:
    log = directory.create(ORDERS, uuid.UUID(int=5), settings)
    for number in range(10):
        append(log, b"%d" % number * 60, keys=[b"%d" % (number % 3)], epoch=number // 4)
    log.advance_high_watermark(10)
    return log


def shortage(directory: LogDirectory, work: Callable[[], object]) -> None:
    """Do this with nothing to open files with: it is refused, and that is all."""
    directory.pool.clear()
    with no_descriptors(), pytest.raises(StorageShortage):
        work()
    assert directory.is_online


@pytest.mark.parametrize(
    "code", ["EMFILE", "ENFILE", "ENOMEM", "ENAMETOOLONG", "EINTR", "EAGAIN", "ENOBUFS"]
)
def test_a_shortage_is_not_the_disks_fault(code: str) -> None:
    health = Health("here")
    raised = health.failed(OSError(getattr(errno, code), "no"))
    assert isinstance(raised, StorageShortage)
    health.check()


@pytest.mark.parametrize("code", ["EIO", "ENOSPC", "EROFS", "EDQUOT", "ENOENT", "ENODEV"])
def test_what_a_disk_says_ends_its_use(code: str) -> None:
    health = Health("here")
    assert isinstance(health.failed(OSError(getattr(errno, code), "no")), LogDirectoryFailed)
    with pytest.raises(LogDirectoryFailed):
        health.check()


def test_checkpoints_are_written_later(directory: LogDirectory) -> None:
    filled(directory)
    shortage(directory, directory.checkpoint)
    shortage(directory, directory.checkpoint_high_watermarks)
    directory.checkpoint()


def test_checkpoints_forget_what_was_deleted_later(directory: LogDirectory) -> None:
    filled(directory)
    directory.checkpoint()
    directory.schedule_delete([ORDERS])
    shortage(directory, lambda: directory.flush_due(0))
    directory.flush_due(0)
    text = Path(directory.path, "recovery-point-offset-checkpoint").read_text()
    assert "orders" not in text


def test_an_append_is_all_or_nothing(directory: LogDirectory) -> None:
    log = filled(directory)
    before = values(log)
    shortage(directory, lambda: try_append(log, batch(b"lost" * 20)))
    assert (log.log_end_offset, values(log)) == (10, before)
    assert append(log, b"kept").base_offset == 10
    assert values(log) == [*before, b"kept"]


def test_a_segment_is_rolled_later(directory: LogDirectory) -> None:
    log = filled(directory)
    before = values(log)
    shortage(directory, log.roll)
    append(log, b"kept" * 50)
    log.roll()
    append(log, b"more")
    assert values(log) == [*before, b"kept" * 50, b"more"]


def test_records_are_taken_back_later(directory: LogDirectory) -> None:
    log = filled(directory)
    before = values(log)
    shortage(directory, lambda: log.truncate_to(2))
    assert (log.log_end_offset, values(log)) == (10, before)
    assert log.truncate_to(2) == 2
    assert values(log) == before[:2]


def test_a_log_begins_anew_later(directory: LogDirectory) -> None:
    log = filled(directory)
    before = values(log)
    shortage(directory, lambda: log.restart_at(70))
    assert (log.log_end_offset, values(log)) == (10, before)
    log.restart_at(70)
    append(log, b"new")
    assert (log.log_start_offset, values(log)) == (70, [b"new"])


def test_a_flush_is_done_later(directory: LogDirectory) -> None:
    log = filled(directory)
    shortage(directory, log.flush)
    assert log.recovery_point == 0
    assert log.epochs.is_dirty
    log.flush()
    assert log.recovery_point == 10


def test_a_log_is_made_later(directory: LogDirectory) -> None:
    shortage(directory, lambda: filled(directory))
    assert not Path(directory.path, "orders-0").exists()
    assert len(values(filled(directory))) == 10


def test_a_new_log_is_synced_later(directory: LogDirectory) -> None:
    log = filled(directory)
    born = directory.take_new()
    shortage(directory, lambda: directory.sync_new(born))
    directory.not_synced(born)
    assert directory.take_new() == [log]


def test_a_log_is_compacted_later(directory: LogDirectory) -> None:
    log = filled(directory, COMPACTED)
    plan = cleaner.plan(log, 1 << 60)
    assert plan is not None
    shortage(directory, lambda: cleaner.build(plan))
    cleaned = cleaner.build(plan)
    assert cleaned is not None
    before = values(log)
    shortage(directory, lambda: cleaner.install(plan, cleaned))
    assert values(log) == before
    assert not [name for name in os.listdir(log.directory) if name.endswith(".swap")]
    assert cleaner.clean(log, 1 << 60)
    assert values(log) != before


def test_a_read_is_answered_later(directory: LogDirectory) -> None:
    log = filled(directory)
    for segment in log.segments:
        segment.seal()
    shortage(directory, lambda: log.read(3, max_bytes=100))
    shortage(directory, lambda: offset_for_timestamp(log, 1))
    assert len(values(log)) == 10


def test_a_directory_is_not_given_up_for_want_of_descriptors(directory: LogDirectory) -> None:
    directory.close()
    with no_descriptors(), pytest.raises(UsageError, match="ulimit -n") as raised:
        LogDirectory.open(directory.path, 1, CLUSTER)
    assert not isinstance(raised.value, DirectoryUnusable)


@pytest.mark.parametrize(
    "partition",
    [("/etc/precious", 7), ("../t", 0), ("a/b", 0), ("", 0), ("a" * 400, 0), ("t", -3)],
)
def test_no_log_is_made_elsewhere(directory: LogDirectory, partition: tuple[str, int]) -> None:
    with pytest.raises(LogRefused, match="no log can be made"):
        directory.create(TopicPartition(*partition), None, SMALL)
    assert directory.is_online
    assert len(directory) == 0


@pytest.mark.parametrize("name", ["orders-0", "please-do-not-delete", f"a-0.{'0' * 32}-delete"])
def test_what_somebody_else_put_there_stays(directory: LogDirectory, name: str) -> None:
    foreign = Path(directory.path, name)
    foreign.mkdir()
    (foreign / "letters.txt").write_text("dear")
    directory.close()
    again = LogDirectory.open(directory.path, 1, CLUSTER, delete_delay_ms=0)
    assert len(again) == 0
    assert again.not_logs == ([] if name.startswith("please") else [str(foreign)])
    again.purge_due(1 << 60)
    again.close()
    assert (foreign / "letters.txt").read_text() == "dear"


def test_a_file_in_the_place_of_a_log_is_not_the_disks_fault(directory: LogDirectory) -> None:
    Path(directory.path, "orders-0").write_text("a note")
    with pytest.raises(LogRefused, match="is no directory"):
        filled(directory)
    assert directory.is_online


def test_what_lies_in_a_deleted_log_and_is_not_its_own_stays(directory: LogDirectory) -> None:
    log = filled(directory)
    (Path(log.directory) / "letters.txt").write_text("dear")
    directory.schedule_delete([ORDERS])
    directory.purge_due(1 << 60)
    (left,) = Path(directory.path).glob("orders-0.*-delete/*")
    assert left.read_text() == "dear"
