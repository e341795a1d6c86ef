"""Checks the settings that a cluster of one process is started with.

Every setting is in force, or it has no effect and harms nobody, which is told in one line, or the
start is refused with the reason. Refused is whatever is about addresses, security or who a broker
is: somebody who asks for protection and gets an open cluster without a word would never know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.model.settings import BROKER_SETTINGS
from klamm.security.settings.start import check_start
from klamm.security.settings.table import Feature

# The parts of security that the brokers have.
FEATURES: Final[frozenset[Feature]] = frozenset()

_ADDRESSES: Final = (
    "has no place here: the brokers listen on PLAINTEXT at --host and --port (Cluster: host, port)"
)
_NUMBERS: Final = "cannot be set for a whole cluster: its brokers are numbered from 0"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "listeners": _ADDRESSES,
    "advertised.listeners": _ADDRESSES,
    "listener.security.protocol.map": _ADDRESSES,
    "inter.broker.listener.name": _ADDRESSES,
    "security.inter.broker.protocol": _ADDRESSES,
    "control.plane.listener.name": _ADDRESSES,
    "broker.id": _NUMBERS,
    "node.id": _NUMBERS,
}
# What asks for nothing: Kafka's defaults, as many a configuration spells them out.
_AS_IT_IS: Final[Mapping[str, frozenset[str]]] = {
    "broker.id": frozenset({"-1"}),
    "node.id": frozenset({"-1"}),
    "inter.broker.listener.name": frozenset({"PLAINTEXT"}),
    "security.inter.broker.protocol": frozenset({"PLAINTEXT"}),
}


@dataclass(frozen=True, slots=True)
class Heeded:
    """The reasons not to start with these settings, and those without effect."""

    refusals: tuple[str, ...]
    idle: tuple[str, ...]


def heed(given: Mapping[str, str]) -> Heeded:
    """Looks through the settings that somebody gave."""
    asking = {n: text for n, text in given.items() if text.strip() not in _AS_IT_IS.get(n, ())}
    refusals = [f"{name} {_ELSEWHERE[name]}. Leave it out" for name in asking if name in _ELSEWHERE]
    rest = {name: text for name, text in asking.items() if name not in _ELSEWHERE}
    refusals += check_start(rest, FEATURES).refusals
    idle = [name for name in given if _has_no_effect(name) and name not in _ELSEWHERE]
    return Heeded(tuple(refusals), tuple(idle))


def _has_no_effect(name: str) -> bool:
    definition = BROKER_SETTINGS.get(name)
    return definition is not None and bool(definition.no_effect)
