"""Taking a re-partitioning back.

Before the names were exchanged that means to remove the copy. After it the names are exchanged
again: the topic is what it was when it was frozen, groups have the offsets they had, and what was
written since lies in the copy, which keeps its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from klamm.model.errors import UsageError
from klamm.pipelines.repartition import groups as group_steps
from klamm.pipelines.repartition import journal as journals
from klamm.pipelines.repartition.journal import Stage
from klamm.pipelines.repartition.steps import TopicCluster


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of an undo."""

    topic: str
    copy: str
    was_swapped: bool
    written_since: int  # records that only the copy has
    groups: dict[str, dict[int, int]]


def undo(cluster: TopicCluster, topic: str, root: Path, *, group_patience_s: float) -> Undone:
    """Takes back the last re-partitioning of a topic, however far it got."""
    lookup = cluster.lookup
    place = journals.place_of(root, lookup.view([]).cluster_id, topic)
    with journals.alone(place):
        journal = journals.read(place / journals.JOURNAL)
        if journal is None or journal.stage is Stage.UNDONE:
            raise UsageError(f"{place} tells of no re-partitioning of {topic} that could be undone")
        ids = {name: found.id for name, found in lookup.view([topic, journal.copy]).topics.items()}
        is_swapped = ids.get(topic) == journal.copy_id
        if not is_swapped:
            is_there = ids.get(topic) == journal.topic_id
            has_copy = bool(journal.copy_id) and ids.get(journal.copy) == journal.copy_id
            if not is_there and not has_copy:
                raise UsageError(f"{topic} is another topic by now: nothing is undone")
            if has_copy:
                lookup.delete(journal.copy)
            is_ours = is_there and cluster.is_klamm and not journal.was_frozen
            if is_ours and cluster.is_frozen(topic):
                cluster.unfreeze(topic)
            journal.stage = Stage.UNDONE
            journal.write()
            return Undone(topic, journal.copy, False, 0, {})
        if ids.get(journal.copy) != journal.topic_id:
            raise UsageError(
                f"{journal.copy}, the old {topic}, is not there any more, so that nothing can be "
                "undone: it was deleted, by somebody or when its time was over"
            )
        group_steps.wait_until_idle(lookup, topic, group_patience_s)
        # It has what was written since, and nobody is to lose that.
        cluster.keep(journal.copy, None)
        cluster.freeze(topic, journal.copy)
        ends = lookup.latest(cluster.topic(topic).partitions)
        since = sum(end - journal.bases[tp.partition] for tp, end in ends.items())
        cluster.swap(topic, journal.copy_id, journal.copy, journal.topic_id)
        for group, offsets in journal.groups.items():
            group_steps.commit(lookup, topic, group, offsets)
        cluster.unfreeze(topic)
        journal.stage = Stage.UNDONE
        journal.write()
        return Undone(topic, journal.copy, True, since, journal.groups)
