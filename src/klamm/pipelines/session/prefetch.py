"""Prefetching: the next item is made in a thread of its own while this one is used.

It pays where both sides spend their time in code that lets go of the interpreter, as decoding and
writing Parquet do.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items, each made while the one before is used; never more than one is waiting."""
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
            coming = pool.submit(next, items, None)
            while (item := coming.result()) is not None:
                coming = pool.submit(next, items, None)
                yield item
    finally:
        items.close()
