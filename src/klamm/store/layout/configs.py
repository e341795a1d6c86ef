"""Settings of topics, brokers, clients, users and addresses, and the markers that announce changes.

Users and clients may be called anything, so their names are percent-encoded in paths; names of
topics, broker ids and addresses stand there as they are. The default of a kind, written
`<default>`, is not encoded, which keeps it apart from a user who is called that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

from klamm.store.layout.jsontext import dump, load, or_none
from klamm.store.layout.paths import CONFIG, OWN_BROKER_CONFIG

_DEFAULT: Final = "<default>"
_OWN: Final = "klamm."  # how the names of klamm's own settings begin


class ConfigKind(StrEnum):
    """The kinds of things that can have settings, by the names of their directories."""

    TOPIC = "topics"
    CLIENT = "clients"
    USER = "users"
    BROKER = "brokers"
    IP = "ips"


_ENCODED_KINDS: Final = frozenset({ConfigKind.CLIENT, ConfigKind.USER})


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """One thing with settings of its own."""

    kind: ConfigKind
    name: str | None  # None: the default of its kind
    user: ConfigEntity | None = None  # a client's settings may hold for one user only

    @property
    def entity_path(self) -> str:
        """As change markers name it, such as `topics/T` or `users/U/clients/C`."""
        own = f"{self.kind}/{self._name_in_path}"
        return own if self.user is None else f"{self.user.entity_path}/{own}"

    @property
    def path(self) -> str:
        """The node that has the settings."""
        return f"{CONFIG}/{self.entity_path}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The nodes that have the settings.

        klamm's own settings of all brokers are kept apart: brokers and tools of Kafka read the
        node with the others, and fail on names they do not know.
        """
        is_of_all_brokers = self.kind is ConfigKind.BROKER and self.name is None
        return (self.path, OWN_BROKER_CONFIG) if is_of_all_brokers else (self.path,)

    @property
    def _name_in_path(self) -> str:
        if self.name is None:
            return _DEFAULT
        # Java's encoder takes "~" for special, Python's does not.
        encoded = quote(self.name, safe="").replace("~", "%7E")
        return encoded if self.kind in _ENCODED_KINDS else self.name


def topic_config_path(topic: str) -> str:
    """The path of a topic's overrides."""
    return f"{CONFIG}/{ConfigKind.TOPIC}/{topic}"


def encode_config(settings: Mapping[str, str]) -> bytes:
    """The overrides of one entity, in the order of their names."""
    return dump({"version": 1, "config": dict(sorted(settings.items()))})


@or_none
def decode_config(data: bytes | None) -> dict[str, str]:
    """The overrides of one entity, every value as text."""
    return {name: _text(value) for name, value in load(data)["config"].items()}


def decode_configs(datas: Iterable[bytes | None]) -> dict[str, str]:
    """The overrides in the nodes of one entity together; a later node counts more."""
    texts: dict[str, str] = {}
    for data in datas:
        texts |= decode_config(data) or {}
    return texts


def encode_configs(entity: ConfigEntity, settings: Mapping[str, str]) -> dict[str, bytes]:
    """The overrides of one entity by node, klamm's own apart where it has one for them."""
    if len(entity.paths) == 1:
        return {entity.path: encode_config(settings)}
    own = {name: text for name, text in settings.items() if name.startswith(_OWN)}
    others = {name: text for name, text in settings.items() if name not in own}
    return dict(zip(entity.paths, map(encode_config, (others, own)), strict=True))


def _text(value: object) -> str:
    # Tools have written bare numbers and booleans here; Java's words for them are lower case.
    return str(value).lower() if isinstance(value, bool) else str(value)


def encode_config_change(entity: ConfigEntity) -> bytes:
    """A marker of version 2."""
    return dump({"version": 2, "entity_path": entity.entity_path})


@or_none
def decode_config_change(data: bytes | None) -> ConfigEntity:
    """A marker of version 1 or 2."""
    fields = load(data)
    if "entity_path" in fields:
        return _entity(str(fields["entity_path"]))
    return _entity(f"{fields['entity_type']}/{fields['entity_name']}")


@or_none
def decode_entity_path(entity_path: str) -> ConfigEntity:
    """The inverse of `ConfigEntity.entity_path`."""
    return _entity(entity_path)


def _entity(entity_path: str) -> ConfigEntity:
    parts = entity_path.split("/")
    if len(parts) not in (2, 4):
        raise ValueError("not the path of an entity")
    entity: ConfigEntity | None = None
    for kind, name in zip(parts[::2], parts[1::2], strict=True):
        entity = ConfigEntity(ConfigKind(kind), _name(ConfigKind(kind), name), entity)
    assert entity is not None, entity_path
    return entity


def _name(kind: ConfigKind, in_path: str) -> str | None:
    if in_path == _DEFAULT:
        return None
    return unquote(in_path, errors="strict") if kind in _ENCODED_KINDS else in_path
