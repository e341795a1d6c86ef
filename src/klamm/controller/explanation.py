"""What a topic is waiting for, in values that a front end can put into words."""

from __future__ import annotations

from collections.abc import Iterator

from klamm.controller.context import Context, Partition
from klamm.controller.events import Obstacle, Waiting
from klamm.controller.states import PartitionState, ReplicaState
from klamm.model.names import BrokerId


def explain(context: Context, name: str) -> tuple[Waiting, ...] | None:
    """Everything that holds a topic up; nothing where it is as it should be."""
    topic = context.topics.get(name)
    if topic is None:
        return None
    found: list[Waiting] = []
    for _, partition in sorted(topic.partitions.items()):
        if context.is_queued(name):
            found += _deletion(context, partition)
        else:
            found += _life(context, partition)
    return tuple(found)


def _deletion(context: Context, partition: Partition) -> Iterator[Waiting]:
    index = partition.id.partition
    if partition.id in context.moving:
        yield Waiting("deletion", index, None, Obstacle.MOVING, "the move ends or is cancelled")
    for broker in partition.assignment.replicas:
        state = partition.replica_states.get(broker)
        if state is ReplicaState.DELETION_SUCCESSFUL:
            continue
        if broker not in context.brokers:
            until = f"broker {broker} is back, or its copy is forgotten"
            yield Waiting("deletion", index, broker, Obstacle.BROKER_DOWN, until)
        elif not context.is_online(broker, partition.id):
            until = f"broker {broker} restarts with a good disk"
            yield Waiting("deletion", index, broker, Obstacle.DIR_FAILED, until)
        elif state is ReplicaState.DELETION_STARTED:
            until = f"broker {broker} answers"
            yield Waiting("deletion", index, broker, Obstacle.DELETE_PENDING, until)
        elif state is ReplicaState.DELETION_INELIGIBLE:
            until = "the next try"
            yield Waiting("deletion", index, broker, Obstacle.DELETE_FAILED, until)


def _life(context: Context, partition: Partition) -> Iterator[Waiting]:
    index = partition.id.partition
    if partition.state is PartitionState.NEW:
        yield Waiting("creation", index, None, Obstacle.NO_REPLICA, _any_of(partition))
    elif partition.state is PartitionState.OFFLINE and partition.leadership is not None:
        isr = partition.leadership.isr
        until = f"one of brokers {_listed(isr)} is back, or an unclean election"
        yield Waiting("election", index, None, Obstacle.NO_IN_SYNC, until)
    if partition.leadership is None:
        return
    for broker in partition.assignment.replicas:
        if broker in partition.leadership.isr:
            continue
        moving = broker in partition.assignment.adding
        what = "move" if moving else "replication"
        if not context.is_online(broker, partition.id):
            down = broker not in context.brokers
            why = Obstacle.BROKER_DOWN if down else Obstacle.DIR_FAILED
            yield Waiting(what, index, broker, why, f"broker {broker} is back")
        else:
            why = Obstacle.CATCHING_UP if moving else Obstacle.LAGGING
            yield Waiting(what, index, broker, why, f"broker {broker} has caught up")


def _any_of(partition: Partition) -> str:
    return f"one of brokers {_listed(partition.assignment.replicas)} is there"


def _listed(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers))
