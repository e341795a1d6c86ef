"""A log that moves to another directory: the copy follows, takes over, and survives crashes."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.broker.storage.logs import Logs
from klamm.log.cleaning import cleaner
from klamm.log.partition import PartitionLog
from klamm.log.relocation import align, take
from klamm.log.settings import LogSettings
from klamm.log.writing.append import Appended
from klamm.model.names import BrokerId, TopicPartition
from unit.log.helpers import T0, append, batch, try_append, values

ORDERS = TopicPartition("orders", 3)
TOPIC_ID = uuid.UUID(int=0x1234)
SMALL = LogSettings(segment_bytes=400)


def open_logs(path: Path, settings: LogSettings = SMALL) -> Logs:
    return Logs.open(
        [str(path / "one"), str(path / "two")],
        BrokerId(1),
        "c" * 22,
        settings_for=lambda topic: settings,
        delete_delay_ms=1000,
        now_ms=T0,
        progress=None,
        on_offline=lambda directory: None,
    )


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    logs = open_logs(tmp_path)
    yield logs
    logs.close(clean=False)


def filled(logs: Logs, count: int = 12) -> PartitionLog:
    log = logs.create(ORDERS, TOPIC_ID, SMALL)
    for number in range(count):
        append(log, b"%d" % number * 30, epoch=number // 4)
    log.advance_high_watermark(log.log_end_offset)
    return log


def copy_some(copy: PartitionLog, original: PartitionLog) -> None:
    """One step, as the broker does it."""
    align(copy, original)
    if copy.log_end_offset < original.log_end_offset:
        found = original.read(copy.log_end_offset, max_bytes=250)
        assert not isinstance(found, int), found
        take(copy, original, found.read(), T0)


def copy_all(copy: PartitionLog, original: PartitionLog) -> None:
    copy_some(copy, original)
    while copy.log_end_offset < original.log_end_offset:
        copy_some(copy, original)


def finish_move(logs: Logs) -> PartitionLog:
    original = logs.get(ORDERS)
    home = logs.future_home(ORDERS)
    assert original is not None
    assert home is not None
    copy = home.futures[ORDERS]
    copy_all(copy, original)
    copy.flush()
    return logs.replace(ORDERS, T0)


def names_of(path: str) -> list[str]:
    return sorted(name for name in os.listdir(path) if name.startswith("orders"))


def test_a_copy_takes_the_place_of_its_log(logs: Logs) -> None:
    one, two = logs.directories
    original = filled(logs)
    held = values(original)
    append(original, b"by a producer", producer_id=7, producer_epoch=0, base_sequence=0, epoch=3)
    expected = [*held, b"by a producer"]
    two.create_future(original)
    assert names_of(two.path)[0].endswith("-future")
    copy = finish_move(logs)
    assert logs.get(ORDERS) is copy
    assert values(copy) == expected
    assert copy.epochs.entries == original.epochs.entries
    assert copy.high_watermark == original.high_watermark
    assert copy.producers.by_id.keys() == {7}
    assert copy.topic_id == TOPIC_ID
    assert names_of(two.path) == ["orders-3"]
    (left,) = names_of(one.path)
    assert left.endswith("-delete")
    append(copy, b"afterwards", epoch=5)
    copy.roll()
    append(copy, b"in a new segment", epoch=5)
    assert values(copy)[-2:] == [b"afterwards", b"in a new segment"]
    assert one.purge_due(T0 + 1000) == 1


def test_a_moved_log_is_there_after_a_restart(tmp_path: Path) -> None:
    for clean in (True, False):
        path = tmp_path / str(clean)
        logs = open_logs(path)
        expected = values(filled(logs))
        logs.directories[1].create_future(logs.get(ORDERS) or pytest.fail("no log"))
        finish_move(logs)
        logs.close(clean=clean)
        logs = open_logs(path)
        found = logs.directories[1].get(ORDERS)
        assert found is not None
        assert values(found) == expected
        assert logs.directories[0].get(ORDERS) is None
        logs.close(clean=False)


@pytest.mark.parametrize("clean", [True, False])
def test_a_copy_goes_on_after_a_restart(tmp_path: Path, clean: bool) -> None:
    logs = open_logs(tmp_path)
    original = filled(logs)
    expected = values(original)
    copy = logs.directories[1].create_future(original)
    copy_some(copy, original)
    copy_some(copy, original)
    so_far = copy.log_end_offset
    assert 0 < so_far < 12
    logs.close(clean=clean)
    logs = open_logs(tmp_path)
    again = logs.directories[1].futures[ORDERS]
    assert again.log_end_offset == so_far
    assert values(finish_move(logs)) == expected
    logs.close(clean=False)


def test_records_taken_back_are_taken_back_in_the_copy(logs: Logs) -> None:
    original = filled(logs)
    copy = logs.directories[1].create_future(original)
    copy_all(copy, original)
    # A new leader has other records from offset 6 on, and as many of them.
    original.truncate_to(6)
    original.epochs.truncate_end(6)
    for number in range(6, 12):
        append(original, b"other %d" % number, epoch=9)
    copy_all(copy, original)
    assert values(copy) == values(original)
    assert copy.epochs.entries == original.epochs.entries


def test_a_log_that_lost_all_its_records_is_copied_anew(logs: Logs) -> None:
    original = filled(logs)
    copy = logs.directories[1].create_future(original)
    copy_all(copy, original)
    original.restart_at(40)
    append(original, b"new", epoch=9)
    copy_all(copy, original)
    assert (copy.log_start_offset, copy.log_end_offset) == (40, 41)
    assert values(copy) == [b"new"]


def test_deleted_records_are_not_copied(logs: Logs) -> None:
    original = filled(logs)
    copy = logs.directories[1].create_future(original)
    original.advance_log_start(7)
    copy_all(copy, original)
    assert copy.log_start_offset == 7
    assert values(copy) == values(original)


def test_a_log_whose_last_records_were_compacted_away_ends_where_it_did(tmp_path: Path) -> None:
    settings = LogSettings(compact=True, segment_bytes=200)
    logs = open_logs(tmp_path, settings)
    log = logs.create(ORDERS, TOPIC_ID, settings)
    append(log, b"v" * 30, keys=[b"k"])
    for _ in range(5):
        # Compaction drops records without a key.
        assert isinstance(try_append(log, batch(b"x" * 50), from_client=False), Appended)
    log.roll()
    log.advance_high_watermark(log.log_end_offset)
    assert cleaner.clean(log, T0 + 10**9)
    assert len(values(log)) == 1
    logs.directories[1].create_future(log)
    copy = finish_move(logs)
    assert copy.log_end_offset == 6
    append(copy, b"next", keys=[b"k"])
    logs.close(clean=False)
    logs = open_logs(tmp_path, settings)
    found = logs.get(ORDERS)
    assert found is not None
    assert found.log_end_offset == 7
    logs.close(clean=False)


def test_deleting_a_topic_deletes_its_copies(logs: Logs) -> None:
    one, two = logs.directories
    two.create_future(filled(logs))
    logs.schedule_delete([ORDERS], T0)
    assert logs.future_home(ORDERS) is None
    for directory in (one, two):
        (left,) = names_of(directory.path)
        assert left.endswith("-delete")


def test_a_copy_without_its_log_is_set_aside(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    original = filled(logs)
    copy_some(logs.directories[1].create_future(original), original)
    logs.close(clean=False)
    shutil.rmtree(tmp_path / "one" / "orders-3")
    logs = open_logs(tmp_path)
    assert logs.future_home(ORDERS) is None
    (left,) = names_of(str(tmp_path / "two"))
    assert left.endswith("-stray")
    logs.close(clean=False)


def test_of_two_logs_the_one_with_the_later_epoch_is_kept(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    original = filled(logs)
    logs.directories[1].create_future(original)
    copy = finish_move(logs)
    copy.truncate_to(10)
    append(copy, b"newer", epoch=7)
    expected = values(copy)
    logs.close(clean=False)
    (left,) = (tmp_path / "one").glob("orders-3.*-delete")
    left.rename(tmp_path / "one" / "orders-3")
    logs = open_logs(tmp_path)
    found = logs.get(ORDERS)
    assert found is not None
    assert values(found) == expected
    (left,) = (tmp_path / "one").glob("orders-3*")
    assert left.name.endswith("-stray"), "it has a record more, which somebody may want to see"
    logs.close(clean=False)


def crash_in_move(path: Path, fatal: int) -> int:
    """Move a log in a process that dies at its n-th change of the file system; how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        logs = open_logs(path)
        original = logs.get(ORDERS)
        assert original is not None
        count = 0

        def crash(event: str, arguments: object) -> None:
            nonlocal count
            count += event in ("open", "os.mkdir", "os.rename", "os.remove", "os.truncate")
            if count == fatal:
                os._exit(9)

        sys.addaudithook(crash)
        logs.directories[1].create_future(original)
        finish_move(logs)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing else
def test_a_crash_anywhere_leaves_the_log_in_one_directory(tmp_path: Path) -> None:
    logs = open_logs(tmp_path / "start")
    expected = values(filled(logs, 6))
    logs.close(clean=False)
    outcomes = set()
    for fatal in range(1, 400):
        path = tmp_path / "crashed"
        shutil.copytree(tmp_path / "start", path)
        died = crash_in_move(path, fatal)
        logs = open_logs(path)
        (found,) = list(logs)
        assert values(found) == expected
        assert found.epochs.latest == 1
        state = (found is logs.directories[1].get(ORDERS), logs.future_home(ORDERS) is not None)
        outcomes.add(state)
        if state == (False, True):
            assert values(finish_move(logs)) == expected, "the move goes on"
        logs.close(clean=False)
        shutil.rmtree(path)
        if not died:
            break
        assert died == 9
    assert fatal > 10, "there were crash points"
    assert outcomes == {(False, False), (False, True), (True, False)}
