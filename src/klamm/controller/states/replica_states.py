"""The replica state machine: a table of the legal transitions and the rule of each.

A rule sees one replica and the leadership of its partition as it would be if the transitions
planned before it in the same event were stored. It returns one `ReplicaStep` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.controller.states import ReplicaState as S
from klamm.model.errors import Refused
from klamm.model.leadership import Leadership
from klamm.model.names import NO_LEADER, Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """All that a rule may look at."""

    id: Replica
    state: S
    leadership: Leadership | None  # of the partition
    is_queued: bool  # the topic is queued for deletion
    controller_epoch: int
    # Nobody can confirm its end: its broker is away, or its topic's node is gone.
    is_hopeless: bool = False
    is_renamed: bool = False  # its topic has another name now


@dataclass(frozen=True, slots=True)
class ReplicaStep:
    """The effects of one legal transition."""

    leadership: Leadership | None = None  # to be stored first, where it is not None
    order: bool = False  # tell this replica what to be
    is_new: bool = False  # and that it has no log yet
    tell_others: bool = False  # tell the other replicas
    stop: bool = False  # tell this replica to stop
    delete: bool = False  # and to remove its log


Rule = Callable[[ReplicaView], ReplicaStep | Refused]

_MARK: Final = ReplicaStep()
_ORDER: Final = ReplicaStep(order=True)


def mark_only(_: ReplicaView) -> ReplicaStep:
    """Nothing but the state changes."""
    return _MARK


def join(r: ReplicaView) -> ReplicaStep | Refused:
    """A replica added to a partition that has a leader starts to follow it."""
    if r.leadership is None:
        return _MARK
    if r.leadership.leader == r.id.broker:
        return Refused("it leads the partition and cannot be new")
    return ReplicaStep(order=True, is_new=True)


def resume(r: ReplicaView) -> ReplicaStep:
    """A replica whose broker is back is told what it is now."""
    return _MARK if r.leadership is None else _ORDER


def retire(r: ReplicaView) -> ReplicaStep | Refused:
    """Stop the replica and take it out of the ISR, unless it is the last one there.

    The last one stays, for only that broker has every acknowledged record.
    """
    now = r.leadership
    if now is None:
        return ReplicaStep(stop=True)
    if now.controller_epoch > r.controller_epoch:
        return Refused(f"its leadership was written by controller epoch {now.controller_epoch}")
    is_last = now.isr == (r.id.broker,)
    if r.id.broker not in now.isr or (is_last and now.leader == NO_LEADER):
        return ReplicaStep(stop=True, tell_others=not r.is_queued)
    leader = NO_LEADER if now.leader == r.id.broker else now.leader
    isr = now.isr if is_last else tuple(b for b in now.isr if b != r.id.broker)
    after = now.succeeded_by(leader, isr, r.controller_epoch)
    return ReplicaStep(after, stop=True, tell_others=not r.is_queued)


def delete(_: ReplicaView) -> ReplicaStep:
    """Have the log removed; the broker's answer decides what comes next."""
    return ReplicaStep(stop=True, delete=True)


def give_up(r: ReplicaView) -> ReplicaStep | Refused:
    """Nobody waits any longer for the end of a copy of a topic on its way out, as nobody can
    confirm it. It is written down and removed when its broker is back."""
    if not r.is_queued:
        return Refused("its topic is not being deleted")
    return _MARK if r.is_hopeless else Refused("its broker is there and can confirm its end")


def rename(r: ReplicaView) -> ReplicaStep | Refused:
    """The log goes on under another name, as a replica of that."""
    return _MARK if r.is_renamed else Refused("its topic has the name it had")


# Every legal transition, and nothing else: a pair that is not here is refused.
TRANSITIONS: Final[Mapping[tuple[S, S], Rule]] = {
    (S.NON_EXISTENT, S.NEW): join,
    (S.NEW, S.ONLINE): mark_only,
    (S.ONLINE, S.ONLINE): resume,
    (S.OFFLINE, S.ONLINE): resume,
    (S.DELETION_INELIGIBLE, S.ONLINE): resume,
    (S.NEW, S.OFFLINE): retire,
    (S.ONLINE, S.OFFLINE): retire,
    (S.OFFLINE, S.OFFLINE): retire,
    (S.DELETION_INELIGIBLE, S.OFFLINE): retire,
    (S.OFFLINE, S.DELETION_STARTED): delete,
    (S.DELETION_STARTED, S.DELETION_SUCCESSFUL): mark_only,
    (S.OFFLINE, S.DELETION_INELIGIBLE): mark_only,
    (S.DELETION_STARTED, S.DELETION_INELIGIBLE): mark_only,
    (S.NON_EXISTENT, S.DELETION_SUCCESSFUL): give_up,
    (S.NEW, S.DELETION_SUCCESSFUL): give_up,
    (S.ONLINE, S.DELETION_SUCCESSFUL): give_up,
    (S.OFFLINE, S.DELETION_SUCCESSFUL): give_up,
    (S.DELETION_INELIGIBLE, S.DELETION_SUCCESSFUL): give_up,
    (S.DELETION_SUCCESSFUL, S.NON_EXISTENT): mark_only,
    (S.ONLINE, S.NON_EXISTENT): rename,
    (S.OFFLINE, S.NON_EXISTENT): rename,
}


def plan(r: ReplicaView, target: S) -> ReplicaStep | Refused:
    """The step that moves this replica to this state, or the reason why not."""
    rule = TRANSITIONS.get((r.state, target))
    return rule(r) if rule else Refused(f"{r.state} -> {target} is not a legal transition")
