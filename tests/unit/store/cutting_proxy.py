"""A proxy in front of a server that can lose answers: the request arrives, the answer does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count


class CuttingProxy:
    """Passes bytes on until it is told to cut."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self.cuts_count = 0
        # Asked for each chunk of answers, with its number on that connection; the first one answers
        # the greeting. True loses the chunk and breaks the connection.
        self.cut: Callable[[int], bool] = lambda number: False

    def cut_next_answer(self) -> None:
        before = self.cuts_count
        self.cut = lambda number: self.cuts_count == before

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CuttingProxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            up = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            try:
                forward = asyncio.ensure_future(self._pass_on(reader, up[1], answers=False))
                back = asyncio.ensure_future(self._pass_on(up[0], writer, answers=True))
                try:
                    await asyncio.wait({forward, back}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    forward.cancel()
                    back.cancel()
                    await asyncio.gather(forward, back, return_exceptions=True)
            finally:
                up[1].close()
        except OSError:
            pass  # the server is away; so is this connection
        finally:
            writer.close()
            self._connections.discard(task)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        numbers = count(1)
        while chunk := await reader.read(65536):
            if answers and self.cut(next(numbers)):
                self.cuts_count += 1
                return
            writer.write(chunk)
            await writer.drain()
