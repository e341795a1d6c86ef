"""Logs that go on under other names, which may be those of each other.

The id of its topic tells whose a log is, and the directory's name only where it was last. A crash
half way leaves some logs under a name made of their topic's id; the next order of a controller
gives them the right one. What is known of logs by their names (up to where they are on the disk,
where they begin) is forgotten before the first is renamed, and written again after the last: so a
crash costs a recovery of these logs, and never takes one for another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from klamm.log.disk.failure import Health
from klamm.log.disk.files import sync_directory
from klamm.log.disk.names import between_names
from klamm.log.paper import PaperLog
from klamm.log.partition import PartitionLog
from klamm.model.names import TopicPartition

Logs = dict[TopicPartition, PartitionLog]


class RenamingHome(Protocol):
    """A directory, as far as logs in it are renamed."""

    path: str
    health: Health
    missing: dict[TopicPartition, int]
    _logs: Logs
    _filed: Logs  # those of them that are not on paper

    def checkpoint(self) -> None: ...

    def checkpoint_high_watermarks(self) -> None: ...

    def checkpoint_cleaned(self) -> None: ...


def begin_all(home: RenamingHome, moves: Mapping[TopicPartition, TopicPartition]) -> None:
    """Give those on paper a directory that can be renamed."""
    home.health.check()
    with home.health.watched():
        for old in moves:
            log = home._logs.get(old)
            if isinstance(log, PaperLog):
                log.begin()


def rename_all(home: RenamingHome, moves: Mapping[TopicPartition, TopicPartition]) -> None:
    """Give new names to those logs that are to have one, after `begin_all`.

    For a worker thread.
    """
    home.health.check()
    logs, filed = home._logs, home._filed
    mine = {old: new for old, new in moves.items() if old in logs}
    if not mine:
        return
    for old in mine:
        logs[old].flush()
    home.checkpoint()  # then the register has no line of them
    moving = {new: logs.pop(old) for old, new in mine.items()}
    for old in mine:
        filed.pop(old, None)
    try:
        _write_down(home)
        with home.health.watched():
            for new, log in moving.items():
                _rename(log, new, home, between_names(log.topic_id, new.partition))
            for new, log in moving.items():
                _rename(log, new, home, new)
            sync_directory(home.path)
    finally:
        logs.update({log.topic_partition: log for log in moving.values()})
        filed.update({log.topic_partition: log for log in moving.values()})
    for old, new in mine.items():
        if (end := home.missing.pop(old, None)) is not None:
            home.missing[new] = end
    _write_down(home)


def _write_down(home: RenamingHome) -> None:
    home.checkpoint()
    home.checkpoint_high_watermarks()
    home.checkpoint_cleaned()


def _rename(
    log: PartitionLog, name: TopicPartition, home: RenamingHome, place: TopicPartition
) -> None:
    log.relocate(os.path.join(home.path, str(place)))
    log.topic_partition = name
    log.truncations += 1  # whoever works on it in several steps begins anew
