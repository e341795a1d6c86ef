"""Questions to a cluster or its store from within the program that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from klamm.broker.identity.identity import own_security
from klamm.client.addresses import text
from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.errors import code_of
from klamm.model.brokers import Endpoint
from klamm.model.errors import RequestRefused, StoreUnavailable, UsageError
from klamm.model.settings import BrokerSettings
from klamm.protocol.messages import create_topics
from klamm.store import layout
from klamm.store.port import Create, SetData, Store
from klamm.store.zookeeper_tickets import TICKETS


@asynccontextmanager
async def client(
    places: Sequence[tuple[str, int]], settings: BrokerSettings
) -> AsyncIterator[Client]:
    """A client that comes in as the brokers themselves do."""
    security = await asyncio.to_thread(own_security, settings.static)
    async with Client(places, security=security) as made:
        yield made


async def create_topic(
    client: Client,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
) -> None:
    """Create a topic, as a broker would; -1 leaves a number to the brokers' settings."""
    topic = create_topics.CreatableTopic(
        name,
        partitions,
        replication_factor,
        configs=[create_topics.CreatableTopicConfig(k, v) for k, v in configs.items()],
    )
    (result,) = await Admin(client).create_topics([topic])
    if result.error_code:
        raise RequestRefused(code_of(result.error_code), result.error_message)


def bootstrap(endpoints: Mapping[int, Sequence[Endpoint]], listener: str | None) -> str:
    """Every broker's address on this listener; None: on the first that is advertised."""
    found = [
        endpoint
        for _, own in sorted(endpoints.items())
        for endpoint in (own if listener else own[:1])
        if listener in (None, endpoint.listener)
    ]
    if not found and listener:
        raise UsageError(f"no broker has a listener {listener}")
    return ",".join(text((endpoint.host, endpoint.port)) for endpoint in found)


async def store_paths(store: Store) -> list[str]:
    """Every path in the store, parents first, but for what sessions keep for themselves."""
    session = await store.connect()
    try:
        paths = ["/"]
        for path in paths:  # grows while we walk it
            names = await session.children(path) or ()
            below = (f"{path.rstrip('/')}/{name}" for name in names)
            paths += [each for each in below if each != TICKETS]
        return paths
    finally:
        await session.close()


async def registered(store: Store) -> frozenset[int]:
    """The brokers that the store knows of."""
    session = await store.connect()
    try:
        return frozenset(map(int, await session.children(layout.BROKER_IDS) or ()))
    finally:
        await session.close()


async def drawn_id(store: Store, reserved_max: int) -> int:
    """A broker's number that nobody has had: each write of one node makes its version rise."""
    session = await store.connect()
    try:
        paths = layout.with_parents([layout.BROKER_SEQUENCE])
        await session.multis([Create(path)] for path in paths)
        (written,) = await session.multi([SetData(layout.BROKER_SEQUENCE, b"", version=-1)])
        if not written.ok or written.stat is None:
            raise StoreUnavailable(f"{layout.BROKER_SEQUENCE} cannot be written: {written.outcome}")
        return reserved_max + written.stat.version
    finally:
        await session.close()
