"""Controlled shutdown: a broker asks to be relieved of what it leads before it goes."""

from __future__ import annotations

from klamm.controller.context import Context, Partition
from klamm.controller.events import ShutdownAnswer, ShutdownAsked
from klamm.controller.states import PartitionState, ReplicaState
from klamm.controller.states.machines import move_partitions, move_replicas
from klamm.controller.states.strategies import Strategy
from klamm.controller.turn import Flow, Turn
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, Replica


def shutdown_asked(turn: Turn, event: ShutdownAsked) -> Flow[ShutdownAnswer]:
    """Hand over what can be handed over; answer what is left."""
    context = turn.context
    broker = context.brokers.get(event.broker)
    if broker is None:
        return ShutdownAnswer(ErrorCode.BROKER_NOT_AVAILABLE)
    if event.broker_epoch != -1 and event.broker_epoch < broker.epoch:
        return ShutdownAnswer(ErrorCode.STALE_BROKER_EPOCH)
    if event.broker not in context.shutting_down:
        context.shutting_down[event.broker] = context.now_ms
        turn.note(f"broker {event.broker}", "", "live", "shutting down")
    concerned = _replicated(context, event.broker)
    led = [p for p in concerned if p.leadership and p.leadership.leader == event.broker]
    followed = [p for p in concerned if p.leadership and p.leadership.leader != event.broker]
    yield from move_partitions(turn, led, PartitionState.ONLINE, Strategy.SHUTDOWN)
    yield from move_replicas(
        turn, [Replica(p.id, event.broker) for p in followed], ReplicaState.OFFLINE
    )
    still_led = [p.id for p in concerned if p.leadership and p.leadership.leader == event.broker]
    return ShutdownAnswer(ErrorCode.NONE, tuple(still_led))


def _replicated(context: Context, broker: BrokerId) -> list[Partition]:
    """The partitions somebody else could lead: with other replicas, and not on their way out."""
    found = []
    for id in context.hosted.get(broker, ()):
        partition = context.partition(id)
        assert partition is not None, f"{id} is not known"
        if len(partition.assignment.replicas) > 1 and not context.is_queued(id.topic):
            found.append(partition)
    return found
