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
            f"The topic is queued for deletion. It is {ask.topic}.",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        )
    moving = sorted(n for n, assignment in facts.partitions.items() if assignment.is_reassigning)
    if moving:
        return Refused(
            f"A partition reassignment is in progress for the topic '{ask.topic}'. "
            f"Partitions that are being moved: {listed(moving)}.",
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
        )
    if not facts.partitions:
        return Refused(
            f"The topic '{ask.topic}' does not exist.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
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
        why = f"Topic already has {current} partitions."
    else:
        why = (
            f"Topic currently has {current} partitions, which is higher than the requested "
            f"{ask.count}. Partitions cannot be taken away."
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
            f"Increasing the number of partitions by {added} but {len(assignments)} assignments "
            "provided."
        )
    if 0 not in facts.partitions:
        return no_partition_zero(ask.topic)
    if empty := [n for n, replicas in placement.items() if not replicas]:
        return bad_assignment(f"Cannot have replication factor of 0 for partition id {empty[0]}.")
    for number, replicas in placement.items():
        if len(set(replicas)) != len(replicas):
            return bad_assignment(
                f"Duplicate brokers not allowed in replica assignment: {listed(replicas)} "
                f"for partition id {number}."
            )
    factor = len(facts.partitions[0].replicas)
    wrong = {n: len(replicas) for n, replicas in placement.items() if len(replicas) != factor}
    if wrong:
        return bad_assignment(
            "Inconsistent replication factor between partitions, "
            f"partition 0 has {factor} while partitions [{listed(wrong)}] have "
            f"replication factors [{listed(wrong.values())}], respectively."
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
