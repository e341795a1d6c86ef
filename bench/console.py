"""Measures the console: a big cluster, many viewers, what it costs and how late it is.

    python bench/console.py --topics 2000 --partitions 5 --viewers 50 --seconds 60

Starts a cluster and a console as processes of their own, opens the viewers' streams, makes topics
while they watch, and prints one JSON object. Processor time is read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.protocol.messages.create_topics import CreatableTopic

TICK = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Processor time of a process and the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def started(*words: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "klamm", *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip().partition("=")[2]


async def create(servers: str, names: list[str], partitions: int) -> None:
    async with Client(servers, timeout_s=300) as client:
        for first in range(0, len(names), 50):
            topics = [CreatableTopic(name, partitions, 2) for name in names[first : first + 50]]
            for result in await Admin(client).create_topics(topics):
                assert not result.error_code, (result.name, result.error_message)


async def get(host: str, port: int, path: str) -> tuple[float, int]:
    """The seconds and bytes that one request takes."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    size = len(await reader.read(-1))
    writer.close()
    return time.perf_counter() - began, size


async def load(host: str, port: int) -> Any:
    """What the console says of itself."""
    reader, writer = await asyncio.open_connection(host, port)
    asked = f"GET /api/load HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    writer.write(asked.encode())
    body = (await reader.read(-1)).partition(b"\r\n\r\n")[2]
    writer.close()
    return json.loads(body)


async def view(host: str, port: int, seen: dict[str, list[float]], count: list[int]) -> None:
    """One viewer: reads the stream, and notes when it hears of each new topic."""
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 24)
    wish = "want=/api/health&want=/api/squares"
    writer.write(f"GET /api/events?{wish} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        while line := await reader.readline():
            count[0] += len(line)
            if b"late-" in line and line.startswith(b"data:"):
                now = time.time()
                for name, times in seen.items():
                    if name.encode() in line:
                        times.append(now)
    writer.close()


async def measure(wishes: argparse.Namespace, servers: str, url: str, pids: list[int]) -> Any:
    host, _, port_text = url.removeprefix("http://").rstrip("/").rpartition(":")
    port = int(port_text)
    shown = await load(host, port)
    assert shown["topics"] >= wishes.topics, f"the console shows {shown['topics']} topics"
    pages = [await get(host, port, path) for path in ("/", "/topics", "/topics/t-00001") * 3]
    seen: dict[str, list[float]] = {}
    count = [0]
    tasks = [asyncio.create_task(view(host, port, seen, count)) for _ in range(wishes.viewers)]
    await asyncio.sleep(5)
    count[0] = 0
    before, began = [cpu_s(pid) for pid in pids], time.monotonic()
    delays: list[float] = []
    number = 0
    while time.monotonic() - began < wishes.seconds:
        name = f"late-{number:05d}"
        number += 1
        seen[name] = []
        await create(servers, [name], 1)
        made = time.time()  # the answer: a viewer may have heard before, which counts as 0
        await asyncio.sleep(1.0)
        delays += [max(0.0, each - made) for each in seen.pop(name)[: wishes.viewers]]
    passed = time.monotonic() - began
    used = [(cpu_s(pid) - at) / passed for pid, at in zip(pids, before, strict=True)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "topics_shown": shown["topics"],
        "share_of_a_broker": (await load(host, port))["share"],
        "first_page_ms": round(statistics.median(s for s, _ in pages[0::3]) * 1000, 1),
        "first_page_kb": round(pages[0][1] / 1000, 1),
        "topics_page_ms": round(statistics.median(s for s, _ in pages[1::3]) * 1000, 1),
        "topic_page_ms": round(statistics.median(s for s, _ in pages[2::3]) * 1000, 1),
        "console_cpu_share": round(used[0], 3),
        "cluster_cpu_share": round(used[1], 3),
        "console_mb": round(memory_mb(pids[0]), 1),
        "stream_kb_s_a_viewer": round(count[0] / 1000 / passed / max(1, wishes.viewers), 2),
        "heard": len(delays),
        "changes": number,
        "delay_ms_p50": round(statistics.median(delays) * 1000) if delays else None,
        "delay_ms_p99": round(sorted(delays)[int(len(delays) * 0.99)] * 1000) if delays else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    wishes = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        cluster, line = started("up", "--port", "0", "--data", data)
        servers = line.split()[0]
        names = [f"t-{n:05d}" for n in range(wishes.topics)]
        began = time.monotonic()
        asyncio.run(create(servers, names, wishes.partitions))
        created_s = time.monotonic() - began
        began = time.monotonic()
        console, url = started("console", "--port", "0", "-b", servers)
        ready_s = time.monotonic() - began
        try:
            time.sleep(15)
            found = asyncio.run(measure(wishes, servers, url, [console.pid, cluster.pid]))
        finally:
            for process in (console, cluster):
                process.terminate()
                process.wait(60)
                if process.stdout is not None:
                    process.stdout.close()
    asked = {"topics": wishes.topics, "partitions": wishes.topics * wishes.partitions}
    asked |= {"viewers": wishes.viewers, "seconds": wishes.seconds}
    times = {"created_s": round(created_s, 1), "ready_s": round(ready_s, 2)}
    print(json.dumps({**asked, **times, **found, "load": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
