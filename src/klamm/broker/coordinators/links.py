"""Connections from a coordinator to other brokers: one for each, one request at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from klamm.broker.net.peers import Peers
from klamm.client.aio.connection import Connection
from klamm.model.brokers import Endpoint
from klamm.model.errors import KlammError
from klamm.model.names import BrokerId
from klamm.protocol.apis import ApiKey


class Links:
    """Connections that are made when needed and thrown away when anything goes wrong on them."""

    def __init__(self, peers: Peers, name: str) -> None:
        self._peers = peers
        self._name = name
        self._connections: dict[BrokerId, tuple[Endpoint, Connection]] = {}
        self._locks: dict[BrokerId, asyncio.Lock] = {}

    async def ask(self, to: BrokerId, key: ApiKey, version: int, request: Any) -> Any:
        """The answer of a broker; `KlammError` or OSError when there is none."""
        async with self._locks.setdefault(to, asyncio.Lock()):
            connection = await self._connect(to)
            try:
                return await connection.request(key, version, request)
            except BaseException:
                self._connections.pop(to, None)
                await connection.close()
                raise

    async def close(self) -> None:
        for _, connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _connect(self, to: BrokerId) -> Connection:
        endpoint = self._peers.endpoint(to)
        if endpoint is None:
            raise KlammError(f"broker {to} is not alive")
        known = self._connections.get(to)
        if known is not None and known[0] == endpoint and not known[1].is_closed:
            return known[1]
        connection = await self._peers.connect(to, endpoint, self._name)
        self._connections[to] = (endpoint, connection)
        return connection
