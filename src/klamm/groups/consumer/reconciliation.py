"""Reconciles a member: takes it step by step from what it has to what it should have.

The rule that keeps a partition from being read by two members at once: what a member is to lose is
taken from it first, and nobody else is given it until that member has said that it let go. So a
step either asks for partitions back, or hands out those that are free, or waits for others.
"""

from __future__ import annotations

from dataclasses import replace

from klamm.groups.consumer.state import NOTHING, ConsumerGroup, MemberProgress, Partitions, Standing


def next_standing(
    group: ConsumerGroup, member_id: str, standing: Standing, owned: Partitions | None
) -> Standing:
    """The member's next step; `owned` is what it says it has, None when it does not say."""
    match standing.progress:
        case MemberProgress.STABLE if standing.epoch == group.assignment_epoch:
            return standing
        case MemberProgress.UNREVOKED:
            if _still_has(owned, standing.revoking):
                return standing
            # What it was asked for is free. Its epoch rises even when it is asked for more at once,
            # so that what it commits from now on is told from what it committed before.
            return _step(group, member_id, standing, owned, standing.epoch + 1)
        case _:
            return _step(group, member_id, standing, owned, standing.epoch)


def _step(
    group: ConsumerGroup,
    member_id: str,
    standing: Standing,
    owned: Partitions | None,
    epoch: int,
) -> Standing:
    target = group.target(member_id)
    lost = standing.assigned - target
    if lost and _still_has(owned, lost):
        return replace(
            standing.at(epoch),
            progress=MemberProgress.UNREVOKED,
            assigned=standing.assigned & target,
            revoking=lost,
        )
    wanted = target - standing.assigned
    blocked = wanted & group.held_by_others(member_id) if wanted else NOTHING
    return replace(
        standing.at(group.assignment_epoch),
        progress=MemberProgress.UNRELEASED if blocked else MemberProgress.STABLE,
        assigned=target - blocked,
        revoking=NOTHING,
    )


def _still_has(owned: Partitions | None, partitions: Partitions) -> bool:
    # A member that says nothing has not said that it let go.
    return owned is None or bool(owned & partitions)
