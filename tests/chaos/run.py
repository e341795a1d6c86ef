"""One run: load, faults, rest, and what the checks say."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from chaos import checks
from chaos.faults import Faults
from chaos.load import Churn, Readers, Transactions, Worker, run_all
from chaos.witness import Notes, logged, told, witnesses
from chaos.world import BROKERS, World
from history import check, read_replicas
from interop.killing import Load

PARTITIONS = 3
REST_S = 120.0
_STORIES_MAX = 5
_AROUND_S = 3.0  # a gap, its story begins and ends


@dataclass
class Report:
    """What happened and what is wrong."""

    store: str
    seed: int
    seconds: float = 0.0
    faults_by_kind: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    committed: int = 0
    aborted: int = 0
    read: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    gaps: list[checks.Gap] = field(default_factory=list)  # the longest first
    partitions_gaps: list[checks.Gap] = field(default_factory=list)  # each partition's own
    stories: list[str] = field(default_factory=list)  # of the longest, line by line
    unheard: int = 0
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        kinds = ", ".join(f"{what} {count}" for what, count in sorted(self.faults_by_kind.items()))
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.operations.items()))
        return [
            f"chaos on {self.store}, seed {self.seed}, {self.seconds:.0f} s",
            f"faults: {sum(self.faults_by_kind.values())} ({kinds})",
            f"records acknowledged {self.acknowledged}, committed {self.committed}, "
            f"aborted {self.aborted}, read by the group {self.read}",
            f"topics: {done}",
            f"times without an acknowledgement above 0.5 s: {len(self.gaps)}; the longest:",
            *(f"  {gap}" for gap in self.gaps[:5]),
            f"of one partition: {len(self.partitions_gaps)}; the longest:",
            *(f"  {gap}" for gap in self.partitions_gaps[:5]),
            f"times that a broker denied a topic that is there: {self.unheard}",
            *(f"WRONG: {fault}" for fault in self.wrong[:20]),
            f"{len(self.wrong)} things are wrong" if self.wrong else "nothing is wrong",
        ]


def chaos(store: str, seconds: float, seed: int, data: Path, *, disk_mb: int = 512) -> Report:
    """Let things go wrong for this long, then look."""
    world = World(store, data, disk_mb=disk_mb)
    try:
        return _run(world, Report(store, seed), seconds)
    finally:
        world.close()


def _run(world: World, report: Report, seconds: float) -> Report:
    world.start(*BROKERS)
    ways = [[(first + at) % 3 for at in range(3)] for first in range(PARTITIONS)]
    # What is written must fit on the small disks.
    small = {"retention_ms": "-1", "segment_bytes": str(16 << 20)}
    for topic in ("load", "txn"):
        world.create(topic, ways, **small)
    notes = Notes()
    loads = [
        Load(world.bootstrap, "load", PARTITIONS, name, pause_s=0.05, hear=notes.client(name))
        for name in ("p0", "p1")
    ]
    txns = [
        Transactions(world.bootstrap, "txn", PARTITIONS, f"t{n}", report.seed + n) for n in range(2)
    ]
    readers = [Readers(world.bootstrap, "load", "readers", f"r{n}") for n in range(2)]
    churn = Churn(world.bootstrap, BROKERS, report.seed)
    faults = Faults(world, report.seed)
    for load in loads:
        load.start()
    began = time.monotonic()

    def work() -> None:
        try:
            loads[0].wait_for_more(20)
            while time.monotonic() - began < seconds:
                faults.next()
                time.sleep(1)
        finally:
            world.mend()
        world.wait_for_all()
        churn.halt()
        for load in loads:
            load.wait_for_more(20, timeout_s=REST_S)
            load.halt()
        acked = {record.value for load in loads for record in load.acked}
        deadline = time.monotonic() + REST_S
        while time.monotonic() < deadline and acked - set().union(*(r.seen for r in readers)):
            time.sleep(0.2)

    looking = witnesses(world, "load", PARTITIONS, notes)
    workers: list[Worker] = [*txns, *readers, churn, *looking]
    run_all(workers, work)
    report.seconds = time.monotonic() - began
    _look(world, report, loads, txns, readers, faults)
    report.stories = _stories(world, report, notes)
    report.operations = {**churn.done, "refused": churn.refused}
    return report


def _look(
    world: World,
    report: Report,
    loads: list[Load],
    txns: list[Transactions],
    readers: list[Readers],
    faults: Faults,
) -> None:
    acked = [record for load in loads for record in load.acked]
    seen = set().union(*(reader.seen for reader in readers))
    rest = time.monotonic() + REST_S
    while (left := checks.at_rest(world)) and time.monotonic() < rest:
        time.sleep(0.5)
    logs = read_replicas(world.data, "load", range(PARTITIONS), BROKERS)
    timed = [pair for load in loads for pair in zip(load.times, load.acked, strict=True)]
    report.gaps, report.partitions_gaps = checks.all_gaps(timed, faults.happened)
    report.faults_by_kind.update(each.what for each in faults.happened)
    report.acknowledged, report.read = len(acked), len(seen)
    report.committed = sum(len(each.committed) for each in txns)
    report.aborted = sum(len(each.aborted) for each in txns)
    report.unheard = sum(load.unheard for load in loads)
    report.wrong += [
        *left,
        *check(acked, logs),
        *(fault for load in loads for fault in load.failed),
        *checks.transactions(world, "txn", PARTITIONS, txns),
        *(f"{a.value!r} was never read by the group" for a in acked if a.value not in seen),
        *checks.ledger(world),
        *checks.unexplained(report.gaps + report.partitions_gaps),
    ]


def _stories(world: World, report: Report, notes: Notes) -> list[str]:
    """All that was said during the longest gaps, and during those that nothing explains."""
    longest = [*report.gaps[:_STORIES_MAX], *report.partitions_gaps[:_STORIES_MAX]]
    every = report.gaps + report.partitions_gaps
    long = [gap for gap in every if gap.seconds > gap.allowed_s][:_STORIES_MAX]
    files = sorted(world.data.glob("broker-*.log"))
    lines = []
    for gap in dict.fromkeys((*long, *longest)):
        span = (gap.began - _AROUND_S, gap.ended + _AROUND_S)
        said = sorted((*notes.between(*span), *logged(files, *span)))
        lines += [
            *(str(gap), "before it:", *told(notes.latest(span[0]), gap.began)),
            *("then:", *told(said, gap.began), ""),
        ]
    return lines
