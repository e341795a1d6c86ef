"""The collector rests while somebody works, and only then."""

import gc
from collections.abc import Iterator

import pytest

from klamm import gc_pause as collector


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_it_rests_until_the_last_one_is_done() -> None:
    first, second = collector.paused(), collector.paused()
    first.__enter__()
    second.__enter__()
    assert not gc.isenabled()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_work_that_fails_ends_too() -> None:
    with pytest.raises(ZeroDivisionError), collector.paused():
        _ = 1 / 0
    assert gc.isenabled()


def test_a_program_without_collector_stays_without() -> None:
    gc.disable()
    with collector.paused():
        pass
    assert not gc.isenabled()
