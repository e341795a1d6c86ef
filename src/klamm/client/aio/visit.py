"""Visits a cluster from code that does not wait: a client and a loop for one piece of work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.settings import ClientSettings

T = TypeVar("T")


def visit(
    servers: str, settings: ClientSettings | None, work: Callable[[Admin], Awaitable[T]]
) -> T:
    """Connects, does the work and closes the client."""

    async def main() -> T:
        async with Client(servers) if settings is None else Client.of(servers, settings) as client:
            await client.reach()
            return await work(Admin(client))

    return asyncio.run(main())
