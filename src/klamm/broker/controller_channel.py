"""The way to whoever is the controller now.

One connection, used for one request at a time, opened to the broker that the metadata names as the
controller. Who that is may be out of date; callers hear NOT_CONTROLLER, or nothing at all, and try
again after a moment. A controller that is silent is not waited for once another one is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.net.peers import Peers
from klamm.client.aio.connection import Connection
from klamm.model.brokers import Endpoint
from klamm.model.errors import KlammError
from klamm.protocol.apis import ApiKey

_TIMEOUT_S: Final = 30.0


class ControllerUnreachable(KlammError):
    """Nobody answers as the controller; another try may find it."""


class ControllerChannel:
    """Requests from one broker to the controller."""

    def __init__(self, metadata: MetadataCache, peers: Peers, name: Callable[[], str]) -> None:
        self._metadata = metadata
        self._peers = peers
        self._name = name
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._endpoint: Endpoint | None = None

    async def request(
        self, key: ApiKey, version: int, message: Any, *, timeout_s: float = _TIMEOUT_S
    ) -> Any:
        """The controller's answer; `ControllerUnreachable` when there is none."""
        async with self._lock:
            try:
                async with asyncio.timeout(timeout_s):
                    connection = await self._connect()
                    return await self._answer(connection.request(key, version, message))
            except (OSError, TimeoutError, KlammError) as fault:
                await self.close()
                raise ControllerUnreachable(str(fault) or type(fault).__name__) from fault
            except asyncio.CancelledError:
                # An answer is on its way that nobody will read.
                await self.close()
                raise

    async def _connect(self) -> Connection:
        snapshot = self._metadata.snapshot
        endpoint = self._peers.endpoint_as_controller(snapshot.controller_id)
        if endpoint is None:
            raise ControllerUnreachable("no controller is known")
        if self._connection is None or endpoint != self._endpoint:
            await self.close()
            to = snapshot.controller_id
            self._connection = await self._peers.connect(to, endpoint, self._name())
            self._endpoint = endpoint
        return self._connection

    async def _answer(self, request: Coroutine[Any, Any, Any]) -> Any:
        asked = asyncio.ensure_future(request)
        replaced = asyncio.ensure_future(self._metadata.wait_for(self._is_elsewhere))
        try:
            await asyncio.wait({asked, replaced}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise ControllerUnreachable("another controller was elected meanwhile")
            return asked.result()
        finally:
            asked.cancel()
            replaced.cancel()
            await asyncio.gather(asked, replaced, return_exceptions=True)

    def _is_elsewhere(self, _: object) -> bool:
        endpoint = self._peers.endpoint_as_controller(self._metadata.snapshot.controller_id)
        return endpoint is not None and endpoint != self._endpoint

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
