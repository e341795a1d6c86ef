"""How a command talks to the cluster: one client, one loop, for as long as the command takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from klamm.client.admin import Admin
from klamm.client.cluster import Client, code_of
from klamm.model.errors import RequestRefused

T = TypeVar("T")


def run(bootstrap: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Do this work with a client that is closed afterwards."""

    async def main() -> T:
        async with Client(bootstrap) as client:
            # A client waits for a cluster that restarts; a person who mistyped the port should not.
            await client.to_any(client.deadline())
            return await work(Admin(client))

    return asyncio.run(main())


def refuse(code: int, about: object, message: str | None = None) -> None:
    """Raise where one of the answers says no."""
    if code:
        name = code_of(code)
        raise RequestRefused(name, f"{about}: {message or name.name}")
