"""What the stores can do, in operations a second; each on this machine's disk and alone.

    python bench/store.py [--repeat N]

Prints a table and writes `bench/results/store-<time>.json`. The ZooKeeper is a real one, run from
PySpark's jars, and is left out with the reason where that cannot be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Check, Create, Delete, Session, SetData, Store
from unit.store.serving.process import ServedProcess
from unit.store.zookeeper_server import ZooKeeperServer, why_not

RESULTS = Path(__file__).parent / "results"
NODES = 100_000
_BROKERS = (BrokerId(0), BrokerId(1), BrokerId(2))
STATE = layout.encode_state(
    Leadership(leader=_BROKERS[0], leader_epoch=7, isr=_BROKERS, controller_epoch=3)
)

Work = Callable[[Session], Awaitable[int]]


async def creates_one_by_one(session: Session) -> int:
    for i in range(300):
        await session.multi([Create(f"/b/{i}", STATE)])
    return 300


async def creates_pipelined(session: Session) -> int:
    await session.multis([Create(f"/b/{i}", STATE)] for i in range(3000))
    return 3000


async def creates_by_the_thousand(session: Session) -> int:
    await session.multis([Create(f"/b/{k}-{i}", STATE) for i in range(1000)] for k in range(10))
    return 10_000


async def fenced_updates(session: Session) -> int:
    """What a controller does after a broker is gone: 500 operations behind a check."""
    groups = [range(at, at + 500) for at in range(0, 5000, 500)]
    await session.multis(
        [Check("/fence", 0), *(SetData(f"/a/{i}", STATE) for i in group)] for group in groups
    )
    return 5000


async def gets_one_by_one(session: Session) -> int:
    for i in range(2000):
        await session.get(f"/a/{i}")
    return 2000


async def gets_in_bulk(session: Session) -> int:
    """What a failover does first."""
    await session.get_many([f"/a/{i}" for i in range(10_000)])
    return 10_000


WORKS: dict[str, Work] = {
    "creates, one by one": creates_one_by_one,
    "creates, pipelined": creates_pipelined,
    "creates, 1000 a multi": creates_by_the_thousand,
    "fenced sets, 500 a multi": fenced_updates,
    "gets, one by one": gets_one_by_one,
    "gets, in bulk": gets_in_bulk,
}


async def rate(store: Store, work: Work) -> float:
    """Operations a second, among ten thousand nodes and with one watcher."""
    session = await store.connect()
    await session.multi([Create("/a"), Create("/b"), Create("/fence")])
    for at in range(0, 10_000, 1000):
        await session.multi([Create(f"/a/{i}", STATE) for i in range(at, at + 1000)])
    session.watch_children("/b", lambda: None)
    started = time.perf_counter()
    count = await work(session)
    seconds = time.perf_counter() - started
    await _remove_all(session)
    await session.close()
    return count / seconds


async def _remove_all(session: Session) -> None:
    for parent in ("/a", "/b"):
        names = await session.children(parent) or ()
        for at in range(0, len(names), 1000):
            await session.multi([Delete(f"{parent}/{name}") for name in names[at : at + 1000]])
    await session.multi([Delete("/a"), Delete("/b"), Delete("/fence")])


async def seconds_to_open() -> float:
    """Start with a hundred thousand nodes on the disk."""
    with TemporaryDirectory(prefix="klamm-bench-") as folder:
        path = Path(folder) / "store.db"
        store = EmbeddedStore.open(path, fsync=False)
        session = await store.connect()
        for at in range(0, NODES, 10_000):
            await session.multi([Create(f"/{i}", STATE) for i in range(at, at + 10_000)])
        await store.close()
        started = time.perf_counter()
        store = EmbeddedStore.open(path)
        seconds = time.perf_counter() - started
        await store.close()
        return seconds


@asynccontextmanager
async def in_memory() -> AsyncIterator[Store]:
    store = EmbeddedStore.open(None)
    yield store
    await store.close()


@asynccontextmanager
async def on_disk() -> AsyncIterator[Store]:
    with TemporaryDirectory(prefix="klamm-bench-") as folder:
        store = EmbeddedStore.open(Path(folder) / "store.db")
        yield store
        await store.close()


@asynccontextmanager
async def served() -> AsyncIterator[Store]:
    """The embedded store in a process of its own, over ZooKeeper's wire."""
    from klamm.store.zookeeper import ZooKeeperStore

    server = ServedProcess(tick_ms=2000)
    try:
        server.start()
        store = ZooKeeperStore(server.connect_string)
        yield store
        await store.close()
    finally:
        server.remove()


@asynccontextmanager
async def zookeeper() -> AsyncIterator[Store]:
    from klamm.store.zookeeper import ZooKeeperStore

    server = ZooKeeperServer(heap_mb=1024)
    try:
        server.start()
        store = ZooKeeperStore(server.connect_string)
        yield store
        await store.close()
    finally:
        server.remove()


async def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the stores.")
    parser.add_argument("--repeat", type=int, default=3, help="runs each; the median counts")
    repeat = parser.parse_args().repeat
    stores = {"in memory": in_memory, "on disk": on_disk, "served": served}
    if why_not() is None:
        stores["ZooKeeper"] = zookeeper
    else:
        print(f"without ZooKeeper: {why_not()}")
    rates: dict[str, dict[str, float]] = {name: {} for name in WORKS}
    for store_name, opened in stores.items():
        async with opened() as store:
            for name, work in WORKS.items():
                runs = [await rate(store, work) for _ in range(repeat)]
                rates[name][store_name] = round(statistics.median(runs))
    opening_s = statistics.median([await seconds_to_open() for _ in range(repeat)])
    print(f"{'a second':<26}" + "".join(f"{name:>12}" for name in stores))
    for name, by_store in rates.items():
        print(f"{name:<26}" + "".join(f"{value:>12,.0f}" for value in by_store.values()))
    print(f"\nopening {NODES:,} nodes from the disk: {opening_s:.2f} s")
    _write(rates, opening_s)


def _write(rates: dict[str, dict[str, float]], opening_s: float) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / time.strftime("store-%Y%m%d-%H%M%S.json")
    machine = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    measured = {"per_second": rates, "open_100k_s": round(opening_s, 3)}
    path.write_text(json.dumps({"machine": machine, **measured}, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    asyncio.run(main())
