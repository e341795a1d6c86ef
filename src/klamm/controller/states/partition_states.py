"""The partition state machine: a table of the legal transitions and the rule of each.

A rule takes one frozen view of a partition and returns one `PartitionStep`; it changes nothing. The
step says what to store and whom to tell once it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.controller.effects import CreateState, UpdateState
from klamm.controller.states import PartitionState as S
from klamm.controller.states.strategies import STRATEGIES, Candidates, Strategy
from klamm.model.errors import Refused
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """All that a rule may look at."""

    id: TopicPartition
    state: S
    candidates: Candidates
    leadership: Leadership | None
    controller_epoch: int
    strategy: Strategy = Strategy.OFFLINE
    first_epoch: int = 0  # the leader epoch of its first leader


@dataclass(frozen=True, slots=True)
class PartitionStep:
    """The effects of one legal transition. A step without a write is done at once."""

    write: CreateState | UpdateState | None = None
    tell: tuple[BrokerId, ...] = ()
    is_new: bool = False
    why: str = ""
    is_clean: bool = True  # no acknowledged record is lost by it


Rule = Callable[[PartitionView], PartitionStep | Refused]


def mark_only(_: PartitionView) -> PartitionStep:
    """Nothing but the state changes."""
    return PartitionStep()


def elect_first(p: PartitionView) -> PartitionStep | Refused:
    """A new partition trusts every live replica, for none holds a record yet."""
    online = tuple(b for b in p.candidates.replicas if p.candidates.is_online(b))
    if not online:
        return Refused("no assigned replica is live")
    first = Leadership(
        leader=online[0],
        leader_epoch=p.first_epoch,
        isr=online,
        controller_epoch=p.controller_epoch,
    )
    return PartitionStep(CreateState(p.id, first), online, True, f"first leader {online[0]}")


def elect_again(p: PartitionView) -> PartitionStep | Refused:
    """Elect by the strategy asked for, from the last leadership stored."""
    before = p.leadership
    if before is None:
        return Refused("its leadership is not in the store")
    if before.controller_epoch > p.controller_epoch:
        return Refused(f"its leadership was written by controller epoch {before.controller_epoch}")
    winner = STRATEGIES[p.strategy](p.candidates)
    if winner is None:
        return Refused(f"no replica can win an election ({p.strategy})")
    recovery = None if winner.clean else Recovery.RECOVERING
    after = before.succeeded_by(winner.leader, winner.isr, p.controller_epoch, recovery)
    how = "" if winner.clean else ", uncleanly"
    why = f"{p.strategy} election: {winner.leader}{how}"
    return PartitionStep(UpdateState(p.id, after), winner.tell, why=why, is_clean=winner.clean)


# Every legal transition, and nothing else: a pair that is not here is refused.
TRANSITIONS: Final[Mapping[tuple[S, S], Rule]] = {
    (S.NON_EXISTENT, S.NEW): mark_only,
    (S.NEW, S.ONLINE): elect_first,
    (S.ONLINE, S.ONLINE): elect_again,
    (S.OFFLINE, S.ONLINE): elect_again,
    (S.NEW, S.OFFLINE): mark_only,
    (S.ONLINE, S.OFFLINE): mark_only,
    (S.OFFLINE, S.OFFLINE): mark_only,
    (S.OFFLINE, S.NON_EXISTENT): mark_only,
}


def plan(p: PartitionView, target: S) -> PartitionStep | Refused:
    """The step that moves this partition to this state, or the reason why not."""
    rule = TRANSITIONS.get((p.state, target))
    return rule(p) if rule else Refused(f"{p.state} -> {target} is not a legal transition")
