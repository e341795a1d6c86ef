"""A TCP proxy of our own, which can cut, swallow and delay what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

_CHUNK = 64 * 1024


class Proxy:
    """One port in front of another. All proxies of a process share a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: int) -> None:
        self.target = target
        self.port = 0
        self._loop = loop
        self._is_cut = False
        self._delay_s = 0.0
        self._swallows = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._drop)

    def swallow(self) -> None:
        """Let nothing through, and end nothing: the other side is silent."""
        self._swallows = True

    def delay(self, seconds: float) -> None:
        """Hold everything back for this long."""
        self._delay_s = seconds

    def mend(self) -> None:
        """Let everything through again; what was swallowed makes its connection useless."""
        if self._swallows:
            self._loop.call_soon_threadsafe(self._drop)
        self._is_cut, self._swallows, self._delay_s = False, False, 0.0

    def close(self) -> None:
        assert self._server is not None, "it was not opened"
        self._server.close()
        self._drop()

    def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._is_cut:
                return
            theirs, ours = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(ours)
            try:
                await asyncio.gather(self._pass(reader, ours), self._pass(theirs, writer))
            finally:
                self._writers.discard(ours)
                ours.transport.abort()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_CHUNK):
                if self._swallows:
                    continue
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()


class Proxies:
    """The thread that all proxies run on."""

    def __init__(self) -> None:
        self._all: list[Proxy] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxies")
        self._thread.start()

    def before(self, target: int) -> Proxy:
        """A new proxy in front of this port."""
        proxy = Proxy(self._loop, target)
        self._run(proxy.open())
        self._all.append(proxy)
        return proxy

    def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            self._run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _cancel_all(self) -> None:
        for proxy in self._all:
            proxy.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(5)
