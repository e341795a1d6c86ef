"""Many logs that go to the disk together, and what is there when that is cut short."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import uuid
from pathlib import Path

import pytest

from klamm.log.directory import LogDirectory
from klamm.log.disk import names
from klamm.log.disk.filesystem import FileSystem
from klamm.log.partition import LogDirectoryFailed
from klamm.log.settings import LogSettings
from klamm.model.names import TopicPartition
from unit.log.helpers import append, values

CLUSTER = "c" * 22
MANY = 64  # enough to be synced as one
IDS = uuid.UUID(int=0x1234)


def open_directory(path: Path) -> LogDirectory:
    return LogDirectory.open(path, 1, CLUSTER)


def fill(directory: LogDirectory, count: int = MANY) -> None:
    """Logs with two epochs and a producer each."""
    for number in range(count):
        log = directory.create(TopicPartition("t", number), IDS, LogSettings())
        append(log, b"first", epoch=1)
        append(log, b"second", epoch=2, producer_id=number, producer_epoch=0, base_sequence=0)


def check(directory: LogDirectory, count: int = MANY) -> None:
    assert len(directory) == count
    for number in range(count):
        log = directory.get(TopicPartition("t", number))
        assert log is not None
        assert values(log) == [b"first", b"second"]
        assert log.epochs.entries == ((1, 0), (2, 1))
        assert log.producers.by_id.keys() == {number}
        assert log.topic_id == IDS


def refuse_syncs(directory: LogDirectory) -> None:
    """Let the descriptor that is synced be one that cannot be."""
    file_system = directory._file_system
    assert file_system is not None
    path = os.open(directory.path, os.O_PATH)
    os.dup2(path, file_system._fd)
    os.close(path)


def needs_sync_of_all(path: Path) -> None:
    file_system = FileSystem(str(path))
    if not file_system.can_sync:
        pytest.skip("this file system is not trusted with that")
    file_system.close()


def test_what_was_closed_together_is_opened_without_recovery(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    fill(directory)
    directory.close()
    assert not list(tmp_path.glob("*/*.tmp"))
    directory = open_directory(tmp_path)
    assert len(directory.pool) == 0, "nothing was read"
    assert all(log.recovery_point == 2 for log in directory)
    check(directory)
    directory.close(clean=False)


def crash_in_close(path: Path, fatal: int) -> int:
    """Close a directory in a process that dies at its n-th file; how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        directory = open_directory(path)
        fill(directory)
        count = 0

        def crash(event: str, arguments: object) -> None:
            nonlocal count
            count += event in ("open", "os.rename", "os.truncate")
            if count == fatal:
                os._exit(9)

        sys.addaudithook(crash)
        directory.close()
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing else
def test_a_crash_while_many_logs_are_closed_costs_a_recovery(tmp_path: Path) -> None:
    died, fatal = 9, 0
    while died == 9:
        fatal += 97
        path = tmp_path / "data"
        died = crash_in_close(path, fatal)
        directory = open_directory(path)
        check(directory)
        directory.close(clean=False)
        shutil.rmtree(path)
    assert died == 0
    assert fatal > 200, "there were crash points"


def test_a_disk_that_fails_when_many_logs_are_closed_leaves_no_marker(tmp_path: Path) -> None:
    needs_sync_of_all(tmp_path)
    directory = open_directory(tmp_path)
    fill(directory)
    refuse_syncs(directory)
    directory.close()
    assert directory.failure is not None
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()
    directory = open_directory(tmp_path)
    check(directory)
    directory.close(clean=False)


@pytest.mark.parametrize("count", [1, MANY])
def test_new_logs_are_made_known_to_the_disk(tmp_path: Path, count: int) -> None:
    directory = open_directory(tmp_path)
    fill(directory, count)
    assert not any(log.durability.home_synced for log in directory)
    directory.sync_new(directory.take_new())
    assert all(log.durability.home_synced for log in directory)
    assert not directory.take_new()
    directory.close(clean=False)


def test_a_disk_that_does_not_take_new_logs_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    directory = open_directory(tmp_path)
    fill(directory)
    monkeypatch.setattr("klamm.log.directory.sync_directory", refuse)
    with pytest.raises(LogDirectoryFailed):
        directory.sync_new(directory.take_new())
    assert not directory.is_online
    directory.close()
