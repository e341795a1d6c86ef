"""Bounds the memory that producers take in the logs of a broker.

Every batch with a producer id that a log has not met makes it remember one more producer, for a day
by default, and whoever may write can draw as many ids as it likes. Beyond a bound the log with the
most of them forgets those that have been silent longest, as if their time were over.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from klamm.log.producers.history import ProducerHistory


def bound_producers(histories: Iterable[ProducerHistory], most: int) -> int:
    """Let logs together know no more producers than this; how many were forgotten."""
    kept = [history for history in histories if history.count]
    excess = sum(history.count for history in kept) - most
    if excess <= 0:
        return 0
    forgotten = 0
    heap = [(-history.count, index) for index, history in enumerate(kept)]
    heapify(heap)
    while forgotten < excess and heap:
        _, index = heappop(heap)
        history = kept[index]
        # Half at a time: who has many gives up many, and the work is done seldom.
        gone = history.forget_oldest(history.count // 2)
        forgotten += gone
        if gone and history.count:
            heappush(heap, (-history.count, index))
    return forgotten
