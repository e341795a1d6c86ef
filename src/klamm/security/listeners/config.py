"""All listeners of a broker as one checked value.

Whatever does not fit together refuses the start with Kafka's sentence. `listener_config` is given
the texts that were set, without defaults, because two settings that exclude each other only do so
where both were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import Refused
from klamm.security.listeners.endpoints import (
    DEFAULT_MAP,
    PROTOCOL_MAP,
    Listener,
    SecurityProtocol,
    parse_listeners,
    parse_protocol_map,
    port_fault,
    split_list,
)

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
INTER_BROKER_NAME: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
CONTROL_PLANE: Final = "control.plane.listener.name"
CONTROLLER_NAMES: Final = "controller.listener.names"
EARLY_START: Final = "early.start.listeners"
DEFAULT_LISTENERS: Final = "PLAINTEXT://:9092"
# All settings that are read here.
NAMES: Final = (
    LISTENERS,
    ADVERTISED,
    PROTOCOL_MAP,
    INTER_BROKER_NAME,
    INTER_BROKER_PROTOCOL,
    CONTROL_PLANE,
    CONTROLLER_NAMES,
    EARLY_START,
)
_NOWHERE: Final = "0.0.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """The doors of one broker, and which of them brokers use among themselves."""

    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    protocols: Mapping[str, SecurityProtocol]
    inter_broker: str
    control_plane: str | None = None
    early_start: frozenset[str] = frozenset()

    @property
    def controller(self) -> str:
        """The listener between controller and brokers, and the only one that may forward."""
        return self.control_plane or self.inter_broker

    @property
    def inter_broker_protocol(self) -> SecurityProtocol:
        """The protocol between brokers."""
        return self.listener(self.inter_broker).protocol

    def listener(self, name: str) -> Listener:
        """The door of this name."""
        return next(one for one in self.listeners if one.name == name)

    def advertised_at(self, ports: Mapping[str, int], host: str) -> tuple[Listener, ...]:
        """The addresses to register: real ports in place of 0, `host` where none was named."""
        return tuple(
            Listener(
                one.name,
                host if one.host in ("", "::") else one.host,
                one.port or ports.get(one.name, 0),
                one.protocol,
            )
            for one in self.advertised
        )

    @property
    def names_every_host(self) -> bool:
        """Whether everybody is sent to a place that was named, and not to wherever this runs."""
        return all(one.host not in ("", "::") for one in self.advertised)


def listener_config(texts: Mapping[str, str]) -> ListenerConfig | Refused:
    """Reads and checks all settings about listeners, of those that were set."""
    map_text = texts.get(PROTOCOL_MAP)
    protocols = DEFAULT_MAP if map_text is None else parse_protocol_map(map_text)
    if isinstance(protocols, Refused):
        return protocols
    if names := split_list(texts.get(CONTROLLER_NAMES, "")):
        return Refused(
            f"{CONTROLLER_NAMES} must be empty when not running in KRaft mode: [{', '.join(names)}]"
        )
    text = texts.get(LISTENERS, DEFAULT_LISTENERS)
    listeners = parse_listeners(text, protocols)
    if isinstance(listeners, Refused):
        return listeners
    if fault := port_fault(listeners, text):
        return fault
    advertised = parse_listeners(texts.get(ADVERTISED, "").strip() or text, protocols)
    if isinstance(advertised, Refused):
        return advertised
    inter_broker = _inter_broker(texts, protocols)
    if isinstance(inter_broker, Refused):
        return inter_broker
    config = ListenerConfig(
        listeners=listeners,
        advertised=advertised,
        protocols=protocols,
        inter_broker=inter_broker,
        control_plane=texts.get(CONTROL_PLANE, "").strip().upper() or None,
        early_start=frozenset(name.upper() for name in split_list(texts.get(EARLY_START, ""))),
    )
    return _fault(config) or config


def _inter_broker(
    texts: Mapping[str, str], protocols: Mapping[str, SecurityProtocol]
) -> str | Refused:
    name = texts.get(INTER_BROKER_NAME, "").strip().upper()
    protocol = texts.get(INTER_BROKER_PROTOCOL, "").strip()
    if name and protocol:
        return Refused(
            f"Only one of {INTER_BROKER_NAME} and {INTER_BROKER_PROTOCOL} should be set."
        )
    if name and name not in protocols:
        return Refused(
            f"Listener with name {name} defined in {INTER_BROKER_NAME} not found in {PROTOCOL_MAP}."
        )
    if protocol and protocol not in SecurityProtocol.__members__:
        return Refused(
            f"Invalid value {protocol} for configuration {INTER_BROKER_PROTOCOL}: it is one of "
            f"{_names(SecurityProtocol.__members__)}"
        )
    return name or protocol or SecurityProtocol.PLAINTEXT.value


def _fault(config: ListenerConfig) -> Refused | None:
    """The reason why these listeners do not fit together."""
    names = [one.name for one in config.listeners]
    advertised = [one.name for one in config.advertised]
    plane = config.control_plane
    if plane is not None and plane not in config.protocols:
        return Refused(
            f"Listener with {plane} defined in {CONTROL_PLANE} not found in {PROTOCOL_MAP}."
        )
    if not advertised:
        return Refused("There must be at least one broker advertised listener.")
    if config.inter_broker not in advertised:
        return Refused(
            f"{INTER_BROKER_NAME} must be a listener name defined in {ADVERTISED}. The valid "
            f"options based on currently configured listeners are {_names(advertised)}"
        )
    if not set(advertised) <= set(names):
        return Refused(
            f"{ADVERTISED} listener names must be equal to or a subset of the ones defined in "
            f"{LISTENERS}. Found {_names(advertised)}. The valid options based on the current "
            f"configuration are {_names(names)}"
        )
    if any(one.host == _NOWHERE for one in config.advertised):
        return Refused(
            f"{ADVERTISED} cannot use the nonroutable meta-address {_NOWHERE}. Use a routable IP "
            "address or a host name."
        )
    if plane is not None and plane not in advertised:
        return Refused(
            f"{CONTROL_PLANE} must be a listener name defined in {ADVERTISED}. The valid options "
            f"based on currently configured listeners are {_names(advertised)}"
        )
    if plane == config.inter_broker:
        return Refused(
            f"{CONTROL_PLANE}, when defined, should have a different value from the inter broker "
            f"listener name. Currently they both have the value {plane}"
        )
    for name in sorted(config.early_start):
        if name not in names:
            return Refused(
                f"{EARLY_START} contains listener {name}, but this is not contained in {LISTENERS} "
                f"or {CONTROLLER_NAMES}"
            )
    return None


def _names(names: Iterable[str]) -> str:
    return ",".join(names)
