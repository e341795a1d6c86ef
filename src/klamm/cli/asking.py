"""Connects a command to the cluster: one client and one loop, as long as the command runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from klamm.cli.reach import Reach, reach_of
from klamm.client.aio.admin import Admin
from klamm.client.aio.visit import visit
from klamm.client.errors import Declined
from klamm.client.settings import ClientSettings

T = TypeVar("T")


def run(
    reach: Reach | str,
    work: Callable[[Admin], Awaitable[T]],
    settings: ClientSettings | None = None,
) -> T:
    """Does this work with a client that is closed afterwards."""
    place = reach_of(reach)
    return visit(place.servers, settings or place.settings, work)


def bare(error: Exception) -> str:
    """The message of whoever refused, as Kafka's own tools print it."""
    return error.said if isinstance(error, Declined) else str(error)
