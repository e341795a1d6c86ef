"""Settings that change while the broker runs.

The store has the settings of every topic, broker, user and client id. A change of them comes with a
numbered marker under /config/changes; every broker watches for markers, reads what each names, and
acts on it. The markers there at the start are skipped, for all settings are read after them.
Markers are swept away after a quarter of an hour by whoever comes first, and after a minute where
there are thousands of them: the list of a node's children has to fit into one answer of ZooKeeper.

Creating a topic makes no marker. Its overrides are read when the first of its logs is made here
(`learn`), and forgotten with the topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from klamm.broker.admin import topic_writes
from klamm.broker.admin.passwords import Passwords
from klamm.broker.clock import Clock
from klamm.broker.quotas.quotas import Quotas
from klamm.model.errors import StoreUnavailable
from klamm.model.names import BrokerId
from klamm.model.settings import (
    BrokerSettings,
    TopicSettings,
    broker_fault,
    unknown_settings,
    unknown_warning,
)
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Delete, Session, Unwatch

log = logging.getLogger(__name__)

_MARKER_LIFE_MS: Final = 15 * 60 * 1000
_MARKERS_MAX: Final = 1000
# Longer than a broker can be without a word from the store and still keep its session: one that
# missed a marker comes back with a new session, and reads everything.
_MARKER_LIFE_MS_MIN: Final = 60 * 1000


class DynamicConfigHost(Protocol):
    """The services the settings need of their broker."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def session(self) -> Session: ...


