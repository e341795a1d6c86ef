"""Two topics exchange their names.

One is the successor of the other: the same records in another number of partitions. Clients know
topics by their names, so whoever has the name is the topic. The ids, the assignments and the
leaderships of both go to the other's nodes in one write, which is done whole or not at all; then
each broker is ordered to lead and follow both under their new names, and finds its logs by the ids.
Whoever asks for the same exchange again, after its answer was lost, is told that it is done.

Both must be frozen, so that nobody writes to one of them in the belief that it is the other, and
their leader epochs rise above those of both: a client that remembers a name's epoch takes no newer
one for an older. What was written down about single logs of a name (bad disks, copies to be
removed) would be about other logs afterwards: while there is any of it, they are not exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from klamm.controller.context import Context, Partition, Topic
from klamm.controller.effects import Stored, SwappedTopic, SwapTopics
from klamm.controller.events import PartitionFault, SwapAsked
from klamm.controller.lifecycle.topic_nodes import node_of
from klamm.controller.states import PartitionState, ReplicaState, TopicState
from klamm.controller.states.machines import move_partitions, move_replicas, take_over
from klamm.controller.states.topic_machine import alive_state, move_topic
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership
from klamm.model.names import Replica, id_text

# It is one write, which a store takes up to a size.
PARTITIONS_MAX: Final = 1000


def swap_asked(turn: Turn, event: SwapAsked) -> Flow[PartitionFault]:
    """Exchange the names of two topics, unless something stands in the way."""
    context = turn.context
    one, other = context.topics.get(event.topic), context.topics.get(event.other)
    if one is None or other is None or one is other:
        return _fault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there are no two such topics")
    if (one.id, other.id) == (event.other_id, event.topic_id):
        return PartitionFault()  # it was done, and the answer was lost
    if (one.id, other.id) != (event.topic_id, event.other_id):
        why = f"{one.name} or {other.name} is another topic by now"
        return _fault(ErrorCode.UNKNOWN_TOPIC_ID, why)
    why = next(_obstacles(context, one, other), "")
    if why:
        return _fault(ErrorCode.INVALID_REQUEST, why)
    write = SwapTopics(_swapped(context, one, other), _swapped(context, other, one))
    (outcome,) = yield from commit([write])
    if not isinstance(outcome, Stored):
        return _fault(ErrorCode.REQUEST_TIMED_OUT, "somebody else has changed one of them: again")
    yield from _exchange(turn, one, other, write)
    return PartitionFault()


def _obstacles(context: Context, *topics: Topic) -> Iterator[str]:
    count = sum(len(topic.partitions) for topic in topics)
    if count > PARTITIONS_MAX:
        yield f"they have {count} partitions, and {PARTITIONS_MAX} can be exchanged at once"
    for topic in topics:
        if topic.state is not TopicState.FROZEN:
            yield f"topic {topic.name} is {topic.state}, not {TopicState.FROZEN}"
        for partition in topic.partitions.values():
            if partition.assignment.is_reassigning:
                yield f"{partition.id} is being moved"
            if partition.leadership is None or partition.state is not PartitionState.ONLINE:
                yield f"{partition.id} has no leader"
            # In what was written down about logs, these names stand for what they are now.
            for facts in (context.offline_dirs, context.lost_logs, context.leftovers):
                for broker, ids in facts.items():
                    if partition.id in ids:
                        yield f"the log of {partition.id} on broker {broker} is not in order"


def _swapped(context: Context, name_of: Topic, content: Topic) -> SwappedTopic:
    """The node and states of a name that gets the content of another."""
    node = replace(node_of(content), version=name_of.version, frozen=name_of.frozen)
    return SwappedTopic(
        name=name_of.name,
        node=replace(node, unclean=name_of.unclean, first_epoch=0),
        states={
            index: _leadership(context, partition, name_of.partitions.get(index))
            for index, partition in content.partitions.items()
        },
        replaces={index: _known(p).partition_epoch for index, p in name_of.partitions.items()},
    )


def _leadership(context: Context, partition: Partition, place: Partition | None) -> Leadership:
    now = _known(partition)
    there = None if place is None else _known(place)
    return replace(
        now,
        leader_epoch=max(now.leader_epoch, there.leader_epoch if there else 0) + 1,
        controller_epoch=context.epoch,
        partition_epoch=0 if there is None else there.partition_epoch + 1,
    )


def _known(partition: Partition) -> Leadership:
    assert partition.leadership is not None, f"{partition.id} is {partition.state}"
    return partition.leadership


def _exchange(turn: Turn, one: Topic, other: Topic, write: SwapTopics) -> Flow[None]:
    """Take into memory what is stored, and tell the brokers."""
    context, sides = turn.context, (write.first, write.second)
    before = {one.name: id_text(other.id), other.name: id_text(one.id)}
    former = {one.name: other.name, other.name: one.name}
    for topic in (one, other):
        topic.is_renamed = True
        yield from _leave(turn, topic, former[topic.name])
        move_topic(turn, topic, TopicState.ABSENT, f"its name went to topic {before[topic.name]}")
    stored: list[tuple[Partition, Leadership]] = []
    for side in sides:
        made = context.add_topic(side.name, replace(side.node, version=side.node.version + 1))
        topic = context.topics[side.name]
        move_topic(turn, topic, TopicState.CREATED, f"it was called {former[side.name]}")
        if alive_state(topic) is not TopicState.CREATED:
            move_topic(turn, topic, alive_state(topic))
        stored += [(partition, side.states[partition.id.partition]) for partition in made]
    yield from _arrive(turn, stored)


def _leave(turn: Turn, topic: Topic, name: str) -> Flow[None]:
    """Nothing goes by the name of this topic any more; its logs are where they were."""
    why, partitions = f"it is called {name} now", list(topic.partitions.values())
    yield from move_partitions(turn, partitions, PartitionState.OFFLINE)
    yield from move_partitions(turn, partitions, PartitionState.NON_EXISTENT)
    replicas = [Replica(p.id, broker) for p in partitions for broker in p.replica_states]
    yield from move_replicas(turn, replicas, ReplicaState.NON_EXISTENT, why)


def _arrive(turn: Turn, stored: Sequence[tuple[Partition, Leadership]]) -> Flow[None]:
    """Partitions and replicas of known leadership go on under these names."""
    context, partitions = turn.context, [partition for partition, _ in stored]
    replicas = [Replica(p.id, broker) for p in partitions for broker in p.assignment.replicas]
    yield from move_partitions(turn, partitions, PartitionState.NEW)
    yield from move_replicas(turn, replicas, ReplicaState.NEW)
    take_over(turn, stored)
    online = [r for r in replicas if context.is_online(r.broker, r.partition)]
    offline = [r for r in replicas if not context.is_online(r.broker, r.partition)]
    yield from move_replicas(turn, online, ReplicaState.ONLINE)
    yield from move_replicas(turn, offline, ReplicaState.OFFLINE)


def _fault(code: ErrorCode, why: str) -> PartitionFault:
    return PartitionFault(code, why)
