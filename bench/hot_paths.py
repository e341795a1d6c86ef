"""What one Produce costs the broker's Python, in microseconds of processor time.

A real broker on real files, and a real connection whose socket swallows what it is given: all that
a request meets between the system's `recv` and its `send`, the `pwrite` to the log among it. The
two calls, the loop's turn around them and the other end's work come on top; `bytes.py` has those.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from measure import Measure

from klamm.app import ClusterApp, Plan
from klamm.broker.net.connection import Connection
from klamm.broker.producing.shortcut import ProduceShortcut
from klamm.broker.router import Router
from klamm.protocol import produce
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.frames import encode_request_frame
from klamm.view import ClusterView

PRODUCE_VERSION = 10
COUNT = 200
BEST_OF = 60
NOW = 1_700_000_000_000


class _Drain(asyncio.Transport):
    """A socket that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return _Socket() if name == "socket" else default

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.taken += len(data)


class _Socket:
    def setsockopt(self, *_: int) -> None:
        pass

    def fileno(self) -> int:
        return -1


class _Nobody:
    def joined(self, connection: Connection) -> None:
        pass

    def left(self, connection: Connection) -> None:
        pass


async def _serve(frame: bytes) -> float:
    app = ClusterApp(Plan(brokers=1))
    await app.start()
    try:
        await app.create_topic("load", 1, 1, {})
        await app.wait_until(
            lambda view: all("load" in b.topics for b in view.brokers.values()), 10
        )
        parts = app.brokers[0].parts
        connection = Connection(
            Router(parts, ProduceShortcut(parts)).route,
            _Nobody(),
            frame_size_max=100 << 20,
            listener="PLAINTEXT",
        )
        drain = _Drain()
        connection.connection_made(drain)
        best = float("inf")
        for _ in range(BEST_OF):
            started = time.process_time()
            for _ in range(COUNT):
                at = 0
                while at < len(frame):
                    space = connection.get_buffer(-1)
                    size = min(len(space), len(frame) - at)
                    space[:size] = frame[at : at + size]
                    at += size
                    connection.buffer_updated(size)
            best = min(best, (time.process_time() - started) / COUNT)
        assert drain.taken, "nothing was answered"
        return best * 1e6
    finally:
        await app.kill()


def _has_load(view: ClusterView) -> bool:
    return all("load" in broker.topics for broker in view.brokers.values())


def _produce_frame(size: int) -> bytes:
    batch = encode_batch([Record(0, NOW, None, b"x" * size)])
    request = produce.ProduceRequest(
        None,
        1,
        30_000,
        [produce.TopicRecords("load", [produce.PartitionRecords(0, memoryview(batch))])],
    )
    body = b"".join(produce.encode_request(PRODUCE_VERSION, request))
    return encode_request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "bench", body)


def produce_request(size: int) -> float:
    return asyncio.run(_serve(_produce_frame(size)))


MEASURES = tuple(
    Measure(f"serve-produce-{name}", f"a Produce of {name} B, acks=1", "us", run, goal)
    for name, run, goal in (
        ("100", partial(produce_request, 100), 25.0),
        ("16k", partial(produce_request, 16_000), None),
    )
)
