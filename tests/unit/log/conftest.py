"""A log on a temporary directory, and batches to put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.names import TopicPartition

PARTITION = TopicPartition("orders", 3)


@pytest.fixture
def pool() -> Iterator[FilePool]:
    pool = FilePool(limit=8)
    yield pool
    pool.clear()


@pytest.fixture
def make_log(tmp_path: Path, pool: FilePool) -> Callable[..., PartitionLog]:
    """Makes a new log with these settings."""

    def make(**settings: object) -> PartitionLog:
        return PartitionLog.create(
            PARTITION,
            str(tmp_path / str(PARTITION)),
            LogSettings(**settings),  # type: ignore[arg-type]
            pool,
        )

    return make
