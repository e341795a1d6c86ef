"""All listeners of a broker: they share its limits, and open and close one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import chain

from klamm.broker.net.connection import Connection
from klamm.broker.net.descriptors import OF_PROCESS, Descriptors
from klamm.broker.net.listener import Listener
from klamm.broker.net.welcome import Limits
from klamm.security.listeners import endpoints

# Makes a listener for a place; it is told whom to call when there is room.
Make = Callable[[endpoints.Listener, Callable[[], None]], Listener]


class Listeners:
    """The listeners of one broker by name."""

    def __init__(
        self, make: Make, limits: Limits | None = None, descriptors: Descriptors = OF_PROCESS
    ) -> None:
        self._make = make
        self._limits = limits
        self._descriptors = descriptors
        self._open: dict[str, Listener] = {}
        self._ports: dict[str, int] = {}
        self._has_entered = False

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener that is open."""
        return dict(self._ports)

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(chain.from_iterable(one.connections for one in self._open.values()))

    @property
    def connection_count(self) -> int:
        """The number of connections that are served, or about to be turned away."""
        return sum(one.connection_count for one in self._open.values())

    async def open(self, places: Iterable[endpoints.Listener]) -> None:
        """Listen at all these places, or, where one cannot be had, at none of them."""
        opened: list[str] = []
        if not self._has_entered:
            self._has_entered = True
            self._descriptors.enter()
        try:
            for place in places:
                listener = self._make(place, self.let_in)
                self._ports[place.name] = await listener.start(place.host, place.port)
                self._open[place.name] = listener
                opened.append(place.name)
        except BaseException:
            await self.close(opened)
            raise

    async def close(self, names: Iterable[str]) -> None:
        """Close these listeners and their connections."""
        closing = [self._open.pop(name) for name in names]
        self._ports = {name: port for name, port in self._ports.items() if name in self._open}
        await asyncio.gather(*(listener.stop() for listener in closing))

    def let_in(self) -> None:
        """Serve those that waited for room, as far as there is some now."""
        for listener in self._open.values():
            listener.let_in()

    def sweep(self) -> None:
        """Close what is idle or one too many; take memory back from what is quiet."""
        self._drop_excess()
        for listener in self._open.values():
            listener.sweep()

    def _drop_excess(self) -> None:
        """Close those that have been quiet for longest, where fewer may be there than are."""
        excess = -self._limits.room if self._limits is not None else 0
        if excess > 0:
            counted = chain.from_iterable(one.counted for one in self._open.values())
            quietest = sorted(counted, key=lambda c: (not c.is_idle, c.active_at))
            for connection in quietest[:excess]:
                connection.close()

    async def stop(self) -> None:
        """Accept no more; let what was written go out and close every connection."""
        await asyncio.gather(*(listener.stop() for listener in self._open.values()))
        self._leave()

    async def kill(self) -> None:
        """Drop everything as a crash would."""
        await asyncio.gather(*(listener.kill() for listener in self._open.values()))
        self._leave()

    def _leave(self) -> None:
        if self._has_entered:
            self._has_entered = False
            self._descriptors.leave()
