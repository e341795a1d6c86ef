"""Refusals that several admissions share."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.controller.admission.placement import Placement, Racks
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId


def exists(topic: str) -> Refused:
    """The name is taken."""
    return Refused(f"Topic '{topic}' already exists.", ErrorCode.TOPIC_ALREADY_EXISTS)


def bad_assignment(why: str) -> Refused:
    """The replicas somebody chose cannot be."""
    return Refused(why, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def no_partition_zero(topic: str) -> Refused:
    """A node that only a hand can have written."""
    return Refused(
        f"Unexpected existing replica assignment for topic '{topic}', partition id 0 is missing.",
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )


def unknown_brokers(assignments: Iterable[tuple[BrokerId, ...]], known: Racks) -> Refused | None:
    """Replicas may only be on brokers that are there."""
    strange = sorted({broker for replicas in assignments for broker in replicas} - set(known))
    if not strange:
        return None
    return bad_assignment(f"Unknown broker(s) in replica assignment: {listed(strange)}.")


def with_duplicates(placement: Placement) -> str:
    """The partitions that name a broker twice, in words; empty when there is none."""
    twice = [n for n, replicas in placement.items() if len(set(replicas)) != len(replicas)]
    return f"partition {listed(twice)}" if twice else ""


def listed(numbers: Iterable[int]) -> str:
    """Numbers in a sentence."""
    return ", ".join(map(str, numbers))
