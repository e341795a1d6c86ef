"""Items made ahead of their use."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from klamm.pipelines.session.prefetch import prefetched


def test_items_come_in_order() -> None:
    assert list(prefetched(n for n in range(100))) == list(range(100))
    assert list(prefetched(n for n in range(0))) == []


def test_the_next_is_made_while_this_one_is_used() -> None:
    made = threading.Event()

    def items() -> Generator[int, None, None]:
        yield 1
        made.set()
        yield 2

    found = prefetched(items())
    assert next(found) == 1
    assert made.wait(60)
    assert list(found) == [2]


def test_a_fault_comes_where_its_item_would() -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        raise ValueError("no more")

    found = prefetched(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no more"):
        next(found)


def test_what_is_left_alone_is_closed() -> None:
    closed = threading.Event()

    def items() -> Generator[int, None, None]:
        try:
            yield from range(1, 9)
        finally:
            closed.set()

    found = prefetched(items())
    assert next(found) == 1
    found.close()
    assert closed.is_set()
