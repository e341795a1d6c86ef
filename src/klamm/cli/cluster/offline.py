"""The settings of a cluster that does not run, read and changed where they are stored.

For the day on which a setting keeps the cluster from coming up, or clients from getting in. It is
the store of a stopped cluster (the data directory is locked meanwhile, so that it stays stopped) or
a ZooKeeper, whose brokers may run: they hear of a change as of any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from klamm.client.admin import Resource, ResourceType
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.model.settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerSettings,
    Dynamic,
    broker_fault,
    relation_fault,
    topic_faults,
)
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Create, Op, Session, SetData

_HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a stopped cluster keeps its metadata."""

    data: Path | None = None
    zookeeper: str | None = None


def stored(place: Place, subject: Resource) -> dict[str, str]:
    """The stored settings of a topic, a broker or all brokers; secrets are not shown."""

    async def read() -> dict[str, str]:
        async with _opened(place) as session:
            entity = _entity(subject)
            await _check_there(session, entity)
            return await _read(session, entity)

    known = TOPIC_SETTINGS if subject.type is ResourceType.TOPIC else BROKER_SETTINGS
    return {
        name: _HIDDEN if name in known and known[name].is_sensitive else text
        for name, text in asyncio.run(read()).items()
    }


def change(
    place: Place,
    subject: Resource,
    wanted: Mapping[str, str],
    unset: Sequence[str],
    *,
    dry_run: bool,
) -> None:
    """Set and unset; nothing is written where anything is wrong."""

    async def alter() -> None:
        async with _opened(place) as session:
            entity = _entity(subject)
            await _check_there(session, entity)
            before = await _read(session, entity)
            for name in unset:
                if name not in before:
                    raise UsageError(f"{name} is not set for {entity.entity_path}")
            after = {n: text for n, text in before.items() if n not in unset} | dict(wanted)
            if wanted:
                await _check(session, entity, wanted, after)
            if not dry_run:
                await _write(session, entity, after)

    asyncio.run(alter())


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[Session]:
    # Not at the top: most commands speak the wire and never need a store.
    from klamm.datadir import DataDirectory, default_data
    from klamm.store.embedded import EmbeddedStore
    from klamm.store.zookeeper import ZooKeeperStore

    if place.zookeeper is not None:
        store = ZooKeeperStore(place.zookeeper)
        try:
            yield await store.connect()
        finally:
            await store.close()
        return
    path = place.data or default_data()
    if not path.is_dir() or not any(path.glob("store.db*")):
        raise UsageError(f"there is no cluster in {path}; name another with --data")
    with DataDirectory.claim(path) as directory:
        embedded = EmbeddedStore.open(directory.store)
        try:
            yield await embedded.connect()
        finally:
            await embedded.close()


def _entity(subject: Resource) -> ConfigEntity:
    if subject.type is ResourceType.TOPIC:
        return ConfigEntity(ConfigKind.TOPIC, subject.name)
    return ConfigEntity(ConfigKind.BROKER, subject.name or None)


async def _check_there(session: Session, entity: ConfigEntity) -> None:
    if entity.kind is ConfigKind.TOPIC:
        assert entity.name is not None, entity
        if "/" in entity.name or await session.get(layout.topic_path(entity.name)) is None:
            raise UsageError(f"there is no topic {entity.name}")


async def _read(session: Session, entity: ConfigEntity) -> dict[str, str]:
    node = await session.get(entity.path)
    return (layout.decode_config(node.data) if node is not None else None) or {}


async def _check(
    session: Session, entity: ConfigEntity, wanted: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """The rules that a running broker has for a change, as far as it can be known here."""
    cluster = await _read(session, ConfigEntity(ConfigKind.BROKER, None))
    defaults = BrokerSettings.parse({})
    if entity.kind is ConfigKind.TOPIC:
        fault = topic_faults(after, defaults.with_overrides(_sound(cluster), {}))
    else:
        fixed = [n for n in wanted if n in BROKER_SETTINGS and _is_fixed(n)]
        if fixed:
            raise UsageError(f"set at start-up, not stored: {', '.join(fixed)} (klamm up -X)")
        below = {} if entity.name is None else _sound(cluster)
        fault = broker_fault(dict(wanted)) or relation_fault(
            defaults.with_overrides(below, _sound(after))
        )
    if fault is not None:
        raise UsageError(fault)


def _is_fixed(name: str) -> bool:
    return BROKER_SETTINGS[name].dynamic is Dynamic.READ_ONLY


def _sound(texts: Mapping[str, str]) -> dict[str, str]:
    """Without what makes no sense: it must not stand in the way of a repair."""
    return {name: text for name, text in texts.items() if broker_fault({name: text}) is None}


async def _write(session: Session, entity: ConfigEntity, after: Mapping[str, str]) -> None:
    node = await session.get(entity.path)
    data = layout.encode_config(after)
    if node is None:
        above = layout.with_parents([layout.parent(entity.path)])
        await session.multis([Create(path)] for path in above)
    write: Op = Create(entity.path, data)
    if node is not None:
        write = SetData(entity.path, data, node.stat.version)
    marker = Create(
        layout.CONFIG_CHANGE_PREFIX, layout.encode_config_change(entity), sequential=True
    )
    results = await session.multi([write, marker])
    for result in results:
        if not result.ok:
            raise StoreUnavailable(f"{entity.path} was not written: {result.outcome}; try again")
