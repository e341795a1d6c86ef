"""A new controller's first reading: all topics and partition states from a real ZooKeeper.

    python bench/controller_load.py [--partitions N] [--nodes 1|3] [--repeat N] [--write]

A ZooKeeper is started from PySpark's jars and filled in several shapes, from a few wide topics to
many narrow ones, three replicas each. Then, as often as asked, a new session reads all of it as a
broker does that was elected with nothing at hand, and the core takes it in. Goal: 10 s for 100,000
partitions, reading and taking in. On a busy machine look at the processor's time of this process;
the ZooKeeper's comes on top, on another core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
import uuid
from pathlib import Path

from klamm.app.one_broker import collect_seldom
from klamm.broker.term.observing import Observer
from klamm.controller.core import Core
from klamm.ensemble import Ensemble, why_not
from klamm.model.assignment import Assignment
from klamm.model.brokers import Endpoint, Registration
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.layout import TopicNode
from klamm.store.port import Create, Session
from klamm.store.zookeeper import ZooKeeperStore

RESULTS = Path(__file__).parent / "results"
BROKERS = [BrokerId(id) for id in range(3)]
WIDTHS = (1000, 100, 10)  # partitions a topic
GOAL_S = 10.0
_AT_ONCE = 1000


async def fill(session: Session, partitions: int, width: int) -> None:
    """Make the nodes of topics that are led and in sync."""
    paths = layout.with_parents([*layout.ROOTS, layout.FORGOTTEN])
    await session.multis([Create(path)] for path in paths)
    for id in BROKERS:
        broker = Registration(id=id, epoch=0, endpoints=(Endpoint("host", 9092),))
        data = layout.encode_broker(broker, timestamp_ms=0)
        await session.multi([Create(layout.broker_path(id), data, ephemeral=True)])
    ops = []
    for number in range(partitions // width):
        ops += topic_ops(f"topic-{number}", number, width)
    groups = [ops[at : at + _AT_ONCE] for at in range(0, len(ops), _AT_ONCE)]
    for results in await session.multis(groups):
        assert all(result.ok for result in results), results[0]


def topic_ops(name: str, number: int, width: int) -> list[Create]:
    replicas = tuple(BROKERS[(number + r) % 3] for r in range(3))
    node = TopicNode(
        topic_id=uuid.UUID(int=number + (1 << 64)),
        assignments={p: Assignment(replicas) for p in range(width)},
    )
    state = layout.encode_state(
        Leadership(leader=replicas[0], leader_epoch=0, isr=replicas, controller_epoch=1)
    )
    ops = [
        Create(layout.topic_path(name), layout.encode_topic(node)),
        Create(layout.topic_config_path(name), layout.encode_config({})),
        Create(layout.partitions_path(name)),
    ]
    for p in range(width):
        partition = TopicPartition(name, p)
        ops += [
            Create(layout.partition_path(partition)),
            Create(layout.state_path(partition), state),
        ]
    return ops


async def load(connect: str, partitions: int) -> tuple[float, float, float]:
    """Seconds for the reading and for the core's taking it in; and the processor's for both."""
    store = ZooKeeperStore(connect)
    try:
        session = await store.connect()
        observer = Observer(session, draw_id=uuid.uuid4, watch=lambda _path, _hint: None)
        started, spent = time.perf_counter(), time.process_time()
        began = await observer.everything()
        read_s = time.perf_counter() - started
        assert len(began.states) == partitions, f"{len(began.states)} of {partitions} states"
        core = Core(BROKERS[0], 1)
        started = time.perf_counter()
        core.decide(began)
        decide_s = time.perf_counter() - started
        return read_s, decide_s, time.process_time() - spent
    finally:
        await store.close()


async def measure(ensemble: Ensemble, partitions: int, width: int, repeat: int) -> dict[str, float]:
    connect = f"{ensemble.connect_string}/width-{width}"
    filling = ZooKeeperStore(connect)
    try:
        await fill(await filling.connect(), partitions, width)
        runs = [await load(connect, partitions) for _ in range(repeat)]
    finally:
        await filling.close()
    reads, decides, spent = zip(*runs, strict=True)
    return {
        "read_s": round(statistics.median(reads), 2),
        "decide_s": round(statistics.median(decides), 2),
        "both_s": round(statistics.median(read + decide for read, decide, _ in runs), 2),
        "processor_s": round(statistics.median(spent), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a new controller's first reading.")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1, help="servers of the ZooKeeper")
    parser.add_argument("--repeat", type=int, default=3, help="runs each; the median counts")
    parser.add_argument("--write", action="store_true", help="keep the figures in bench/results")
    args = parser.parse_args()
    if fault := why_not():
        raise SystemExit(fault)
    figures = {}
    heads = "".join(f"{name:>11}" for name in ("read", "decide", "both", "processor"))
    print(f"{'topics x partitions':<22}{heads}   goal {GOAL_S:g} s")
    collect_seldom()  # as `klamm up` does
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
        ensemble = Ensemble(Path(folder) / "zookeeper", nodes=args.nodes, heap_mb=1024)
        try:
            ensemble.start()
            for width in WIDTHS:
                found = asyncio.run(measure(ensemble, args.partitions, width, args.repeat))
                shape = f"{args.partitions // width} x {width}"
                figures[shape] = found
                cells = "".join(f"{seconds:11.2f}" for seconds in found.values())
                verdict = "" if found["both_s"] <= GOAL_S else "   misses the goal"
                print(f"{shape:<22}{cells}{verdict}", flush=True)
        finally:
            ensemble.stop()
    if args.write:
        _write(args, figures)


def _write(args: argparse.Namespace, figures: dict[str, dict[str, float]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / time.strftime("controller-load-%Y%m%d-%H%M%S.json")
    machine = {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    told = {"machine": machine, "partitions": args.partitions, "zookeeper_nodes": args.nodes}
    path.write_text(json.dumps({**told, "seconds": figures}, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
