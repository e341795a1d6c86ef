"""Brokers come, go, come back, and lose disks.

What was led by a broker that went is led by another before anything else is done about it. A broker
that registered again between two looks (its epoch rose) went and came: it forgot what it was told.

A broker may be registered and yet out of the controller's reach. Kafka holds it to be alive, and it
leads on with what it was last told. Here it can be fenced: held to be dead until it answers again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from klamm.controller.context import Context, Partition
from klamm.controller.effects import RemoveNotifications
from klamm.controller.events import (
    BrokerReached,
    BrokersChanged,
    BrokerUnreachable,
    LeaderAndIsrAnswered,
    LogDirFailed,
)
from klamm.controller.lifecycle import deletion, leftovers
from klamm.controller.membership import refused_orders
from klamm.controller.reassignments import reassignment
from klamm.controller.states import PartitionState, ReplicaState
from klamm.controller.states.machines import in_steps, move_partitions, move_replicas
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.brokers import Registration
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, Replica, TopicPartition


def brokers_changed(turn: Turn, event: BrokersChanged) -> Flow[None]:
    """Compare who is registered with who was."""
    fenced = turn.context.fenced
    for broker, known in list(fenced.items()):
        now = event.brokers.get(broker)
        if now is None or now.epoch != known.epoch:
            del fenced[broker]  # gone, or come anew: a new registration is given a new chance
    yield from _compare(turn, {b: v for b, v in event.brokers.items() if b not in fenced})


def broker_unreachable(turn: Turn, event: BrokerUnreachable) -> Flow[None]:
    """Go on as if the broker were dead; what it leads is led by another."""
    context = turn.context
    if not context.is_current(event.broker, event.broker_epoch):
        return
    turn.warn(f"broker {event.broker} is registered but cannot be reached: it is fenced")
    context.fenced[event.broker] = context.brokers[event.broker]
    others = {b: v for b, v in context.brokers.items() if b != event.broker}
    yield from _compare(turn, others, "it does not take the controller's requests")


def broker_reached(turn: Turn, event: BrokerReached) -> Flow[None]:
    """A fenced broker is there again, and is told everything anew."""
    context = turn.context
    known = context.fenced.get(event.broker)
    if known is not None and known.epoch == event.broker_epoch:
        del context.fenced[event.broker]
        yield from _compare(turn, {**context.brokers, event.broker: known})


def _compare(turn: Turn, present: Mapping[BrokerId, Registration], why: str = "") -> Flow[None]:
    context = turn.context
    new = sorted(present.keys() - context.brokers.keys())
    dead = sorted(context.brokers.keys() - present.keys())
    both = present.keys() & context.brokers.keys()
    bounced = sorted(b for b in both if present[b].epoch > context.brokers[b].epoch)
    changed = sorted(b for b in both if b not in bounced and present[b] != context.brokers[b])
    gone = [*bounced, *dead]
    for broker in gone:
        del context.brokers[broker]
        context.away[broker] = context.now_ms
        turn.note(f"broker {broker}", "", "live", "gone", why)
    if gone:
        yield from _brokers_failed(turn, gone)
    come = sorted([*new, *bounced])
    for broker in [*come, *changed]:
        context.brokers[broker] = present[broker]
        context.away.pop(broker, None)
    for broker in come:
        turn.note(f"broker {broker}", "", "gone", "live", f"epoch {present[broker].epoch}")
    if come:
        yield from _brokers_started(turn, come)
    elif changed:
        turn.publish_brokers()


def _brokers_started(turn: Turn, come: Sequence[BrokerId]) -> Flow[None]:
    context = turn.context
    for broker in come:
        context.offline_dirs.pop(broker, None)
        context.foreign.pop(broker, None)
        context.lost_logs.pop(broker, None)
        context.refused.pop(broker, None)
    turn.publish_brokers([b for b in context.live() if b not in come])
    batch = turn.batch()
    # Those on their way out, too: a broker that was fenced may show them still.
    batch.publish(
        (p for p in context.partitions() if p.leadership or context.is_queued(p.id.topic)),
        to=come,
    )
    turn.send(batch)
    leftovers.stop(turn, come)
    hosted = context.hosted_by(come)
    # A topic on its way out is not brought up again: its logs would only be created to be removed.
    serving = [r for r in hosted if not context.is_queued(r.partition.topic)]
    yield from move_replicas(turn, serving, ReplicaState.ONLINE)
    yield from elect_for_unled(turn)
    yield from reassignment.resume(turn, [r.partition for r in hosted])
    doomed = {r.partition.topic: None for r in hosted if context.is_queued(r.partition.topic)}
    yield from deletion.release(turn, doomed, deletion.Release.BROKER_BACK)


def _brokers_failed(turn: Turn, gone: Sequence[BrokerId]) -> Flow[None]:
    context = turn.context
    for broker in gone:
        context.offline_dirs.pop(broker, None)
        context.foreign.pop(broker, None)
        context.lost_logs.pop(broker, None)
        context.refused.pop(broker, None)
        context.shutting_down.pop(broker, None)
    yield from replicas_went_offline(turn, context.hosted_by(gone))


def replicas_went_offline(turn: Turn, replicas: Sequence[Replica], why: str = "") -> Flow[None]:
    """Replicas can no longer serve: elect first, then take them out."""
    doomed: list[Replica] = []
    serving: list[Replica] = []
    for some in in_steps(replicas):
        for replica in some:
            queued = turn.context.is_queued(replica.partition.topic)
            (doomed if queued else serving).append(replica)
        yield from _replace_leaders(turn, some)
    # Where the topic permits it a broker with an empty log was elected to go on: it stays.
    taken_out = [r for r in serving if not _leads(turn.context, r)]
    yield from move_replicas(turn, taken_out, ReplicaState.OFFLINE, why)
    if doomed:
        yield from deletion.fail(turn, doomed, deletion.Halt.OFFLINE)
    if not serving:
        turn.publish_brokers()


def _leads(context: Context, replica: Replica) -> bool:
    partition = context.partition(replica.partition)
    assert partition is not None, f"{replica} is not known"
    now = partition.leadership
    return (
        partition.state is PartitionState.ONLINE
        and now is not None
        and now.leader == replica.broker
    )


def _replace_leaders(turn: Turn, replicas: Iterable[Replica]) -> Flow[None]:
    """Have others lead what these replicas led."""
    context = turn.context
    led: dict[TopicPartition, Partition] = {}
    for replica in replicas:
        partition = context.partition(replica.partition)
        assert partition is not None, f"{replica} is not known"
        now = partition.leadership
        if now and now.leader == replica.broker and not context.is_queued(partition.id.topic):
            led[partition.id] = partition
    yield from move_partitions(turn, led.values(), PartitionState.OFFLINE)
    yield from move_partitions(turn, led.values(), PartitionState.ONLINE)


def elect_for_unled(turn: Turn, topics: Iterable[str] | None = None) -> Flow[int]:
    """Elect wherever there is no leader; returns how many partitions have one now."""
    context = turn.context
    wanted = None if topics is None else set(topics)
    candidates = []
    for id in context.unled:
        if context.is_queued(id.topic) or (wanted is not None and id.topic not in wanted):
            continue
        partition = context.partition(id)
        assert partition is not None, f"{id} is not known"
        candidates.append(partition)
    refused = yield from move_partitions(turn, candidates, PartitionState.ONLINE)
    return len(candidates) - len(refused)


def leader_and_isr_answered(turn: Turn, event: LeaderAndIsrAnswered) -> Flow[None]:
    """A broker says which replicas it could bring up."""
    context, broker = turn.context, event.request.to
    if not context.is_current(broker, event.request.broker_epoch):
        return
    if event.code is not ErrorCode.NONE:
        if event.code is not ErrorCode.STALE_CONTROLLER_EPOCH:
            turn.warn(f"broker {broker} refused its replicas: {event.code.name}")
            refused_orders.refuse_all(turn, broker, [o.partition for o in event.request.orders])
        return
    codes = _codes_that_count(context, event)
    offline = context.offline_dirs.get(broker, {})
    failed: list[Replica] = []
    recovered: list[Replica] = []
    lost: list[Replica] = []
    foreign: list[Replica] = []
    for id, code in codes.items():
        replica = Replica(id, broker)
        if code is ErrorCode.KAFKA_STORAGE_ERROR and id not in offline:
            failed.append(replica)
        elif code is ErrorCode.LOG_DIR_NOT_FOUND:
            lost.append(replica)
        elif code is ErrorCode.NONE and id in offline:
            recovered.append(replica)
        elif code is ErrorCode.INCONSISTENT_TOPIC_ID and _is_foreign(context, replica):
            foreign.append(replica)
    refused_orders.sort_out(turn, broker, codes)
    yield from _sort_out_leftovers(turn, broker, codes)
    if failed:
        turn.warn(f"broker {broker} has {len(failed)} replicas on a failed log directory")
        context.offline_dirs.setdefault(broker, {}).update(
            (r.partition, context.now_ms) for r in failed
        )
        yield from replicas_went_offline(turn, failed)
    if lost:
        turn.warn(f"broker {broker} has lost {len(lost)} logs that are counted as in sync")
        context.lost_logs.setdefault(broker, {}).update((r.partition, context.now_ms) for r in lost)
        yield from replicas_went_offline(turn, lost)
    if foreign:
        yield from _foreign_found(turn, broker, foreign)
    if recovered:
        for replica in recovered:
            del offline[replica.partition]
            context.foreign.get(broker, {}).pop(replica.partition, None)
        yield from _replicas_recovered(turn, recovered)


def _is_foreign(context: Context, replica: Replica) -> bool:
    """Whether the log in a replica's place is news, and nobody's leftover."""
    broker, id = replica.broker, replica.partition
    known = context.offline_dirs.get(broker, {}), context.leftovers.get(broker, {})
    return not any(id in ids for ids in known)


def _foreign_found(turn: Turn, broker: BrokerId, replicas: Sequence[Replica]) -> Flow[None]:
    """The broker keeps a log of another topic, and is right to: the replica cannot be there.

    Kafka ignores this answer and holds the replica to be in sync, or to lead. Here it is offline
    until the broker restarts, which sets the other log aside.
    """
    context = turn.context
    ids = [replica.partition for replica in replicas]
    context.foreign.setdefault(broker, {}).update(dict.fromkeys(ids))
    context.offline_dirs.setdefault(broker, {}).update(dict.fromkeys(ids, context.now_ms))
    why = "its broker has a log of another topic of that name"
    yield from replicas_went_offline(turn, replicas, why)


def _codes_that_count(
    context: Context, event: LeaderAndIsrAnswered
) -> dict[TopicPartition, ErrorCode]:
    """The codes of replicas that are still assigned, and still of the topic that was meant."""
    hosted, meant = context.hosted.get(event.request.to, {}), event.request.topic_ids
    return {
        id: code
        for id, code in event.errors.items()
        if id in hosted and meant.get(id.topic) == context.topics[id.topic].id
    }


def _sort_out_leftovers(
    turn: Turn, broker: BrokerId, codes: Mapping[TopicPartition, ErrorCode]
) -> Flow[None]:
    """Bringing up a later topic of the name shows what became of the earlier one's copy."""
    left = turn.context.leftovers.get(broker, {})
    met = {id: codes[id] for id in left if id in codes}
    stale = [id for id, code in met.items() if code is ErrorCode.INCONSISTENT_TOPIC_ID]
    leftovers.replace_stale(turn, broker, stale)
    # Who has obeyed this order before holds the later topic's log, too.
    obeyed = (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)
    gone = [id for id, code in met.items() if code in obeyed]
    if gone:
        yield from leftovers.confirm(turn, broker, gone)


