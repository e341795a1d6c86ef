"""The address that Prometheus scrapes: as much of HTTP as it takes, on the loop of the brokers.

On their loop, because the numbers are theirs and change between any two turns of it; a thread of
its own would have to lock what is counted for every record. A scrape is one turn: it takes as long
as it takes to look at every hosted partition.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from klamm.broker.server import Broker
from klamm.metrics.families import Collector
from klamm.model.errors import UsageError

PATH: Final = "/metrics"
_PATIENCE_S: Final = 10.0
_HEAD_BYTES_MAX: Final = 16 * 1024


class MetricsServer:
    """Answers GET with the metrics of these brokers, whichever of them run."""

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(Collector(brokers))
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.url = ""

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one."""
        try:
            self._server = await asyncio.start_server(
                self._accept, host, port, limit=_HEAD_BYTES_MAX
            )
        except OSError as fault:
            why = fault.strerror
            raise UsageError(f"cannot serve metrics on {host}:{port}: {why}") from fault
        self.url = f"http://{host}:{self._server.sockets[0].getsockname()[1]}{PATH}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in list(self._serving):
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="scrape")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # A peer that says nothing, too much or nonsense, or goes away, gets nothing.
            with contextlib.suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_PATIENCE_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].partition(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"only GET is served here\n")
        if path != PATH:
            return _response("404 Not Found", f"the metrics are at {PATH}\n".encode())
        text = generate_latest(self._registry)
        return _response("200 OK", text, CONTENT_TYPE_LATEST, with_body=method == b"GET")


def _response(
    status: str, body: bytes, kind: str = "text/plain; charset=utf-8", *, with_body: bool = True
) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
