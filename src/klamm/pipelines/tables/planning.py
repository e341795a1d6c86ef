"""Decides how a table goes on: what of the topic comes next, and what must not be passed over.

Pure: offsets in, offsets and sentences out. A topic that was deleted and created again, one with
fewer partitions than were followed, and records that retention took before they were read are
never "nothing to do": each is refused with what to do, or accepted where that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from klamm.model.errors import KlammError
from klamm.pipelines.tables.choices import OnLoss, OnRecreated
from klamm.pipelines.tables.state import Follow

_SHOWN: Final = 5


class Refused(KlammError):
    """The table cannot go on without somebody's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNow:
    """The topic as the cluster has it."""

    topic_id: str
    cluster: str
    earliest: Mapping[int, int]
    ends: Mapping[int, int]  # what readers of committed records can see


@dataclass(frozen=True, slots=True)
class GoingOn:
    """The state to go on from, with what was accepted, in words."""

    state: Follow
    notes: tuple[str, ...] = ()


def go_on(state: Follow, now: TopicNow, on_loss: OnLoss, on_recreated: OnRecreated) -> GoingOn:
    """The offsets to go on from."""
    if state.cluster and now.cluster and state.cluster != now.cluster:
        raise Refused(
            f"the table follows {state.topic} of cluster {state.cluster}, and this is cluster "
            f"{now.cluster}: name the brokers of that one, or another directory"
        )
    if state.topic_id and now.topic_id and state.topic_id != now.topic_id:
        if on_recreated is OnRecreated.REFUSE:
            raise Refused(
                f"{state.topic} was deleted and created again, or re-partitioned (id "
                f"{now.topic_id}, and the table follows {state.topic_id}): its offsets mean other "
                "records now. --on-recreated restart adds the new topic from its beginning to the "
                "same table; or follow it into another directory"
            )
        fresh = replace(state, topic_id=now.topic_id, offsets=dict(now.earliest))
        return GoingOn(
            fresh, (f"{state.topic} is another topic now: it is read from its beginning",)
        )
    lost, moved = _losses(state, now)
    if lost and on_loss is OnLoss.REFUSE:
        more = f", and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        raise Refused(
            f"records of {state.topic} are gone that the table has not: "
            f"{'; '.join(lost[:_SHOWN])}{more}. --on-loss accept goes on with what is left"
        )
    fresh_partitions = {p: o for p, o in now.earliest.items() if p not in state.offsets}
    skipped = sum(o - state.offsets[p] for p, o in moved.items() if o > state.offsets[p])
    if not lost and not fresh_partitions:
        return GoingOn(state)
    offsets = {**state.offsets, **moved, **fresh_partitions}
    return GoingOn(replace(state, offsets=offsets, lost=state.lost + skipped), tuple(lost))


def _losses(state: Follow, now: TopicNow) -> tuple[list[str], dict[int, int]]:
    """The losses in words, and where to go on for those who accept that."""
    lost, moved = [], {}
    for partition, at in sorted(state.offsets.items()):
        if partition not in now.ends:
            lost.append(f"partition {partition} is gone")
            continue
        first, end = now.earliest[partition], now.ends[partition]
        if at < first:
            lost.append(f"partition {partition} begins at {first}, and {at} was next")
            moved[partition] = first
        elif at > end:
            lost.append(f"partition {partition} ends at {end}, and was read to {at}")
            moved[partition] = end
    return lost, moved


def lag_of(state: Follow, now: TopicNow) -> dict[int, int]:
    """The number of offsets of each partition that the table has not."""
    return {
        p: max(end - max(state.offsets.get(p, 0), now.earliest.get(p, 0)), 0)
        for p, end in now.ends.items()
    }