def _replicas_recovered(turn: Turn, replicas: Sequence[Replica]) -> Flow[None]:
    context = turn.context
    serving = [r for r in replicas if not context.is_queued(r.partition.topic)]
    yield from move_replicas(turn, serving, ReplicaState.ONLINE)
    yield from elect_for_unled(turn, {r.partition.topic for r in serving})
    doomed = {r.partition.topic: None for r in replicas if context.is_queued(r.partition.topic)}
    yield from deletion.release(turn, doomed, deletion.Release.DISK_GOOD)


def log_dir_failed(turn: Turn, event: LogDirFailed) -> Flow[None]:
    """Ask the brokers for every replica; their answers tell which ones are lost."""
    context = turn.context
    present = [b for b in event.brokers if b in context.brokers]
    serving = [r for r in context.hosted_by(present) if not context.is_queued(r.partition.topic)]
    yield from move_replicas(turn, serving, ReplicaState.ONLINE)
    yield from commit([RemoveNotifications(log_dirs=event.notices)])


def bring_up_emptied(turn: Turn) -> Flow[None]:
    """Bring up again replicas that lost their logs, once nobody counts on what was in them.

    That is when the partition went on with another leader, or uncleanly with this one.
    """
    context = turn.context
    unneeded: list[Replica] = []
    for broker, ids in context.lost_logs.items():
        for id in ids:
            partition = context.partition(id)
            now = partition.leadership if partition else None
            if now is not None and (broker not in now.isr or now.leader == broker):
                unneeded.append(Replica(id, broker))
    for replica in unneeded:
        del context.lost_logs[replica.broker][replica.partition]
    serving = [r for r in unneeded if not context.is_queued(r.partition.topic)]
    yield from move_replicas(turn, serving, ReplicaState.ONLINE)
