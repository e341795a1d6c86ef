"""Counts what a broker does: plain numbers, kept where things happen.

Nothing here knows who reads them. A count is an addition; a time is two looks at the clock and a
search in a dozen bounds, and the times of requests are taken only where somebody has asked for
metrics or for a quota of time. Whatever can be read off the broker when somebody looks (how many
partitions it leads, how many of those lack replicas) is not kept at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import Final

# Seconds; the first holds a request served from memory, the last a failover of a large cluster.
BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)


class Histogram:
    """A count of durations by size."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)  # the last is for what took longer than any bound
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)


class BrokerMetrics:
    """The work of a broker for its clients and followers since it came up."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "handler_s",
        "is_timing",
        "isr_expands",
        "isr_shrinks",
        "messages_in",
        "replication_bytes_in",
        "replication_bytes_out",
        "requests",
    )

    def __init__(self, *, is_timing: bool = False) -> None:
        self.is_timing: Final = is_timing  # whether somebody wants to know how long requests take
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.requests: defaultdict[int, Histogram] = defaultdict(Histogram)  # by api key
        self.handler_s: defaultdict[int, float] = defaultdict(float)

    def served(self, api_key: int, total_s: float, busy_s: float) -> None:
        """A request was answered after this time, for which it had the loop for that time."""
        self.requests[api_key].observe(total_s)
        self.handler_s[api_key] += busy_s

    def isr_changed(self, before_count: int, after_count: int) -> None:
        """A partition led here has another in-sync set."""
        self.isr_shrinks += after_count < before_count
        self.isr_expands += after_count > before_count
