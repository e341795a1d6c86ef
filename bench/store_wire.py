"""What a served store and a real ZooKeeper can do, in requests a second over a bare socket.

    python bench/store_wire.py [--repeat N]

No client library stands in between: those are slower than either server. Prints a table and writes
`bench/results/store-wire-<time>.json`. The ZooKeeper is run from PySpark's jars, and is left out
with the reason where that cannot be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from unit.store.serving import raw
from unit.store.serving.process import ServedProcess
from unit.store.serving.raw import Raw
from unit.store.zookeeper_server import ZooKeeperServer, why_not

RESULTS = Path(__file__).parent / "results"
CREATE, GET, SET, MULTI, ADD_WATCH, SET_WATCHES = 1, 4, 5, 14, 106, 101
DATA = b"x" * 100

Work = Callable[[Raw, int], Awaitable[float]]


async def pipelined(client: Raw, op: int, body: bytes, count: int, window: int) -> float:
    """Requests a second with so many of them under way."""
    sent = 0
    started = time.perf_counter()
    for done in range(count):
        while sent < count and sent - done < window:
            client.send(op, body)
            sent += 1
        reply = await client.reply()
        assert reply.err == 0, reply
    return count / (time.perf_counter() - started)


async def gets(client: Raw, _port: int) -> float:
    return await pipelined(client, GET, raw.read("/n"), 20_000, 500)


async def gets_one_by_one(client: Raw, _port: int) -> float:
    return await pipelined(client, GET, raw.read("/n"), 3000, 1)


async def sets(client: Raw, _port: int) -> float:
    return await pipelined(client, SET, raw.set_data("/n", DATA), 10_000, 100)


async def sets_one_by_one(client: Raw, _port: int) -> float:
    return await pipelined(client, SET, raw.set_data("/n", DATA), 500, 1)


async def multis(client: Raw, _port: int) -> float:
    """Operations a second in multis of a thousand."""
    body = raw.multi(*((SET, raw.set_data(f"/m/{i}", DATA)) for i in range(1000)))
    return 1000 * await pipelined(client, MULTI, body, 30, 4)


async def events(client: Raw, port: int) -> float:
    """Watchers told a second: one change, five hundred connections that watch."""
    watching = [await Raw.open(port) for _ in range(500)]
    for each in watching:
        await each.connect(20_000)
        await each.call(ADD_WATCH, raw.versioned("/n", 0))
    started = time.perf_counter()
    await client.call(SET, raw.set_data("/n", DATA))
    for each in watching:
        await each.recv()
    seconds = time.perf_counter() - started
    for each in watching:
        each.drop()
    return len(watching) / seconds


async def watches_again(client: Raw, _port: int) -> float:
    """Watches a second that are set again after a reconnect, ten thousand in one request."""
    paths = raw.texts(*(f"/none/{i:05d}" for i in range(10_000)))
    body = (1 << 62).to_bytes(8, "big") + raw.texts() + paths
    started = time.perf_counter()
    await client.call(SET_WATCHES, body + raw.texts())
    return 10_000 / (time.perf_counter() - started)


WORKS: dict[str, Work] = {
    "getData, 500 under way": gets,
    "getData, one by one": gets_one_by_one,
    "setData, 100 under way": sets,
    "setData, one by one": sets_one_by_one,
    "setData, 1000 a multi": multis,
    "events of one change": events,
    "watches set again": watches_again,
}


async def measured(port: int, repeat: int) -> dict[str, float]:
    client = await Raw.open(port)
    await client.connect(30_000)
    await client.call(CREATE, raw.create("/n", DATA))
    await client.call(CREATE, raw.create("/m"))
    await client.call(MULTI, raw.multi(*((CREATE, raw.create(f"/m/{i}")) for i in range(1000))))
    rates = {}
    for name, work in WORKS.items():
        runs = [await work(client, port) for _ in range(repeat)]
        rates[name] = round(statistics.median(runs))
    client.drop()
    return rates


async def main() -> None:
    parser = argparse.ArgumentParser(description="Measure servers of ZooKeeper's protocol.")
    parser.add_argument("--repeat", type=int, default=3, help="runs each; the median counts")
    repeat = parser.parse_args().repeat
    servers: dict[str, ServedProcess | ZooKeeperServer] = {"served": ServedProcess(2000)}
    if why_not() is None:
        servers["ZooKeeper"] = ZooKeeperServer(heap_mb=1024, tick_ms=2000)
    else:
        print(f"without ZooKeeper: {why_not()}")
    rates = {}
    for name, server in servers.items():
        try:
            server.start()
            rates[name] = await measured(server.port, repeat)
        finally:
            server.remove()
    print(f"{'a second':<26}" + "".join(f"{name:>12}" for name in rates))
    for work in WORKS:
        print(f"{work:<26}" + "".join(f"{each[work]:>12,.0f}" for each in rates.values()))
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / time.strftime("store-wire-%Y%m%d-%H%M%S.json")
    measured_with = {"cpus": os.cpu_count(), "load": os.getloadavg()}
    path.write_text(json.dumps({"machine": measured_with, "per_second": rates}, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    asyncio.run(main())
