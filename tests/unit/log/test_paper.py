"""Logs on paper: what they cost, how they begin, and what is left of them at any point."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.datadir import count_logs
from klamm.log.directory import LogDirectory
from klamm.log.disk import names
from klamm.log.disk.checkpoints import read_topic_id
from klamm.log.disk.failure import LogDirectoryFailed
from klamm.log.disk.register import Entry, Register, read_register
from klamm.log.paper import NewLog
from klamm.log.partition import PartitionLog
from klamm.log.recovery.survey import survey
from klamm.log.settings import LogSettings
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from unit.log.helpers import T0, append, values

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 7)
ID = uuid.UUID(int=0x1234)
LATER = uuid.UUID(int=0x5678)
SETTINGS = LogSettings(segment_bytes=400)


def open_directory(path: Path) -> LogDirectory:
    return LogDirectory.open(path, 1, "c" * 22, settings_for=lambda _: SETTINGS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def directory(home: Path) -> Iterator[LogDirectory]:
    directory = open_directory(home)
    yield directory
    directory.close(clean=False)


def create(directory: LogDirectory, *partitions: TopicPartition, id: uuid.UUID = ID) -> None:
    directory.put_on_paper([NewLog(each, id, SETTINGS) for each in partitions])
    directory.sync_new(directory.take_new())


def again(directory: LogDirectory, *, clean: bool = False) -> LogDirectory:
    directory.close(clean=clean)
    return open_directory(Path(directory.path))


def log_of(directory: LogDirectory, partition: TopicPartition = ORDERS) -> PartitionLog:
    log = directory.get(partition)
    assert log is not None
    return log


def registered(home: Path) -> dict[TopicPartition, Entry]:
    return read_register(str(home / names.REGISTER))


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_without_a_record_is_a_line_and_outlives_every_stop(
    directory: LogDirectory, home: Path, clean: bool
) -> None:
    create(directory, ORDERS, BILLS)
    directory = again(directory, clean=clean)
    assert not [name for name in os.listdir(home) if names.parse_partition(name)]
    for partition in (ORDERS, BILLS):
        log = log_of(directory, partition)
        assert (log.is_on_paper, log.topic_id, log.log_end_offset, log.size_bytes) == (
            (True, ID, 0, 0)
        )
        assert values(log) == []
    assert not directory.missing
    directory.close()


def test_a_thousand_new_logs_are_one_write_and_one_sync(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(directory, BILLS)
    calls: list[str] = []
    for name in ("open", "mkdir", "pwrite", "fsync"):
        real = getattr(os, name)

        def watched(*args: object, name: str = name, real: object = real) -> object:
            calls.append(name)
            return real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, watched)
    create(directory, *(TopicPartition("orders", number) for number in range(1000)))
    assert calls == ["pwrite", "fsync"]


def test_few_new_logs_have_directories_and_two_syncs(
    directory: LogDirectory, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(directory, BILLS)
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    directory.put_on_paper([NewLog(ORDERS, ID, SETTINGS)])
    directory.begin([ORDERS])
    directory.sync_new(directory.take_new(), remember=True)
    # In this order: a line that tells of a directory must not outlive it.
    assert synced == [str(home), str(home / names.REGISTER)]
    monkeypatch.undo()
    # A loss of power: of what was not synced nothing is left.
    for file in (home / str(ORDERS)).iterdir():
        file.unlink()
    directory = again(directory)
    log = log_of(directory)
    assert (log.is_on_paper, log.topic_id, log.log_end_offset) == (False, ID, 0)
    assert not directory.missing
    append(log, b"first")
    directory.flush_due(T0)
    directory.checkpoint()
    assert read_topic_id(log.metadata_path) == ID
    assert registered(home) == {BILLS: Entry(ID)}
    directory = again(directory)
    assert values(log_of(directory)) == [b"first"]
    directory.close()


def test_the_first_record_makes_the_files_and_the_id_follows(
    directory: LogDirectory, home: Path
) -> None:
    create(directory, ORDERS)
    log = log_of(directory)
    append(log, b"first")
    assert type(log) is PartitionLog
    assert registered(home) == {ORDERS: Entry(ID, is_begun=True)}
    directory.flush_due(T0)
    assert read_topic_id(log.metadata_path) == ID
    directory.checkpoint()
    assert log.durability.home_synced
    assert registered(home) == {}
    directory = again(directory)
    assert values(log_of(directory)) == [b"first"]
    directory.close()


def test_a_follower_that_begins_elsewhere_has_files(directory: LogDirectory) -> None:
    create(directory, ORDERS, BILLS)
    log_of(directory).restart_at(5)
    log_of(directory, BILLS).skip_to(7)
    directory = again(directory)
    assert log_of(directory).log_end_offset == 5
    assert log_of(directory, BILLS).log_end_offset == 7
    directory.close()


def test_beginning_anew_at_nothing_needs_no_files(directory: LogDirectory) -> None:
    create(directory, ORDERS)
    log = log_of(directory)
    log.epochs.assign(3, 0)
    log.restart_at(0)
    assert log.is_on_paper
    assert not log.epochs.entries


def test_a_record_that_comes_before_the_register_is_synced_is_kept(
    directory: LogDirectory,
) -> None:
    directory.put_on_paper([NewLog(ORDERS, ID, SETTINGS)])
    append(log_of(directory), b"early")
    directory.sync_new(directory.take_new())
    directory = again(directory)
    assert values(log_of(directory)) == [b"early"]
    assert log_of(directory).topic_id == ID
    directory.close()


def test_a_deleted_log_leaves_the_register(directory: LogDirectory, home: Path) -> None:
    create(directory, ORDERS, BILLS)
    directory.schedule_delete([ORDERS], T0)
    directory.set_aside(BILLS)
    assert registered(home) == {}
    assert not [name for name in os.listdir(home) if names.parse_aside(name)]
    directory = again(directory)
    assert len(directory) == 0
    directory.close()


def test_a_later_topic_of_the_name_has_its_own_line(directory: LogDirectory, home: Path) -> None:
    create(directory, ORDERS)
    append(log_of(directory), b"of the first life")
    directory.flush_due(T0)
    directory.schedule_delete([ORDERS], T0)
    create(directory, ORDERS, id=LATER)
    directory.checkpoint()
    assert registered(home) == {ORDERS: Entry(LATER)}
    directory = again(directory)
    assert (log_of(directory).topic_id, log_of(directory).log_end_offset) == (LATER, 0)
    assert not directory.missing
    directory.close()


def test_bringing_it_to_the_disk_does_not_strike_out_a_successor(
    directory: LogDirectory, home: Path
) -> None:
    """The log is deleted and made anew while a worker brings its first life to the disk."""
    create(directory, ORDERS)
    append(log_of(directory), b"of the first life")
    assert directory._file_system is not None
    begun = directory._papers.bring_to_disk(directory._file_system)
    directory.schedule_delete([ORDERS], T0)
    create(directory, ORDERS, id=LATER)
    directory._papers.strike_begun(begun, directory)
    assert registered(home) == {ORDERS: Entry(LATER)}


def test_a_directory_that_is_gone_is_missed(directory: LogDirectory, home: Path) -> None:
    create(directory, ORDERS, BILLS)
    append(log_of(directory), b"lost")
    directory.close(clean=False)
    shutil.rmtree(home / str(ORDERS))
    directory = open_directory(home)
    assert directory.missing == {ORDERS: 1}
    assert not directory.has_whole(ORDERS)
    assert directory.has_whole(BILLS)
    directory.close()


def test_what_lies_in_the_way_of_the_first_record_is_kept(
    directory: LogDirectory, home: Path
) -> None:
    create(directory, ORDERS)
    (home / str(ORDERS)).mkdir()
    (home / str(ORDERS) / "letter").write_text("dear")
    append(log_of(directory), b"first")
    assert values(log_of(directory)) == [b"first"]
    (aside,) = home.glob("orders-0.*-stray")
    assert (aside / "letter").read_text() == "dear"


def test_an_id_that_comes_later_is_written_down(directory: LogDirectory) -> None:
    directory.create(ORDERS, None, SETTINGS)
    log_of(directory).set_topic_id(ID)
    directory = again(directory)
    assert log_of(directory).topic_id == ID
    directory.close()


def test_a_full_disk_takes_the_directory_offline(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: len(data) // 2)
    with pytest.raises(LogDirectoryFailed, match="No space left"):
        directory.create(ORDERS, ID, SETTINGS)
    assert not directory.is_online


def test_a_log_that_cannot_begin_now_is_on_paper_still(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(directory, ORDERS)

    def short(path: str, mode: int = 0) -> None:
        raise OSError(errno.EMFILE, "short of something")

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", short)
        with pytest.raises(Exception, match="for now"):
            append(log_of(directory), b"refused")
    assert log_of(directory).is_on_paper
    append(log_of(directory), b"taken")
    assert values(log_of(directory)) == [b"taken"]


def test_others_who_look_at_the_directory_see_logs_on_paper(
    directory: LogDirectory, home: Path
) -> None:
    create(directory, ORDERS, BILLS)
    append(log_of(directory), b"first")
    directory.close(clean=False)
    found = survey(str(home))
    assert found is not None
    told = {log.partition: (log.topic_id, log.end) for log in found.logs}
    assert told == {ORDERS: (ID, 1), BILLS: (ID, 0)}
    assert count_logs([home]) == 2


# The register itself


@pytest.mark.parametrize("damage", [b"\0" * 40, b"1 20 00000000\n", b"1 5 ", b"\xff\n", b"x"])
def test_a_torn_end_of_the_register_is_cut_off(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / names.REGISTER
    register = Register(str(path))
    register.add([(ORDERS, ID)])
    register.close()
    path.write_bytes(path.read_bytes() + damage)
    register = Register(str(path))
    assert register.read() == {ORDERS: Entry(ID)}
    register.add([(BILLS, None)])
    register.close()
    assert read_register(str(path)) == {ORDERS: Entry(ID), BILLS: Entry(None)}


def test_a_damaged_line_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / names.REGISTER
    register = Register(str(path))
    register.add([(ORDERS, ID)])
    register.add([(BILLS, ID)])
    register.close()
    path.write_bytes(path.read_bytes().replace(b"bills 7", b"bills 8"))
    assert read_register(str(path)) == {ORDERS: Entry(ID)}


def test_a_register_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / names.REGISTER
    path.write_bytes(b"1\nwho knows")
    with pytest.raises(UsageError, match="later version"):
        Register(str(path)).read()
    assert path.read_bytes() == b"1\nwho knows"


def test_what_is_written_while_the_register_is_shortened_stays(tmp_path: Path) -> None:
    register = Register(str(tmp_path / names.REGISTER))
    for _ in range(10):
        register.add([(ORDERS, ID)])

    def entries() -> dict[TopicPartition, Entry]:
        register.add([(BILLS, ID)])
        return {ORDERS: Entry(ID)}

    size = os.stat(register.path).st_size
    register.shorten(entries, idle_max=1)
    register.begin(BILLS)
    register.sync()
    register.close()
    assert os.stat(register.path).st_size < size
    assert read_register(register.path) == {ORDERS: Entry(ID), BILLS: Entry(ID, is_begun=True)}


def test_a_start_drops_what_says_nothing(directory: LogDirectory, home: Path) -> None:
    for _ in range(5):
        create(directory, ORDERS)
        directory.schedule_delete([ORDERS])
    before = (home / names.REGISTER).stat().st_size
    directory = again(directory)
    assert (home / names.REGISTER).stat().st_size < before
    assert registered(home) == {}
    directory.close()
