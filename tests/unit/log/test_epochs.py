"""Which epoch ended where."""

from __future__ import annotations

import pytest

from klamm.log.epochs import EpochCache

LOG_END = 100


@pytest.fixture
def epochs() -> EpochCache:
    return EpochCache(lambda: LOG_END, [(2, 10), (4, 30), (7, 60)])


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 30)),
        (3, (2, 30)),
        (4, (4, 60)),
        (6, (4, 60)),
        (7, (7, LOG_END)),
        (8, (-1, -1)),
    ],
)
def test_end_offsets(epochs: EpochCache, epoch: int, expected: tuple[int, int]) -> None:
    assert epochs.end_offset_for(epoch) == expected


def test_an_empty_cache_knows_no_end() -> None:
    epochs = EpochCache(lambda: LOG_END)
    assert epochs.end_offset_for(0) == (-1, -1)
    assert epochs.latest == -1


def test_a_newer_epoch_is_added(epochs: EpochCache) -> None:
    epochs.assign(9, 80)
    assert epochs.entries[-2:] == ((7, 60), (9, 80))
    assert epochs.is_dirty


@pytest.mark.parametrize("known", [(7, 60), (7, 75), (-1, 80)])
def test_what_is_known_changes_nothing(epochs: EpochCache, known: tuple[int, int]) -> None:
    epochs.assign(*known)
    assert epochs.entries == ((2, 10), (4, 30), (7, 60))
    assert not epochs.is_dirty


def test_an_epoch_without_records_gives_way(epochs: EpochCache) -> None:
    epochs.assign(8, 60)
    assert epochs.entries == ((2, 10), (4, 30), (8, 60))


def test_what_contradicts_the_log_gives_way(epochs: EpochCache) -> None:
    epochs.assign(5, 20)
    assert epochs.entries == ((2, 10), (5, 20))


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (29, 2), (30, 4), (1000, 7)])
def test_the_epoch_of_an_offset(epochs: EpochCache, offset: int, epoch: int) -> None:
    assert epochs.epoch_at(offset) == epoch


def test_truncation_at_the_end(epochs: EpochCache) -> None:
    epochs.truncate_end(60)
    assert epochs.entries == ((2, 10), (4, 30))
    epochs.truncate_end(31)
    assert epochs.entries == ((2, 10), (4, 30))


def test_truncation_at_the_start(epochs: EpochCache) -> None:
    epochs.truncate_start(5)
    assert not epochs.is_dirty
    epochs.truncate_start(45)
    assert epochs.entries == ((4, 45), (7, 60))
    epochs.truncate_start(60)
    assert epochs.entries == ((7, 60),)
