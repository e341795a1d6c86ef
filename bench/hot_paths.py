"""What one Produce costs the broker's Python, in microseconds of processor time.

A real broker on real files, and a real connection whose socket swallows what it is given: all that
a request meets between the system's `recv` and its `send`, the `pwrite` to the log among it. The
two calls, the loop's turn around them and the other end's work come on top; `bytes.py` has those.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from authorization import lists
from measure import Measure

from klamm.app.one_process import ClusterApp
from klamm.app.plan import Plan
from klamm.broker.net.connection import Connection
from klamm.broker.producing.shortcut import ProduceShortcut
from klamm.broker.router import Router
from klamm.protocol import produce
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.frames import encode_request_frame
from klamm.security.authorization.acls import Acl, Operation, Pattern, Permission, ResourceType
from klamm.security.authorization.snapshot import Snapshot
from klamm.view import ClusterView

PRODUCE_VERSION = 10
COUNT = 200
BEST_OF = 60
ACLS = "kafka.security.authorizer.AclAuthorizer"
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


async def _serve(frame: bytes, settings: dict[str, str]) -> float:
    app = ClusterApp(Plan(brokers=1, settings=settings))
    await app.start()
    try:
        await app.create_topic("load", 1, 1, {})
        await app.wait_until(
            lambda view: all("load" in b.topics for b in view.brokers.values()), 10
        )
        parts = app.brokers[0].parts
        if parts.access.lists is not None:
            parts.access.lists.replace(_ten_thousand())
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


def _ten_thousand() -> Snapshot:
    """The lists of `authorization.py`, and one that lets this client in."""
    mine = Acl("User:ANONYMOUS", "*", Operation.WRITE, Permission.ALLOW)
    return lists().replaced({Pattern(ResourceType.TOPIC, "load"): [mine]})


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


def produce_request(size: int, settings: dict[str, str] | None = None) -> float:
    return asyncio.run(_serve(_produce_frame(size), settings or {}))


def produce_guarded(size: int) -> float:
    """The same where each is asked for its right, among 10,000 ACLs."""
    # Those who set the stage may do everything until there are lists.
    guard = {"authorizer.class.name": ACLS, "allow.everyone.if.no.acl.found": "true"}
    return produce_request(size, guard)


_SERVE = "a Produce of {}, acks=1".format

MEASURES = (
    Measure("serve-produce-100", _SERVE("100 B"), "us", lambda: produce_request(100), 25.0),
    Measure("serve-produce-16k", _SERVE("16 kB"), "us", lambda: produce_request(16_000)),
    Measure("serve-produce-100-acls", _SERVE("100 B and ACLs"), "us", lambda: produce_guarded(100)),
)
