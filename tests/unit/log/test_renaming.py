"""Logs that exchange their names, on paper or not, with a crash at any point."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.log.directory import LogDirectory
from klamm.log.disk.names import between_names
from klamm.log.renaming import begin_all, rename_all
from klamm.model.names import TopicPartition
from unit.log.helpers import append, values
from unit.log.test_directory import SMALL, again, open_directory

OLD, NEW = TopicPartition("orders", 0), TopicPartition("orders.copy", 0)
IDS = {OLD: uuid.UUID(int=0x11), NEW: uuid.UUID(int=0x22)}
MOVES = {OLD: NEW, NEW: OLD}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    """One log with records, of which the first are gone, and one on paper."""
    directory = open_directory(tmp_path / "data")
    for partition, topic_id in IDS.items():
        directory.create(partition, topic_id, SMALL)
    log = directory.get(OLD)
    assert log is not None
    for number in range(9):
        append(log, b"%d" % number * 60)
    log.advance_high_watermark(9)
    log.advance_log_start(2)
    yield directory
    directory.close(clean=False)


def rename(directory: LogDirectory, moves: dict[TopicPartition, TopicPartition]) -> None:
    begin_all(directory, moves)
    rename_all(directory, moves)


def seen(directory: LogDirectory) -> dict[TopicPartition, tuple[uuid.UUID | None, int, int]]:
    return {
        log.topic_partition: (log.topic_id, log.log_start_offset, log.log_end_offset)
        for log in directory
    }


@pytest.mark.parametrize("clean", [True, False])
def test_names_are_exchanged_and_stay_so(directory: LogDirectory, clean: bool) -> None:
    rename(directory, MOVES)
    wanted = {NEW: (IDS[OLD], 2, 9), OLD: (IDS[NEW], 0, 0)}
    assert seen(directory) == wanted
    moved, made = directory.get(NEW), directory.get(OLD)
    assert moved is not None
    assert made is not None
    append(moved, b"next")
    append(made, b"first")
    assert (len(values(moved)), values(made)) == (8, [b"first"])
    reopened = again(directory, clean=clean)
    try:
        assert seen(reopened) == {NEW: (IDS[OLD], 2, 10), OLD: (IDS[NEW], 0, 1)}
        assert reopened.missing == {}
    finally:
        reopened.close(clean=False)


@pytest.mark.parametrize("dies_before", range(1, 5))
def test_a_crash_loses_nothing(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch, dies_before: int
) -> None:
    """The process dies before one of the four renamings; the ids tell whose the logs are."""
    count = 0
    renaming = os.rename

    def dies(old: str, new: str) -> None:
        nonlocal count
        if os.path.isdir(old):
            count += 1
            if count >= dies_before:
                raise KeyboardInterrupt
        renaming(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", dies)
        with pytest.raises(KeyboardInterrupt):
            rename(directory, MOVES)
    reopened = again(directory, clean=False)
    try:
        found = {id: (start, end) for id, start, end in seen(reopened).values()}
        # The first offset was written down under a name, and no name was safe then.
        assert found == {IDS[OLD]: (0, 9), IDS[NEW]: (0, 0)}
        assert reopened.missing == {}
        back = {log.topic_partition: _name_of(log.topic_id) for log in reopened}
        rename(reopened, {old: new for old, new in back.items() if old != new})
        assert seen(reopened).keys() == {OLD, NEW}
        assert {name: found[0] for name, found in seen(reopened).items()} == {
            NEW: IDS[OLD],
            OLD: IDS[NEW],
        }
    finally:
        reopened.close(clean=False)


def _name_of(topic_id: uuid.UUID | None) -> TopicPartition:
    return NEW if topic_id == IDS[OLD] else OLD


def test_a_name_between_two_is_a_name_and_nobody_elses() -> None:
    name = between_names(IDS[OLD], 7)
    assert name.partition == 7
    assert name != between_names(IDS[NEW], 7)
