"""The settings of a cluster that does not run, read and changed where they are stored.

For the day on which a setting keeps the cluster from coming up, or clients from getting in. It is
the store of a stopped cluster (the data directory is locked meanwhile, so that it stays stopped) or
a ZooKeeper, whose brokers may run: they hear of a change as of any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from klamm.client.aio.admin import ConfigResource
from klamm.client.settings import gathered
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import NotThere, StoreUnavailable, UsageError
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
class StorePlace:
    """The place where a stopped cluster keeps its metadata."""

    data: Path | None = None
    zookeeper: str | None = None
    login: tuple[str, ...] = ()  # how ZooKeeper is reached: files of settings, or name=value


def stored(place: StorePlace, subject: ConfigResource) -> dict[str, str]:
    """The stored settings of a topic, a broker or all brokers; secrets are not shown."""

    async def read() -> dict[str, str]:
        async with _opened(place) as session:
            entity = _entity(subject)
            await _check_there(session, entity)
            return await _read(session, entity)

    known = TOPIC_SETTINGS if subject.type is ConfigResourceType.TOPIC else BROKER_SETTINGS
    return {
        name: _HIDDEN if name in known and known[name].is_sensitive else text
        for name, text in asyncio.run(read()).items()
    }


def change(
    place: StorePlace,
    subject: ConfigResource,
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
async def _opened(place: StorePlace) -> AsyncIterator[Session]:
    # Not at the top: most commands speak the wire and never need a store.
    from klamm.cli.store.place import NamedStore, on_zookeeper, own_zookeeper
    from klamm.datadir import STORE_NAME, ZOOKEEPER_NAME, DataDirectory, default_data
    from klamm.store.embedded import EmbeddedStore

    login = tuple(f"{name}={text}" for name, text in gathered(place.login).items())
    store = NamedStore(place.data, place.zookeeper, login)
    async with AsyncExitStack() as stack:
        if place.zookeeper is not None:
            yield await (await on_zookeeper(stack, store)).connect()
            return
        path = place.data or default_data()
        is_own = (path / ZOOKEEPER_NAME).is_dir() and not (path / STORE_NAME).exists()
        if not is_own and not any(path.glob(f"{STORE_NAME}*")):
            raise UsageError(f"there is no cluster in {path}; name another with --data")
        directory = stack.enter_context(DataDirectory.claim(path))
        if is_own:
            session, _ = await own_zookeeper(stack, store, directory, writes=True)
            yield session
            return
        embedded = EmbeddedStore.open(directory.store)
        stack.push_async_callback(embedded.close)
        yield await embedded.connect()


def _entity(subject: ConfigResource) -> ConfigEntity:
    if subject.type is ConfigResourceType.TOPIC:
        return ConfigEntity(ConfigKind.TOPIC, subject.name)
    return ConfigEntity(ConfigKind.BROKER, subject.name or None)


async def _check_there(session: Session, entity: ConfigEntity) -> None:
    if entity.kind is ConfigKind.TOPIC:
        assert entity.name is not None, entity
        if "/" in entity.name or await session.get(layout.topic_path(entity.name)) is None:
            raise NotThere(f"there is no topic {entity.name!r}")


async def _read(session: Session, entity: ConfigEntity) -> dict[str, str]:
    nodes = await session.get_many(entity.paths)
    return layout.decode_configs(node.data if node else None for node in nodes)


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
    ops: list[Op] = []
    for path, data in layout.encode_configs(entity, after).items():
        node = await session.get(path)
        if node is not None:
            ops.append(SetData(path, data, node.stat.version))
        elif path == entity.path or layout.decode_config(data):
            above = layout.with_parents([layout.parent(path)])
            await session.multis([Create(each)] for each in above)
            ops.append(Create(path, data))
    marker = layout.encode_config_change(entity)
    ops.append(Create(layout.CONFIG_CHANGE_PREFIX, marker, sequential=True))
    for result in await session.multi(ops):
        if not result.ok:
            raise StoreUnavailable(f"{entity.path} was not written: {result.outcome}; try again")
