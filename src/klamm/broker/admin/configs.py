"""Settings as clients see and change them: whose they are, what they are, what may become of them.

Resources are topics, brokers, with an empty broker name all brokers together, and the loggers of a
broker. What is described is read from the store, so that a client finds what it has just changed;
each broker acts on a change a moment later, when it hears of it (`dynamic_config`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from klamm.broker.access.access import Access
from klamm.broker.admin import loggers, topic_writes
from klamm.broker.admin import topic_admin as admin
from klamm.broker.admin.entries import SettingEntry
from klamm.broker.admin.passwords import Passwords
from klamm.broker.admin.policies import Alteration, Policies
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.seat import Seat
from klamm.controller.admission.alteration import Change, altered, replaced
from klamm.model.alterations import ConfigResourceType
from klamm.model.brokers import Endpoint
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId, name_fault
from klamm.model.settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    UNTOLD,
    BrokerSettings,
    Definition,
    Dynamic,
    Origin,
    Source,
    broker_fault,
    described,
    relation_fault,
    topic_faults,
    unknown_settings,
)
from klamm.model.settings.topic import IMPORTING, is_true
from klamm.security.authorization.acls import CLUSTER_NAME
from klamm.security.authorization.needs import Need
from klamm.security.listeners.reconfiguration import names_fault
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Session

# Everybody's settings of plug-ins are stored, as in Kafka, but not as a place for anything.
_INVALID_VALUE: Final = "Invalid value "  # as Kafka's sentence about a value begins
_FOREIGN_SIZE_MAX: Final = 64 * 1024


class ConfigsHost(admin.TopicAdminHost, Protocol):
    """The services the settings of others need of this broker."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def endpoints(self) -> tuple[Endpoint, ...]: ...

    @property
    def seat(self) -> Seat: ...

    @property
    def policies(self) -> Policies: ...