class DynamicConfig:
    """The settings in force on one broker.

    Those who hear of a change of the broker's own know that every topic's may have changed.
    """

    def __init__(
        self, host: DynamicConfigHost, quotas: Quotas, clock: Clock, settings: BrokerSettings
    ) -> None:
        self.settings = settings
        self.on_topic: list[Callable[[str, TopicSettings], None]] = []
        self.on_broker: list[Callable[[BrokerSettings], None]] = []
        self.on_user: list[Callable[[str, Mapping[str, str]], None]] = []  # also those at the start
        self.on_users: list[Callable[[frozenset[str]], None]] = []  # all who have settings
        self._host = host
        self._quotas = quotas
        self._passwords = Passwords(settings)
        self._clock = clock
        self._topics: dict[str, Mapping[str, str]] = {}  # overrides; no entry for a topic without
        self._told: set[str] = set()  # names that nobody knows
        self._last = -1  # the number of the last marker that was read
        self._acted = asyncio.Condition()
        self._acted_upon = -1  # the number of the last marker that was acted upon
        self._markers: dict[str, int] = {}  # when each marker was made
        self._hinted = asyncio.Event()
        self._unwatch: Unwatch | None = None
        self._following: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read everything; from then on `settings` and `topic` are right."""
        session = self._host.session
        markers = await session.children(layout.CONFIG_CHANGES) or ()
        self._last = max(map(layout.sequence, markers), default=self._last)
        await self._note(session, markers)
        await self._load_brokers(session)
        await self._load_topics(session)
        await self._load_quotas()
        self._acted_upon = self._last

    def follow(self) -> None:
        """Act on changes from now on; again after the session was replaced."""
        if self._unwatch is not None:
            self._unwatch()
        self._unwatch = self._host.session.watch_children(layout.CONFIG_CHANGES, self._hinted.set)
        self._hinted.set()
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(
                self._follow(), name="dynamic settings"
            )

    async def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
            self._following = None

    def overrides(self, topic: str) -> Mapping[str, str]:
        """A topic's own settings, as far as this broker has needed them."""
        return self._topics.get(topic, {})

    def topic(self, topic: str) -> TopicSettings:
        """A topic's settings in force."""
        return self.settings.for_topic(self.overrides(topic))

    async def learn(self, topics: Iterable[str]) -> None:
        """Read the overrides of topics that are about to get their first log here."""
        names = list(topics)
        entities = [ConfigEntity(ConfigKind.TOPIC, name) for name in names]
        for name, texts in zip(names, await _read(self._host.session, entities), strict=True):
            self._remember(name, texts)

    async def learnt(self, topics: Iterable[str]) -> Mapping[str, TopicSettings]:
        """The settings of topics whose logs are about to be made here."""
        names = list(topics)
        await self.learn(names)
        return {name: self.topic(name) for name in names}

    def forget(self, topic: str) -> None:
        """The topic is gone; one of the same name may come with other settings."""
        self._topics.pop(topic, None)

    async def caught_up(self) -> None:
        """Wait until every change announced so far is in force here."""
        markers = await self._host.session.children(layout.CONFIG_CHANGES) or ()
        last = max(map(layout.sequence, markers), default=-1)
        async with self._acted:
            await self._acted.wait_for(lambda: self._acted_upon >= last)

    async def _follow(self) -> None:
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            try:
                await self._act_on_markers()
                await self._sweep()
                async with self._acted:
                    self._acted_upon = self._last
                    self._acted.notify_all()
            except StoreUnavailable:
                log.warning("settings cannot be read now; a new session will read them again")

    async def _act_on_markers(self) -> None:
        session = self._host.session
        names = await session.children(layout.CONFIG_CHANGES) or ()
        new = sorted((n for n in names if layout.sequence(n) > self._last), key=layout.sequence)
        entities = await self._note(session, new)
        # Ten changes of one topic are one.
        for entity in dict.fromkeys(entities):
            await self._act_or_skip(session, entity)
        if new:
            self._last = layout.sequence(new[-1])

    async def _note(self, session: Session, names: Iterable[str]) -> list[ConfigEntity]:
        markers = list(names)
        nodes = await session.get_many([f"{layout.CONFIG_CHANGES}/{name}" for name in markers])
        entities: list[ConfigEntity] = []
        for name, node in zip(markers, nodes, strict=True):
            if node is None:
                continue
            self._markers[name] = node.stat.ctime_ms
            entity = layout.decode_config_change(node.data)
            if entity is None:
                log.warning("a change of settings makes no sense", extra={"marker": name})
            else:
                entities.append(entity)
        return entities

    async def _act_or_skip(self, session: Session, entity: ConfigEntity) -> None:
        """One change that cannot be followed must not stop those behind it."""
        try:
            await self._act(session, entity)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("a change of settings is skipped", extra={"entity": entity.entity_path})

    async def _act(self, session: Session, entity: ConfigEntity) -> None:
        (texts,) = await _read(session, [entity])
        match entity.kind:
            case ConfigKind.TOPIC if entity.name is not None:
                self._topic_changed(entity.name, texts)
            case ConfigKind.BROKER:
                await self._load_brokers(session)
            case ConfigKind.USER | ConfigKind.CLIENT | ConfigKind.IP:
                self._tell_of_user(entity, texts)
                self._quotas.set_limits(entity, _numbers(texts))
            case _:
                log.warning("nobody has these settings", extra={"entity": entity.entity_path})

    def _topic_changed(self, topic: str, texts: Mapping[str, str]) -> None:
        self._remember(topic, texts)
        self._tell_of_topic(topic)

    def _tell_of_topic(self, topic: str) -> None:
        settings = self.topic(topic)
        for hook in self.on_topic:
            hook(topic, settings)

    def _remember(self, topic: str, texts: Mapping[str, str]) -> None:
        if texts:
            self._topics[topic] = texts
        else:
            self._topics.pop(topic, None)

    async def _load_brokers(self, session: Session) -> None:
        default = ConfigEntity(ConfigKind.BROKER, None)
        own = ConfigEntity(ConfigKind.BROKER, str(self._host.id))
        cluster_texts, own_texts = await _read(session, [default, own])
        # To open passwords takes as long as whoever hid them wanted it to.
        cluster_texts = await asyncio.to_thread(self._passwords.opened, cluster_texts)
        if self._passwords.is_outdated(own_texts):
            await topic_writes.alter_config(session, own, self._hidden_anew)
        own_texts = await asyncio.to_thread(self._passwords.opened, own_texts)
        old = self.settings
        settings = old.with_overrides(self._valid(cluster_texts), self._valid(own_texts))
        if (settings.cluster_dynamic, settings.own_dynamic) == (
            old.cluster_dynamic,
            old.own_dynamic,
        ):
            return
        self.settings = settings
        for hook in self.on_broker:
            hook(settings)

    def _hidden_anew(self, stored: Mapping[str, str]) -> dict[str, str]:
        """The same settings, with passwords under the secret of today."""
        clear, locked = self._passwords.opened(stored), self._passwords.locked(stored)
        return self._passwords.hidden(clear, stored, locked)

    def _valid(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The stored settings that make sense; each unknown name is told of once."""
        strange = unknown_settings(texts)
        for name in strange.keys() - self._told:
            log.warning(unknown_warning(name))
        self._told |= strange.keys()
        return _valid({name: text for name, text in texts.items() if name not in strange})

    async def _load_topics(self, session: Session) -> None:
        names = await session.children(f"{layout.CONFIG}/{ConfigKind.TOPIC}") or ()
        before = dict(self._topics)
        await self.learn(names)
        for name in names:
            if before.get(name, {}) != self.overrides(name):
                self._tell_of_topic(name)

    async def stored_quotas(self) -> dict[ConfigEntity, dict[str, float]]:
        """The quotas of everyone who has any."""
        entities = await _quota_entities(self._host.session)
        texts = await _read(self._host.session, entities)
        limits = ((entity, _numbers(each)) for entity, each in zip(entities, texts, strict=True))
        return {entity: numbers for entity, numbers in limits if numbers}

    def _tell_of_user(self, entity: ConfigEntity, texts: Mapping[str, str]) -> None:
        if entity.kind is ConfigKind.USER and entity.name is not None:
            for hook in self.on_user:
                hook(entity.name, texts)

    async def _load_quotas(self) -> None:
        entities = await _quota_entities(self._host.session)
        read = dict(zip(entities, await _read(self._host.session, entities), strict=True))
        users = {e.name for e in entities if e.kind is ConfigKind.USER and e.name is not None}
        for forget in self.on_users:
            forget(frozenset(users))
        for entity, texts in read.items():
            self._tell_of_user(entity, texts)
        numbers = {entity: _numbers(texts) for entity, texts in read.items()}
        stored = {entity: limits for entity, limits in numbers.items() if limits}
        for entity in self._quotas.limits.keys() - stored.keys():
            self._quotas.set_limits(entity, {})
        for entity, limits in stored.items():
            self._quotas.set_limits(entity, limits)

    async def _sweep(self) -> None:
        """Remove old markers. Other brokers try the same, so one that is gone is no surprise."""
        life_ms = _MARKER_LIFE_MS if len(self._markers) <= _MARKERS_MAX else _MARKER_LIFE_MS_MIN
        due_ms = self._clock.now_ms() - life_ms
        old = [name for name, made_ms in self._markers.items() if made_ms < due_ms]
        if not old:
            return
        paths = (f"{layout.CONFIG_CHANGES}/{name}" for name in old)
        await self._host.session.multis([Delete(path)] for path in paths)
        for name in old:
            del self._markers[name]


async def _quota_entities(session: Session) -> list[ConfigEntity]:
    """Everyone who has settings under users, clients and addresses."""
    found: list[ConfigEntity] = []
    for kind in (ConfigKind.CLIENT, ConfigKind.IP):
        found += await _below(session, kind, None)
    users = await _below(session, ConfigKind.USER, None)
    for user in users:
        found += [user, *await _below(session, ConfigKind.CLIENT, user)]
    return found


async def _below(
    session: Session, kind: ConfigKind, user: ConfigEntity | None
) -> list[ConfigEntity]:
    above = layout.CONFIG if user is None else user.path
    prefix = "" if user is None else f"{user.entity_path}/"
    names = await session.children(f"{above}/{kind}") or ()
    entities = (layout.decode_entity_path(f"{prefix}{kind}/{name}") for name in names)
    return [entity for entity in entities if entity is not None]


async def _read(session: Session, entities: list[ConfigEntity]) -> list[dict[str, str]]:
    paths = [path for entity in entities for path in entity.paths]
    found = iter(await session.get_many(paths))
    return [
        layout.decode_configs(node.data if node else None for node in islice(found, len(e.paths)))
        for e in entities
    ]


def _valid(texts: Mapping[str, str]) -> dict[str, str]:
    """The valid part of what is stored; the rest was written past the API."""
    good = {name: text for name, text in texts.items() if broker_fault({name: text}) is None}
    for name in texts.keys() - good.keys():
        log.warning("a stored setting of brokers is left out", extra={"setting": name})
    return good


def _numbers(texts: Mapping[str, str]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, text in texts.items():
        with suppress(ValueError):
            numbers[name] = float(text)
    return numbers
