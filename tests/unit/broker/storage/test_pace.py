"""How long a worker waits for the bytes it moves."""

from __future__ import annotations

import threading

import pytest

from klamm.broker.storage.pace import Pace


class Naps(threading.Event):
    """Does not wait, but remembers for how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.taken.append(timeout)
        return self.is_set()


def test_bytes_take_the_time_they_should_and_short_waits_are_saved_up() -> None:
    naps = Naps()
    pace = Pace(lambda: 1000.0, naps)
    for _ in range(100):
        pace(10)
    assert sum(naps.taken) == pytest.approx(1.0)
    assert min(naps.taken) >= 0.05


def test_a_long_wait_looks_at_the_limit_again() -> None:
    naps, rates = Naps(), iter([1.0, 1.0, 1e9])
    last = 1e9
    pace = Pace(lambda: next(rates, last), naps)
    pace(1_000_000)
    assert naps.taken == [0.5]


def test_nobody_waits_for_a_broker_that_stops() -> None:
    naps = Naps()
    naps.set()
    Pace(lambda: 1.0, naps)(1_000_000)
    assert len(naps.taken) == 1


def test_without_a_limit_nobody_waits() -> None:
    naps = Naps()
    pace = Pace(lambda: 1.7976931348623157e308, naps)
    for _ in range(1000):
        pace(10**9)
    assert naps.taken == []
