"""How a command talks to the cluster: one client, one loop, for as long as the command takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from klamm.cli.command_config import ClientSettings
from klamm.client.admin import Admin
from klamm.client.cluster import Client, code_of
from klamm.model.errors import ErrorCode, RequestRefused

T = TypeVar("T")


def run(
    bootstrap: str, work: Callable[[Admin], Awaitable[T]], settings: ClientSettings | None = None
) -> T:
    """Do this work with a client that is closed afterwards."""

    async def main() -> T:
        given = Client(bootstrap) if settings is None else _client(bootstrap, settings)
        async with given as client:
            # A client waits for a cluster that restarts; a person who mistyped the port should not.
            await client.to_any(client.deadline())
            return await work(Admin(client))

    return asyncio.run(main())


def _client(bootstrap: str, settings: ClientSettings) -> Client:
    return Client(
        bootstrap,
        client_id=settings.client_id,
        timeout_s=settings.timeout_s,
        request_timeout_s=settings.request_timeout_s,
    )


class Declined(RequestRefused):
    """A broker said no about something; `said` is its own words alone."""

    def __init__(self, code: ErrorCode, about: object, said: str) -> None:
        super().__init__(code, about_it(about, said))
        self.said = said


def about_it(about: object, said: str) -> str:
    """What was said, with its subject where that does not begin it already."""
    return said if said.startswith(str(about)) else f"{about}: {said}"


def refuse(code: int, about: object, message: str | None = None) -> None:
    """Raise where one of the answers says no."""
    if code:
        name = code_of(code)
        raise Declined(name, about, message or name.name)


def bare(error: Exception) -> str:
    """What went wrong in the words of whoever refused, as Kafka's own tools print it."""
    return error.said if isinstance(error, Declined) else str(error)
