"""Elections that nobody's failure forced: asked for by a client, a tool, or the balance of leaders.

Also the switches that permit an unclean election, since turning one on is a reason to elect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from klamm.controller.context import Context, Partition
from klamm.controller.effects import RemoveElectionRequest
from klamm.controller.events import (
    ElectionsAnswer,
    ElectionsAsked,
    ElectionsRequested,
    ElectionType,
    PartitionFault,
    UncleanSwitched,
)
from klamm.controller.membership.brokers import elect_for_unled
from klamm.controller.states import PartitionState
from klamm.controller.states.machines import move_partitions
from klamm.controller.states.strategies import Strategy
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition

_FAILED = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def elections_asked(turn: Turn, event: ElectionsAsked) -> Flow[ElectionsAnswer]:
    """ElectLeaders."""
    context = turn.context
    everything = event.partitions is None
    wanted = [p.id for p in context.partitions()] if everything else list(event.partitions or ())
    results: dict[TopicPartition, PartitionFault] = {}
    elect: list[Partition] = []
    for id in dict.fromkeys(wanted):
        partition = context.partition(id)
        fault = _fault(context, event.kind, id, partition)
        if fault is None:
            assert partition is not None, f"{id} is not known"
            elect.append(partition)
        elif not (everything and fault.code is ErrorCode.ELECTION_NOT_NEEDED):
            results[id] = fault
    unclean = event.kind is ElectionType.UNCLEAN
    refused = yield from move_partitions(
        turn,
        elect,
        PartitionState.ONLINE,
        Strategy.OFFLINE if unclean else Strategy.PREFERRED,
        unclean_allowed=unclean,
    )
    leader_epochs: dict[TopicPartition, int] = {}
    for partition in elect:
        if partition.id in refused:
            why = refused[partition.id].why
            results[partition.id] = PartitionFault(_FAILED[event.kind], f"{partition.id}: {why}")
        else:
            assert partition.leadership is not None, f"{partition.id} is {partition.state}"
            leader_epochs[partition.id] = partition.leadership.leader_epoch
            results[partition.id] = PartitionFault()
    return ElectionsAnswer(results, leader_epochs)


def _fault(
    context: Context, kind: ElectionType, id: TopicPartition, partition: Partition | None
) -> PartitionFault | None:
    if partition is None:
        return PartitionFault(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The partition does not exist. It is {id}."
        )
    if context.is_queued(id.topic):
        return PartitionFault(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic is being deleted. It is {id.topic}."
        )
    leader = partition.leadership.leader if partition.leadership else None
    if kind is ElectionType.PREFERRED and leader == partition.assignment.replicas[0]:
        return PartitionFault(ErrorCode.ELECTION_NOT_NEEDED, f"{id} has its preferred leader")
    if kind is ElectionType.UNCLEAN and leader is not None and context.is_live(leader):
        return PartitionFault(ErrorCode.ELECTION_NOT_NEEDED, f"{id} has a live leader")
    return None


def elections_requested(turn: Turn, event: ElectionsRequested) -> Flow[None]:
    """The legacy request for preferred elections, removed when it is done."""
    yield from elect_preferred(turn, event.partitions)
    yield from commit([RemoveElectionRequest()])


def elect_preferred(turn: Turn, partitions: Iterable[TopicPartition]) -> Flow[None]:
    """Elect preferred leaders where they do not lead yet."""
    elect = []
    for id in partitions:
        partition = turn.context.partition(id)
        if partition and _fault(turn.context, ElectionType.PREFERRED, id, partition) is None:
            elect.append(partition)
    refused = yield from move_partitions(turn, elect, PartitionState.ONLINE, Strategy.PREFERRED)
    for id, refusal in refused.items():
        turn.warn(f"{id}: {refusal.why}")


def unclean_switched(turn: Turn, event: UncleanSwitched) -> Flow[None]:
    """Unclean election was permitted or forbidden; permission is used at once."""
    context = turn.context
    if event.topic is None:
        context.unclean_default = bool(event.allowed)
        if event.allowed:
            yield from elect_for_unled(turn)
        return
    topic = context.topics.get(event.topic)
    if topic is None or topic.unclean == event.allowed:
        return
    topic.unclean = event.allowed
    if event.allowed:
        yield from elect_for_unled(turn, [event.topic])


def rebalance(turn: Turn) -> Flow[int]:
    """Give leadership back to preferred leaders where too many lost it; a bounded number a round.

    Returns how many are left for the next round.
    """
    context = turn.context
    if not context.displaced:
        return 0
    led_by: defaultdict[BrokerId, int] = defaultdict(int)
    displaced: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for partition in context.partitions():
        if context.is_queued(partition.id.topic):
            continue
        preferred = partition.assignment.replicas[0]
        led_by[preferred] += 1
        if partition.id in context.displaced:
            displaced[preferred].append(partition.id)
    due: list[TopicPartition] = []
    for broker in sorted(displaced):
        if len(displaced[broker]) * 100 > turn.settings.imbalance_percentage * led_by[broker]:
            due += [id for id in displaced[broker] if _can_lead(context, id, broker)]
    now, later = due[: turn.settings.rebalance_batch_max], due[turn.settings.rebalance_batch_max :]
    yield from elect_preferred(turn, now)
    return len(later)


def _can_lead(context: Context, id: TopicPartition, broker: BrokerId) -> bool:
    partition = context.partition(id)
    assert partition is not None, f"{id} is not known"
    isr = partition.leadership.isr if partition.leadership else ()
    return broker in isr and context.is_online(broker, id)