class NamedResource(Protocol):
    """A thing with settings, as a request names it."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


# Who asks is known of these topics; False: nothing came of it.
Note = Callable[[Sequence[str], bool], Awaitable[None]]
_TWICE: Final = Refused("Each resource must appear at most once.")

R = TypeVar("R", bound=NamedResource)
A = TypeVar("A")
Answer = Callable[[int, str | None, int, str], A]  # code, message, type and name of the resource


def denied(
    access: Access, context: RequestContext, resource: NamedResource, broker: Need, topic: Need
) -> Refused | None:
    """The denial of one resource, of a kind that brokers know. It says nothing of the resource."""
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            need, name = topic, resource.resource_name
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            need, name = broker, CLUSTER_NAME
        case _:
            return None
    code = access.refusal(context, need, name)
    return None if code is None else Refused(need.message or "", code)


async def describe(
    host: ConfigsHost, resource_type: int, name: str, keys: Collection[str] | None
) -> list[SettingEntry] | Refused:
    """The settings of a resource; all of them, or those named."""
    match resource_type:
        case ConfigResourceType.TOPIC:
            refused = _topic_fault(host, name)
            if refused is not None:
                return refused
            entries = await _topic_entries(host, name)
        case ConfigResourceType.BROKER:
            owner = _broker_entity(host, name)
            if isinstance(owner, Refused):
                return owner
            entries = await _broker_entries(host, owner)
        case ConfigResourceType.BROKER_LOGGER:
            refused = _logger_fault(host, name)
            if refused is not None:
                return refused
            entries = loggers.entries()
        case _:
            return Refused(f"resources of type {resource_type} have no settings here")
    return [entry for entry in entries if not keys or entry.definition.name in keys]


def topic_entries(settings: BrokerSettings, overrides: Mapping[str, str]) -> Iterator[SettingEntry]:
    """Every setting of a topic with these overrides."""
    topic = settings.for_topic(overrides)
    for name, definition in TOPIC_SETTINGS.items():
        origins = topic.origins(name)
        yield SettingEntry(definition, topic.text(name), origins[0].source, False, origins)


async def _topic_entries(host: ConfigsHost, topic: str) -> Iterator[SettingEntry]:
    overrides = await _stored(host.session, ConfigEntity(ConfigKind.TOPIC, topic))
    return topic_entries(host.settings, overrides)


async def _broker_entries(host: ConfigsHost, owner: ConfigEntity) -> Iterator[SettingEntry]:
    cluster = await _stored(host.session, ConfigEntity(ConfigKind.BROKER, None))
    if owner.name is None:
        return _cluster_entries(cluster)
    own = await _stored(host.session, owner)
    settings = host.settings
    if settings.source("listeners") is Source.DEFAULT:
        settings = settings.with_static({"listeners": ",".join(map(str, host.endpoints))})
    return _own_entries(settings.with_overrides(cluster, own))


def _cluster_entries(texts: Mapping[str, str]) -> Iterator[SettingEntry]:
    """Only what was set for all brokers: each broker has its own idea of the rest."""
    for name, text in texts.items():
        definition = described(name)
        shown = None if definition.is_sensitive else text
        origin = Origin(name, shown, Source.DYNAMIC_DEFAULT_BROKER)
        read_only = definition.dynamic is Dynamic.READ_ONLY
        yield SettingEntry(definition, shown, origin.source, read_only, [origin])


def _own_entries(settings: BrokerSettings) -> Iterator[SettingEntry]:
    for name, definition in BROKER_SETTINGS.items():
        source, read_only = settings.source(name), definition.dynamic is Dynamic.READ_ONLY
        if name in UNTOLD and source is Source.DEFAULT:
            continue
        hidden = definition.is_sensitive
        value = None if hidden else settings.text(name)
        origins = [o._replace(text=None) if hidden else o for o in settings.origins(name)]
        yield SettingEntry(definition, value, source, read_only, origins)
    for name in settings.further_names:
        definition = described(name)
        origins = settings.origins(name)
        if definition.is_sensitive:
            origins = [origin._replace(text=None) for origin in origins]
        read_only = definition.dynamic is Dynamic.READ_ONLY
        yield SettingEntry(definition, origins[0].text, origins[0].source, read_only, origins)


async def alter_all(
    host: ConfigsHost,
    resources: Sequence[R],
    changes_of: Callable[[R], Sequence[Change]],
    answer: Answer[A],
    *,
    denied: Callable[[R], Refused | None] = lambda _: None,
    incremental: bool,
    validate_only: bool,
    note: Note | None = None,
) -> list[A]:
    """Change the settings of every resource of a request; each has an answer of its own."""
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    outcomes: list[Refused | None] = []
    async for each in in_turns(resources):
        twice = counts[each.resource_type, each.resource_name] > 1
        outcomes.append(_TWICE if twice else denied(each))
    taken = [each for each, refused in zip(resources, outcomes, strict=True) if refused is None]
    if note is not None and not validate_only:
        await note(topics_of(taken), True)
    for at, each in enumerate(resources):
        if outcomes[at] is None:
            outcomes[at] = await alter(
                host,
                each.resource_type,
                each.resource_name,
                changes_of(each),
                incremental=incremental,
                validate_only=validate_only,
            )
    answered = list(zip(resources, outcomes, strict=True))
    failed = [each for each, refused in answered if refused is not None and each in taken]
    if note is not None and not validate_only:
        await note(topics_of(failed), False)
    return [_answered(each, outcome, answer) for each, outcome in answered]


def topics_of(resources: Sequence[NamedResource]) -> list[str]:
    """The topics among the resources of a request."""
    return [r.resource_name for r in resources if r.resource_type == ConfigResourceType.TOPIC]


def refuse_all(
    resources: Sequence[NamedResource], code: ErrorCode, message: str | None, answer: Answer[A]
) -> list[A]:
    """The same refusal for every resource of a request."""
    return [_answered(each, Refused(message or "", code), answer) for each in resources]


def _answered(resource: NamedResource, outcome: Refused | None, answer: Answer[A]) -> A:
    code, message = (0, None) if outcome is None else (int(outcome.code), outcome.why or None)
    return answer(code, message, resource.resource_type, resource.resource_name)


async def alter(
    host: ConfigsHost,
    resource_type: int,
    name: str,
    changes: Sequence[Change],
    *,
    incremental: bool,
    validate_only: bool,
) -> Refused | None:
    """Change the settings of a resource, or say why not."""
    match resource_type:
        case ConfigResourceType.TOPIC:
            refused = _topic_fault(host, name)
            entity: ConfigEntity | Refused = refused or ConfigEntity(ConfigKind.TOPIC, name)
        case ConfigResourceType.BROKER:
            entity = _broker_entity(host, name)
        case ConfigResourceType.BROKER_LOGGER if incremental:
            return _logger_fault(host, name) or loggers.alter(changes, validate_only=validate_only)
        case _:
            why = f"Unknown resource type {resource_type}. It has no settings to change."
            entity = Refused(why)
    if isinstance(entity, Refused):
        return entity
    of_topic = entity.kind is ConfigKind.TOPIC
    owner = (
        _Topic(host.settings, name) if of_topic else _Brokers(host.settings, entity.name is None)
    )

    passwords = Passwords(host.settings)
    if not of_topic:
        # Elsewhere, because it may take long, and before anything is decided: it remembers them.
        await asyncio.to_thread(passwords.opened, await _stored(host.session, entity))

    def planned(stored: Mapping[str, str]) -> dict[str, str] | Refused:
        texts = (
            altered(passwords.opened(stored), changes, owner.table, owner.inherited)
            if incremental
            else replaced(changes)
        )
        if isinstance(texts, Refused):
            return texts
        return (
            owner.fault(texts, changes)
            or _import_refusal(stored, texts)
            or _policy_refusal(host, entity, changes)
            or texts
        )

    def change(stored: Mapping[str, str]) -> dict[str, str] | Refused:
        texts = planned(stored)
        if isinstance(texts, Refused) or of_topic:
            return texts
        named = {one.name for one in changes}
        kept = passwords.locked(stored) - named if incremental else set()
        return passwords.hidden(texts, stored, kept)

    if not of_topic and (refused := await _doors_fault(host, entity, changes, planned)):
        return refused
    if validate_only:
        outcome = planned(await _stored(host.session, entity))
        return outcome if isinstance(outcome, Refused) else None
    refused = await topic_writes.alter_config(host.session, entity, change)
    if refused is None and entity.kind is ConfigKind.BROKER and host.seat.doors is not None:
        # As in Kafka, also where nothing has changed but the files that are named.
        host.seat.doors.look_again()
    return refused


async def _doors_fault(
    host: ConfigsHost,
    entity: ConfigEntity,
    changes: Sequence[Change],
    change: Callable[[Mapping[str, str]], dict[str, str] | Refused],
) -> Refused | None:
    """The reason why listeners and what guards them cannot be changed like this."""
    names = [one.name for one in changes if described(one.name).dynamic is Dynamic.PER_BROKER]
    if not names:
        return None
    encoder = bool(host.settings.static.get("password.encoder.secret"))
    refused = names_fault(names, for_cluster=entity.name is None, has_encoder=encoder)
    if refused is not None or entity.name is None or host.seat.doors is None:
        return refused
    texts = change(await _stored(host.session, entity))
    return texts if isinstance(texts, Refused) else await host.seat.doors.fault(texts)


@dataclass(frozen=True, slots=True)
class _Topic:
    """The settings of a topic."""

    settings: BrokerSettings
    name: str
    table: Mapping[str, Definition] = field(default_factory=lambda: TOPIC_SETTINGS)

    def inherited(self, name: str) -> str | None:
        return self.settings.for_topic({}).text(name)

    def fault(self, texts: Mapping[str, str], changes: Sequence[Change]) -> Refused | None:
        why = topic_faults(texts, self.settings)
        if why is None:
            return None
        if why.startswith(_INVALID_VALUE):
            resource = f"ConfigResource(type=TOPIC, name='{self.name}')"
            why = f"Invalid config value for resource {resource}: {why}"
        return Refused(why, ErrorCode.INVALID_CONFIG)


@dataclass(frozen=True, slots=True)
class _Brokers:
    """The settings of one broker, or of all brokers together."""

    settings: BrokerSettings
    for_all: bool
    table: Mapping[str, Definition] = field(default_factory=lambda: BROKER_SETTINGS)

    def inherited(self, name: str) -> str | None:
        return self.settings.text(name)

    def fault(self, texts: Mapping[str, str], changes: Sequence[Change]) -> Refused | None:
        strange = unknown_settings({change.name: "" for change in changes})
        # Also under the name of a listener: what asks for protection is never taken and ignored.
        known = [c.name for c in changes if c.name not in strange]
        fixed = [n for n in known if described(n).dynamic is Dynamic.READ_ONLY]
        if fixed:
            return Refused(f"Cannot update these configs dynamically: Set({', '.join(fixed)})")
        strange = unknown_settings(texts)
        size = sum(len(name) + len(text) for name, text in strange.items())
        if size > _FOREIGN_SIZE_MAX:
            return Refused(
                f"Settings that are none of klamm's have {size} characters; "
                f"{_FOREIGN_SIZE_MAX} are stored at most",
                ErrorCode.INVALID_CONFIG,
            )
        own = {name: text for name, text in texts.items() if name not in strange}
        why = broker_fault(own) or relation_fault(self._with(own))
        return None if why is None else Refused(why, ErrorCode.INVALID_CONFIG)

    def _with(self, texts: Mapping[str, str]) -> BrokerSettings:
        if self.for_all:
            return self.settings.with_overrides(texts, self.settings.own_dynamic)
        return self.settings.with_overrides(self.settings.cluster_dynamic, texts)


def _import_refusal(stored: Mapping[str, str], texts: Mapping[str, str]) -> Refused | None:
    """A topic that serves is not filled with what has its offsets already."""
    if not is_true(texts.get(IMPORTING)) or is_true(stored.get(IMPORTING)):
        return None
    why = f"{IMPORTING} can only be set when a topic is created"
    return Refused(why, ErrorCode.INVALID_CONFIG)


def _policy_refusal(
    host: ConfigsHost, entity: ConfigEntity, changes: Sequence[Change]
) -> Refused | None:
    policy = host.policies.alter
    if policy is None:
        return None
    why = policy(
        Alteration(
            resource_type="topic" if entity.kind is ConfigKind.TOPIC else "broker",
            resource_name=entity.name or "",
            configs={change.name: change.value for change in changes},
        )
    )
    return None if why is None else Refused(why, ErrorCode.POLICY_VIOLATION)


def _topic_fault(host: ConfigsHost, topic: str) -> Refused | None:
    if not topic:
        return Refused("Default topic resources are not allowed. Name a topic.")
    fault = name_fault(topic)
    if fault is not None:
        return Refused(fault, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if topic not in host.metadata.snapshot.topics:
        return Refused(f"The topic '{topic}' does not exist.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def _broker_entity(host: ConfigsHost, name: str) -> ConfigEntity | Refused:
    if name and name != str(host.id):
        return Refused(f"Unexpected broker id, expected {host.id}, but received {name}")
    return ConfigEntity(ConfigKind.BROKER, name or None)


def _logger_fault(host: ConfigsHost, name: str) -> Refused | None:
    if name == str(host.id):
        return None
    return Refused(f"this is broker {host.id}: it cannot speak for the loggers of {name!r}")


async def _stored(session: Session, entity: ConfigEntity) -> dict[str, str]:
    nodes = await session.get_many(entity.paths)
    return layout.decode_configs(node.data if node else None for node in nodes)
