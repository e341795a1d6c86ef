"""Elects leaders: four strategies, each a function from the candidates to a winner.

A strategy sees a frozen value and nothing else, so it cannot depend on anything else. It counts
nothing and writes nothing: `Winner.clean` says what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from klamm.model.names import BrokerId


class Strategy(StrEnum):
    """The occasion of an election."""

    OFFLINE = "offline"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    SHUTDOWN = "controlled shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """All that an election may look at."""

    replicas: tuple[BrokerId, ...]  # assignment order: the first is the preferred leader
    isr: tuple[BrokerId, ...]  # in the order in which it is stored
    live: frozenset[BrokerId]  # reachable replicas with a good log directory
    leaving: frozenset[BrokerId] = frozenset()  # those of the live that asked to shut down
    lost: frozenset[BrokerId] = frozenset()  # those of the live whose log is not the one it was
    target: tuple[BrokerId, ...] = ()  # the replicas that stay once a move is over
    unclean_allowed: bool = False

    def is_online(self, broker: BrokerId) -> bool:
        return broker in self.live and broker not in self.leaving and broker not in self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The result of an election: the leader, the ISR it starts with, and who has to be told."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    tell: tuple[BrokerId, ...]
    clean: bool = True


def elect_offline(c: Candidates) -> Winner | None:
    """First online in-sync replica; failing that, any online one where the topic permits."""
    online = tuple(broker for broker in c.replicas if c.is_online(broker))
    for broker in online:
        if broker in c.isr:
            return Winner(leader=broker, isr=_kept(c.isr, c.is_online), tell=online)
    if online and c.unclean_allowed:
        return Winner(leader=online[0], isr=online[:1], tell=online, clean=False)
    emptied = tuple(b for b in c.replicas if b in c.live and b in c.lost and b not in c.leaving)
    if emptied and c.unclean_allowed:
        return Winner(leader=emptied[0], isr=emptied[:1], tell=emptied, clean=False)
    return None


def elect_reassigned(c: Candidates) -> Winner | None:
    """First online in-sync replica of those that stay."""
    for broker in c.target:
        if c.is_online(broker) and broker in c.isr:
            return Winner(leader=broker, isr=c.isr, tell=c.target)
    return None


def elect_preferred(c: Candidates) -> Winner | None:
    """The first replica of the assignment, or nobody."""
    preferred = c.replicas[0]
    if c.is_online(preferred) and preferred in c.isr:
        return Winner(leader=preferred, isr=c.isr, tell=c.replicas)
    return None


def elect_for_shutdown(c: Candidates) -> Winner | None:
    """First in-sync replica that stays; the leaving ones are told too, for they still serve."""
    for broker in c.replicas:
        if broker in c.isr and c.is_online(broker):
            isr = _kept(c.isr, lambda b: b not in c.leaving)
            return Winner(leader=broker, isr=isr, tell=_kept(c.replicas, c.live.__contains__))
    return None


STRATEGIES: Final[Mapping[Strategy, Callable[[Candidates], Winner | None]]] = {
    Strategy.OFFLINE: elect_offline,
    Strategy.REASSIGN: elect_reassigned,
    Strategy.PREFERRED: elect_preferred,
    Strategy.SHUTDOWN: elect_for_shutdown,
}


def _kept(brokers: tuple[BrokerId, ...], keep: Callable[[BrokerId], bool]) -> tuple[BrokerId, ...]:
    return tuple(broker for broker in brokers if keep(broker))
