"""Throughput on one core and on more, brokers and client together, in turns.

A process a broker has to gain from a second core. All brokers in one process have one thread for
what they do, so there the client gains it mostly. Who runs is pinned: the cores of one reading are
the same for the brokers and for the client, as on a machine that has no more.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import bytes as data_plane
import librdkafka
from measure import Case, Figures, cluster, cpu_s, family

_PRODUCED: Final = 200_000_000
_SIZE: Final = 1_000
_KINDS: Final = {"apart": ("--processes",), "one_process": ()}


@contextmanager
def _pinned(count: int) -> Iterator[None]:
    """Use so many cores only; what is started meanwhile has no others either."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def throughput(rounds: int = 3) -> Figures:
    """Medians in MB/s on one core and on two, and what the second one gains."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for kind, words in _KINDS.items():
            for count in (1, 2):
                with _pinned(count):
                    for name, value in _moved(*words).items():
                        found.setdefault(f"{name}_{kind}_{count}", []).append(value)
    figures = {name: statistics.median(values) for name, values in found.items()}
    for kind in _KINDS:
        for what in ("produce_mb_s", "consume_mb_s"):
            gain = figures[f"{what}_{kind}_2"] / figures[f"{what}_{kind}_1"]
            figures[f"{what.removesuffix('_mb_s')}_gain_{kind}"] = gain
    return figures


def _moved(*words: str) -> Figures:
    """acks=all to three replicas, and the same records consumed."""
    with cluster(*words) as running:
        data_plane.create(running, data_plane.PARTITIONS, 3)
        cpu, begun = _cpu_s(running.pid), time.perf_counter()
        data_plane.fill(running.bootstrap, _PRODUCED, _SIZE, "all", data_plane.DEFAULT)
        filled, filled_cpu = time.perf_counter(), _cpu_s(running.pid)
        librdkafka.destroyer()
        drained = time.perf_counter()
        data_plane.drain(running.bootstrap, _PRODUCED // _SIZE)
        ended = time.perf_counter()
        read_cpu = _cpu_s(running.pid) - filled_cpu
    gigabytes = _PRODUCED / 1e9
    return {
        "produce_mb_s": _PRODUCED / (filled - begun) / 1e6,
        "produce_cpu_s_per_gb": (filled_cpu - cpu) / gigabytes,
        "consume_mb_s": _PRODUCED / (ended - drained) / 1e6,
        "consume_cpu_s_per_gb": read_cpu / gigabytes,
    }


def _cpu_s(pid: int) -> float:
    """The processor time of all processes of a cluster."""
    return sum(sum(cpu_s(each)) for each in family(pid))


CASES = (
    Case(
        "cores",
        "acks=all RF 3 and consume on one core and on two",
        throughput,
        goals={"produce_gain_apart": 1.2, "consume_gain_apart": 1.2},
    ),
)
