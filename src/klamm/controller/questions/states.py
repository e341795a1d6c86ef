"""Tells the states of topics, partitions and replicas, as values for a front end.

A cluster may have more of them than fit an answer, so topics come in the order of their names and
some at a time. Topics on their way out are among them: no metadata shows those.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from klamm.controller.context import Context, Topic
from klamm.controller.questions.survey import PartitionStates, States, TopicStates
from klamm.controller.states import ReplicaState
from klamm.model.names import BrokerId


def states(
    context: Context, names: Sequence[str] | None, after: str | None, partitions_max: int
) -> States:
    """The topics of these names, or all, behind one name; at least one, then up to so many
    partitions."""
    known = sorted(context.topics if names is None else context.topics.keys() & set(names))
    first = 0 if after is None else bisect_right(known, after)
    found: list[TopicStates] = []
    count = 0
    for name in known[first:]:
        topic = context.topics[name]
        if found and count + len(topic.partitions) > partitions_max:
            return States(topics=tuple(found), more=True)
        count += len(topic.partitions)
        found.append(_topic(context, topic))
    return States(topics=tuple(found), more=False)


def _topic(context: Context, topic: Topic) -> TopicStates:
    return TopicStates(
        name=topic.name,
        id=topic.id,
        state=topic.state,
        partitions=tuple(
            PartitionStates(
                index=index,
                state=partition.state,
                assignment=partition.assignment,
                leadership=partition.leadership,
                replica_states=tuple(
                    _state(partition.replica_states, broker)
                    for broker in partition.assignment.replicas
                ),
            )
            for index, partition in sorted(topic.partitions.items())
        ),
    )


def _state(known: dict[BrokerId, ReplicaState], broker: BrokerId) -> ReplicaState:
    return known.get(broker, ReplicaState.NON_EXISTENT)
