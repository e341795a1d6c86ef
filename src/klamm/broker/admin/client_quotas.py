"""Client quotas as clients see and change them.

An entity is a user, a client id, both, or an address; a missing name is the default of its kind.
Quotas are kept like other settings, as text under /config, and every broker hears of a change in
the same way (`dynamic_config`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from klamm.broker.quotas import quotas
from klamm.model.errors import ErrorCode, Refused
from klamm.store.layout import ConfigEntity, ConfigKind

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity = Mapping[str, str | None]  # names by type; None is the default

_CLIENT_KEYS: Final = frozenset(
    {
        quotas.PRODUCER_BYTE_RATE,
        quotas.CONSUMER_BYTE_RATE,
        quotas.REQUEST_PERCENTAGE,
        quotas.CONTROLLER_MUTATION_RATE,
    }
)
_IP_KEYS: Final = frozenset({quotas.CONNECTION_CREATION_RATE})
_WHOLE: Final = frozenset(
    {quotas.PRODUCER_BYTE_RATE, quotas.CONSUMER_BYTE_RATE, quotas.CONNECTION_CREATION_RATE}
)


class MatchType(IntEnum):
    """The way a filter matches the name of one type, by the numbers of the wire."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class Component:
    """One condition of a filter."""

    entity_type: str
    match_type: int
    name: str | None

    def holds(self, entity: Entity) -> bool:
        if self.entity_type not in entity:
            return False
        match self.match_type:
            case MatchType.EXACT:
                return entity[self.entity_type] == self.name
            case MatchType.DEFAULT:
                return entity[self.entity_type] is None
            case _:
                return True


def filter_fault(components: Sequence[Component]) -> Refused | None:
    """The reason why this cannot be asked."""
    types = [component.entity_type for component in components]
    if len(set(types)) != len(types):
        return Refused("a filter has one condition a type")
    for component in components:
        if component.match_type not in frozenset(MatchType):
            return Refused(f"{component.match_type} is not a way to match")
        # A name that goes with another kind of match is passed over, as in Kafka.
        if component.match_type == MatchType.EXACT and component.name is None:
            return Refused("an exact match needs a name")
    return _types_fault(types)


def matches(components: Sequence[Component], strict: bool, entity: Entity) -> bool:
    """Whether an entity passes a filter; a strict one allows no types it does not name."""
    named = {component.entity_type for component in components}
    if strict and entity.keys() != named:
        return False
    return all(component.holds(entity) for component in components)


def entity_of(stored: ConfigEntity) -> dict[str, str | None]:
    """A stored entity as clients name it."""
    match stored.kind:
        case ConfigKind.USER:
            return {USER: stored.name}
        case ConfigKind.CLIENT if stored.user is not None:
            return {USER: stored.user.name, CLIENT_ID: stored.name}
        case ConfigKind.CLIENT:
            return {CLIENT_ID: stored.name}
        case _:
            return {IP: stored.name}


def stored_entity(parts: Sequence[tuple[str, str | None]]) -> ConfigEntity | Refused:
    """The entity under which quotas are stored."""
    types = [entity_type for entity_type, _ in parts]
    fault = _types_fault(types)
    if fault is not None:
        return fault
    if not types or len(set(types)) != len(types):
        return Refused("an entity has one name of each of its types, and at least one")
    if any(name == "" for _, name in parts):
        return Refused("a name is empty; leave it out to mean the default")
    names = dict(parts)
    if IP in names:
        return ConfigEntity(ConfigKind.IP, names[IP])
    user = ConfigEntity(ConfigKind.USER, names[USER]) if USER in names else None
    if CLIENT_ID in names:
        return ConfigEntity(ConfigKind.CLIENT, names[CLIENT_ID], user)
    assert user is not None, types
    return user


def _types_fault(types: Sequence[str]) -> Refused | None:
    for entity_type in types:
        if entity_type not in (USER, CLIENT_ID, IP):
            return Refused(
                f"{entity_type!r} is not a type that can have quotas",
                ErrorCode.INVALID_REQUEST if not entity_type else ErrorCode.UNSUPPORTED_VERSION,
            )
    if IP in types and len(types) > 1:
        return Refused("an address cannot be combined with a user or a client id")
    return None


def altered(
    stored: Mapping[str, str], entity: ConfigEntity, ops: Sequence[tuple[str, float | None]]
) -> dict[str, str] | Refused:
    """The stored quotas with some set, or with None taken back."""
    allowed = _IP_KEYS if entity.kind is ConfigKind.IP else _CLIENT_KEYS
    texts = dict(stored)
    for key, value in ops:
        if key not in allowed:
            return Refused(f"{key!r} is not a quota of {entity.kind}")
        if value is None:
            texts.pop(key, None)
        elif not math.isfinite(value) or value <= 0:
            return Refused(f"{key} must be above 0, not {value}")
        elif key in _WHOLE and value != int(value):
            return Refused(f"{key} must be a whole number, not {value}")
        else:
            texts[key] = str(int(value)) if key in _WHOLE else str(value)
    return texts
