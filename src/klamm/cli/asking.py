"""Connects a command to the cluster: one client and one loop, as long as the command runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from klamm.cli.reach import Reach, reach_of
from klamm.client.admin import Admin
from klamm.client.cluster import Client
from klamm.client.errors import code_of
from klamm.client.settings import ClientSettings
from klamm.model.errors import ErrorCode, RequestRefused

T = TypeVar("T")


def run(
    reach: Reach | str,
    work: Callable[[Admin], Awaitable[T]],
    settings: ClientSettings | None = None,
) -> T:
    """Do this work with a client that is closed afterwards."""
    place = reach_of(reach)
    given = settings or place.settings

    async def main() -> T:
        async with (
            Client(place.servers) if given is None else Client.of(place.servers, given)
        ) as client:
            await client.reach()
            return await work(Admin(client))

    return asyncio.run(main())


class Declined(RequestRefused):
    """A broker said no about something; `said` is its own words alone."""

    def __init__(self, code: ErrorCode, about: object, said: str) -> None:
        super().__init__(code, about_it(about, said))
        self.said = said


def about_it(about: object, said: str) -> str:
    """Puts the subject in front of a message, unless it begins with it already."""
    return said if said.startswith(str(about)) else f"{about}: {said}"


def refuse(code: int, about: object, message: str | None = None) -> None:
    """Raise where one of the answers says no."""
    if code:
        name = code_of(code)
        raise Declined(name, about, message or name.name)


def bare(error: Exception) -> str:
    """The message of whoever refused, as Kafka's own tools print it."""
    return error.said if isinstance(error, Declined) else str(error)
