"""Explains what a topic is waiting for and since when, as values for a front end.

A controller knows when things happened in its own term. What it found when it took over may be
older than that, so such a wait has the beginning of the term as its time.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.controller.context import Context, Partition
from klamm.controller.events import Explanation, Obstacle, Waiting
from klamm.controller.states import PartitionState, ReplicaState
from klamm.model.names import BrokerId, Replica


def explain(context: Context, name: str) -> Explanation | None:
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
    deletion = context.deletions.get(name)
    return Explanation(
        state=topic.state,
        waiting=tuple(found),
        deleting_since_ms=deletion.queued_ms if deletion else None,
        began_ms=context.began_ms,
    )


def explain_all(context: Context, after: str | None, limit: int) -> dict[str, Explanation]:
    """The topics that wait for something, by name, behind one name; at most so many."""
    found: dict[str, Explanation] = {}
    for name in sorted(_unwell(context)):
        if after is not None and name <= after:
            continue
        explanation = explain(context, name)
        if explanation is None or not explanation.waiting:
            continue
        if len(found) == limit:
            break
        found[name] = explanation
    return found


def _unwell(context: Context) -> set[str]:
    """The topics in which something may be waiting: the others need no closer look."""
    names = set(context.deletions)
    for ids in (context.unled, context.reassigning, *context.refused.values()):
        names.update(id.topic for id in ids)
    for name, topic in context.topics.items():
        if name not in names and any(
            p.leadership is None or len(p.leadership.isr) < len(p.assignment.replicas)
            for p in topic.partitions.values()
        ):
            names.add(name)
    return names


def _deletion(context: Context, partition: Partition) -> Iterator[Waiting]:
    id, deletion = partition.id, context.deletions[partition.id.topic]
    if context.is_moving(id):
        since_ms = max(context.reassigning[id], deletion.queued_ms)
        until = "the move ends or is cancelled"
        yield Waiting("deletion", id.partition, None, Obstacle.MOVING, until, since_ms)
    for broker in partition.assignment.replicas:
        state = partition.replica_states.get(broker)
        if state is ReplicaState.DELETION_SUCCESSFUL:
            continue
        absence = _absence(context, partition, broker)
        if absence is not None:
            why, since_ms, until = absence
            since_ms = max(since_ms, deletion.queued_ms)
            if why in (Obstacle.BROKER_DOWN, Obstacle.BROKER_FENCED):
                until += f", or its copy is given up (--forget-broker {broker})"
        elif state is ReplicaState.DELETION_STARTED:
            why, until = Obstacle.DELETE_PENDING, f"broker {broker} answers"
            since_ms = deletion.entered_ms[Replica(id, broker)]
        elif state is ReplicaState.DELETION_INELIGIBLE:
            why, until = Obstacle.DELETE_FAILED, "the next try"
            since_ms = deletion.entered_ms.get(Replica(id, broker), deletion.queued_ms)
        else:
            continue
        yield Waiting("deletion", id.partition, broker, why, until, since_ms)


def _life(context: Context, partition: Partition) -> Iterator[Waiting]:
    id, leadership = partition.id, partition.leadership
    if partition.state is PartitionState.NEW:
        until = f"{_listed(partition.assignment.replicas)} is there"
        since_ms = context.unled[id]
        yield Waiting("creation", id.partition, None, Obstacle.NO_REPLICA, until, since_ms)
    elif partition.state is PartitionState.OFFLINE and leadership is not None:
        why, since_ms = Obstacle.NO_IN_SYNC, context.unled[id]
        until = _return(context, partition, leadership.isr)
        others = [b for b in partition.assignment.replicas if b not in leadership.isr]
        if any(context.is_online(broker, id) for broker in others):
            until += ", or an unclean election"
        elif others:
            until += f", or {_listed(tuple(others))} is back and an unclean election is held"
        if any(id in context.lost_logs.get(broker, ()) for broker in leadership.isr):
            why = Obstacle.LOG_LOST
            until = f"{_listed(leadership.isr)} restarts with the disk it had, or an unclean"
            until += " election"
        elif any(id in context.foreign.get(broker, ()) for broker in leadership.isr):
            why = Obstacle.FOREIGN_LOG
            until = f"{_listed(leadership.isr)} restarts, which sets that log aside"
        yield Waiting("election", id.partition, None, why, until, since_ms)
    if leadership is None:
        return
    for broker in partition.assignment.replicas:
        refused = context.refused.get(broker, {})
        if id in refused and context.is_online(broker, id):
            why, until = Obstacle.ORDER_REFUSED, "the next try"
            yield Waiting("replication", id.partition, broker, why, until, refused[id])
        elif broker not in leadership.isr:
            yield _lag(context, partition, broker)


def _return(context: Context, partition: Partition, brokers: tuple[BrokerId, ...]) -> str:
    """The event that would bring one of these replicas back."""
    absences = [_absence(context, partition, broker) for broker in brokers]
    if all(absence is None or absence[0] is Obstacle.BROKER_DOWN for absence in absences):
        return f"{_listed(brokers)} is back"
    return " or ".join(absence[2] for absence in absences if absence is not None)


def _lag(context: Context, partition: Partition, broker: BrokerId) -> Waiting:
    id = partition.id
    moving = broker in partition.assignment.adding
    absence = _absence(context, partition, broker)
    since_ms = dict(partition.behind).get(broker, context.began_ms)
    if moving:
        since_ms = max(since_ms, context.reassigning[id])
    if absence is not None:
        why, away_ms, until = absence
        since_ms = max(since_ms, away_ms)
    else:
        why = Obstacle.CATCHING_UP if moving else Obstacle.LAGGING
        until = f"broker {broker} has caught up"
    what = "move" if moving else "replication"
    return Waiting(what, id.partition, broker, why, until, since_ms)


def _absence(
    context: Context, partition: Partition, broker: BrokerId
) -> tuple[Obstacle, int, str] | None:
    """The reason why a broker cannot serve its replica, since when, until when; or None."""
    id, back = partition.id, f"broker {broker} is back"
    if broker in context.fenced:
        return Obstacle.BROKER_FENCED, context.away[broker], f"broker {broker} answers again"
    if broker not in context.brokers:
        return Obstacle.BROKER_DOWN, context.away.get(broker, context.began_ms), back
    dirs = context.offline_dirs.get(broker, {})
    if id in context.foreign.get(broker, ()):
        until = f"broker {broker} restarts, which sets that log aside"
        return Obstacle.FOREIGN_LOG, dirs[id], until
    if id in dirs:
        return Obstacle.DIR_FAILED, dirs[id], f"broker {broker} restarts with a good disk"
    if broker in context.shutting_down:
        return Obstacle.BROKER_LEAVING, context.shutting_down[broker], back
    return None


def _listed(brokers: tuple[BrokerId, ...]) -> str:
    names = ", ".join(map(str, brokers))
    return f"broker {names}" if len(brokers) == 1 else f"one of brokers {names}"
