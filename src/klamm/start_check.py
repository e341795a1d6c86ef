"""Checks the settings that a cluster, or one broker of it, is started with.

Every setting is in force, or it has no effect and harms nobody, which is told in one line, or the
start is refused with the reason. Refused is whatever is about addresses, security or who a broker
is: somebody who asks for protection and gets an open cluster without a word would never know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.model.settings import BROKER_SETTINGS
from klamm.security.settings.start import StartCheck, check_start
from klamm.security.settings.table import Feature

# The parts of security that the brokers have.
FEATURES: Final[frozenset[Feature]] = frozenset(
    {
        Feature.LISTENERS,
        Feature.TLS,
        Feature.SASL,
        Feature.OAUTH,
        Feature.AUTHORIZER,
        Feature.TOKENS,
        Feature.ENCODER,
        Feature.ZOOKEEPER,
    }
)

_NUMBERS: Final = "cannot be set for a whole cluster: its brokers are numbered from 0"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "broker.id": _NUMBERS,
    "node.id": _NUMBERS,
}
# What asks for nothing: Kafka's defaults, as many a configuration spells them out.
_AS_IT_IS: Final[Mapping[str, frozenset[str]]] = {
    "broker.id": frozenset({"-1"}),
    "node.id": frozenset({"-1"}),
}
# What is for a broker that is started alone, and has no effect on a whole cluster.
_OF_ONE: Final = frozenset({"broker.id.generation.enable", "reserved.broker.max.id"})
# What asks for the other mode of Kafka, in which metadata is somewhere else altogether.
_KRAFT: Final = ("process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers")

# What counts only where none of the others is given, which say the same more exactly.
_SECOND: Final[Mapping[str, tuple[str, ...]]] = {
    "log.dir": ("log.dirs",),
    "log.retention.hours": ("log.retention.ms", "log.retention.minutes"),
    "log.retention.minutes": ("log.retention.ms",),
    "log.roll.hours": ("log.roll.ms",),
    "log.roll.jitter.hours": ("log.roll.jitter.ms",),
}


@dataclass(frozen=True, slots=True)
class Heeded:
    """The reasons not to start with these settings, those without effect, and warnings."""

    refusals: tuple[str, ...]
    idle: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def heed(given: Mapping[str, str]) -> Heeded:
    """Looks through the settings that somebody gave."""
    asking = {n: text for n, text in given.items() if text.strip() not in _AS_IT_IS.get(n, ())}
    refusals = [f"{name} {_ELSEWHERE[name]}. Leave it out" for name in asking if name in _ELSEWHERE]
    rest = {name: text for name, text in asking.items() if name not in _ELSEWHERE}
    refusals += _kraft(given, "set --zookeeper, or nothing for a store of klamm's own")
    checked = check_start(rest, FEATURES)
    refusals += checked.refusals
    ignored = [name for name in given if _has_no_effect(name) or name in _OF_ONE]
    idle = [name for name in ignored if name not in _ELSEWHERE]
    return Heeded(tuple(refusals), (*idle, *_second(given)), _told(checked, idle))


def heed_alone(given: Mapping[str, str]) -> Heeded:
    """Looks through the settings of one broker that is started alone."""
    refusals = _kraft(given, "set zookeeper.connect")
    checked = check_start(given, FEATURES)
    idle = [name for name in given if _has_no_effect(name)]
    told = _told(checked, idle)
    return Heeded((*refusals, *checked.refusals), (*idle, *_second(given)), told)


def _kraft(given: Mapping[str, str], instead: str) -> list[str]:
    return [
        f"{name} asks for KRaft, and klamm's brokers are those of ZooKeeper mode: leave it out, "
        f"and {instead}"
        for name in _KRAFT
        if given.get(name, "").strip()
    ]


def _second(given: Mapping[str, str]) -> list[str]:
    """Settings that others of these speak louder than."""
    louder = {name: [o for o in others if given.get(o)] for name, others in _SECOND.items()}
    return [f"{name} ({louder[name][0]} is set)" for name in given if louder.get(name)]


def _told(checked: StartCheck, idle: Sequence[str]) -> tuple[str, ...]:
    """The warnings that are not about what has no effect, which is told in one line."""
    return tuple(w for w in checked.warnings if not w.startswith(tuple(f"{n} " for n in idle)))


def _has_no_effect(name: str) -> bool:
    definition = BROKER_SETTINGS.get(name)
    return definition is not None and bool(definition.no_effect)
