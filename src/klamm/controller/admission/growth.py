"""Whether a topic may get more partitions, and where they go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from klamm.controller.admission.node_size import partitions_fault
from klamm.controller.admission.placement import (
    MixedRacks,
    Placement,
    Racks,
    even_start,
    expansion_start,
    place,
)
from klamm.controller.admission.refusals import (
    bad_assignment,
    listed,
    no_partition_zero,
    unknown_brokers,
    with_duplicates,
)
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Growth:
    """A topic that is to have `count` partitions in all."""

    topic: str
    count: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFacts:
    """All that the admission of more partitions may look at."""

    settings: BrokerSettings
    marked: bool  # the topic is waiting to be deleted
    partitions: Mapping[int, Assignment]  # as the store has them; empty where there is no topic
    brokers: Racks  # registered
    compacted: bool = False


def admit_growth(ask: Growth, facts: GrowthFacts) -> Placement | Refused:
    """The new partitions, or the first reason not to add them."""
    current = len(facts.partitions)
    refused = (
        _growth_refusal(ask, facts) or _count_refusal(ask, current) or _size_refusal(ask, facts)
    )
    if refused is not None:
        return refused
    if ask.assignments is not None:
        return _manual_growth(ask, ask.assignments, facts)
    if 0 not in facts.partitions:
        return no_partition_zero(ask.topic)
    return _automatic_growth(ask.count - current, facts)


def _growth_refusal(ask: Growth, facts: GrowthFacts) -> Refused | None:
    if facts.marked:
        return Refused(
            f"topic {ask.topic} is queued for deletion", ErrorCode.INVALID_TOPIC_EXCEPTION
        )
    moving = sorted(n for n, assignment in facts.partitions.items() if assignment.is_moving)
    if moving:
        return Refused(
            f"partitions of topic {ask.topic} are being moved: {listed(moving)}",
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
        )
    if not facts.partitions:
        return Refused(f"there is no topic {ask.topic}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if facts.compacted and not facts.settings.bool("klamm.expansion.of.compacted.topics"):
        return Refused(
            f"topic {ask.topic} is compacted: with more partitions its keys would move, and "
            "klamm.expansion.of.compacted.topics is off",
            ErrorCode.INVALID_PARTITIONS,
        )
    return None


def _count_refusal(ask: Growth, current: int) -> Refused | None:
    if ask.count > current:
        return None
    if ask.count == current:
        why = f"topic {ask.topic} already has {current} partitions"
    else:
        why = (
            f"topic {ask.topic} has {current} partitions, which is higher than the "
            f"{ask.count} requested; partitions cannot be taken away"
        )
    return Refused(why, ErrorCode.INVALID_PARTITIONS)


def _size_refusal(ask: Growth, facts: GrowthFacts) -> Refused | None:
    factor = len(next(iter(facts.partitions.values())).replicas)
    return partitions_fault(
        ask.topic, facts.brokers, count=ask.count, factor=factor, present=facts.partitions
    )


def _manual_growth(
    ask: Growth, assignments: tuple[tuple[BrokerId, ...], ...], facts: GrowthFacts
) -> Placement | Refused:
    first = len(facts.partitions)
    added = ask.count - first
    placement = dict(enumerate(assignments, start=first))
    if (refused := unknown_brokers(assignments, facts.brokers)) is not None:
        return refused
    if len(assignments) != added:
        return bad_assignment(
            f"{added} partitions are to be added but {len(assignments)} assignments were given"
        )
    if 0 not in facts.partitions:
        return no_partition_zero(ask.topic)
    if empty := [n for n, replicas in placement.items() if not replicas]:
        return bad_assignment(f"partitions without replicas: {listed(empty)}")
    if twice := with_duplicates(placement):
        return bad_assignment(f"a broker holds two replicas of {twice}")
    factor = len(facts.partitions[0].replicas)
    wrong = [f"{n} has {len(r)}" for n, r in placement.items() if len(r) != factor]
    if wrong:
        return bad_assignment(
            f"every partition must have {factor} replicas, as partition 0 has: {', '.join(wrong)}"
        )
    return placement


def _automatic_growth(added: int, facts: GrowthFacts) -> Placement | Refused:
    first = len(facts.partitions)
    origin = facts.partitions[0].replicas
    if facts.settings.str("klamm.expansion.placement") == "even":
        leaders = (a.replicas[0] for a in facts.partitions.values() if a.replicas)
        start = even_start(facts.brokers, leaders, first=first, count=added)
    else:
        start = expansion_start(facts.brokers, origin[0])
    return place(
        facts.brokers,
        count=added,
        factor=len(origin),
        start=start,
        first=first,
        mixed=MixedRacks(facts.settings.str("klamm.placement.mixed.racks")),
    )
