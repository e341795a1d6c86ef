"""Runs the tables of partitions and replicas: plan a transition, have it stored, then change memory
and tell the brokers. Nothing else sets the state of a partition or of a replica.

One partition's refusal never spoils its neighbours. A write that was stale is planned again from
the value found, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from operator import attrgetter
from typing import Final, TypeVar

from klamm.controller.batch import Batch
from klamm.controller.context import Context, Partition
from klamm.controller.effects import Stale, Stored, UpdateState
from klamm.controller.states import (
    FOUND,
    PartitionState,
    ReplicaState,
    partition_states,
    replica_states,
)
from klamm.controller.states.partition_states import PartitionView
from klamm.controller.states.replica_states import ReplicaView
from klamm.controller.states.strategies import Candidates, Strategy
from klamm.controller.turn import ATTEMPTS_MAX, Flow, Turn, commit
from klamm.model.errors import Refused
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, Replica, TopicPartition

T = TypeVar("T")
Refusals = dict[TopicPartition, Refused]
_Group = tuple[Partition, list[Replica]]  # replicas of one partition

_PARTITION: Final = attrgetter("partition")
_NOBODY: Final[frozenset[BrokerId]] = frozenset()
# How many partitions are planned and stored together.
_STEP: Final = 1000


def move_partitions(
    turn: Turn,
    partitions: Iterable[Partition],
    target: PartitionState,
    strategy: Strategy = Strategy.OFFLINE,
    *,
    unclean_allowed: bool = False,
) -> Flow[Refusals]:
    """Move partitions to a state; returns those that could not be moved, and why."""
    refused: Refusals = {}
    for some in in_steps(partitions):
        refused.update((yield from _move_partitions(turn, some, target, strategy, unclean_allowed)))
    return refused


def _move_partitions(
    turn: Turn,
    partitions: list[Partition],
    target: PartitionState,
    strategy: Strategy,
    unclean_allowed: bool,
) -> Flow[Refusals]:
    context = turn.context
    refused: Refusals = {}
    batch = turn.batch()
    pending = partitions
    for _ in range(ATTEMPTS_MAX):
        planned: list[tuple[Partition, partition_states.PartitionStep]] = []
        for partition in pending:
            view = _partition_view(context, partition, strategy, unclean_allowed)
            step = partition_states.plan(view, target)
            if isinstance(step, Refused):
                refused[partition.id] = step
            elif step.write is None:
                _enter(turn, partition, target, step.why)
            else:
                planned.append((partition, step))
        outcomes = yield from commit([step.write for _, step in planned if step.write])
        pending = []
        for (partition, step), outcome in zip(planned, outcomes, strict=True):
            if isinstance(outcome, Stored):
                assert step.write is not None, f"{partition.id} has nothing to write"
                context.lead(partition, step.write.leadership)
                _enter(turn, partition, target, step.why)
                turn.unclean_elections_count += not step.is_clean
                batch.order(step.tell, partition, is_new=step.is_new)
            elif _adopt(turn, partition, outcome):
                pending.append(partition)
            else:
                refused[partition.id] = Refused("its state is not in the store")
        if not pending:
            break
    refused.update((p.id, Refused("somebody else keeps writing its state")) for p in pending)
    turn.send(batch)
    return refused


def move_replicas(
    turn: Turn, replicas: Iterable[Replica], target: ReplicaState, why: str = ""
) -> Flow[None]:
    """Move replicas to a state. Those of one partition stand together, and share one write."""
    for some in in_steps(_by_partition(turn.context, replicas)):
        yield from _move_replicas(turn, some, target, why)


def _move_replicas(turn: Turn, groups: list[_Group], target: ReplicaState, why: str) -> Flow[None]:
    context = turn.context
    batch = turn.batch()
    pending = groups
    for _ in range(ATTEMPTS_MAX):
        again: list[_Group] = []
        planned: list[tuple[_Group, list[tuple[Replica, replica_states.ReplicaStep]]]] = []
        writes: list[UpdateState] = []
        for group in pending:
            partition, replicas = group
            steps, after = _plan_replicas(turn, partition, replicas, target)
            if after is partition.leadership:
                _enter_replicas(turn, batch, partition, steps, target, why)
            else:
                assert after is not None, f"{partition.id} lost its leadership"
                # However many replicas leave at once, the node is written once.
                writes.append(UpdateState(partition.id, after))
                planned.append((group, steps))
        outcomes = yield from commit(writes)
        for (group, steps), write, outcome in zip(planned, writes, outcomes, strict=True):
            partition = group[0]
            if isinstance(outcome, Stored):
                context.lead(partition, write.leadership)
                _enter_replicas(turn, batch, partition, steps, target, why)
            elif _adopt(turn, partition, outcome):
                again.append((partition, [replica for replica, _ in steps]))
            elif context.is_queued(partition.id.topic):
                # The state of a dying topic may be gone already; its replica still has to stop.
                context.forget_leadership(partition)
                again.append((partition, [replica for replica, _ in steps]))
        pending = again
        if not pending:
            break
    turn.send(batch)


def take_over(turn: Turn, stored: Iterable[tuple[Partition, Leadership]]) -> None:
    """Let new partitions be led as the store has it already: it came with the name of another."""
    batch = turn.batch()
    for partition, leadership in stored:
        assert partition.state is PartitionState.NEW, f"{partition.id} is {partition.state}"
        turn.context.lead(partition, leadership)
        _enter(turn, partition, PartitionState.ONLINE, f"leader {leadership.leader} as before")
        batch.order(partition.assignment.replicas, partition, is_new=False)
    turn.send(batch)


def find_partition(turn: Turn, partition: Partition, state: PartitionState) -> None:
    """Take up a partition where a new controller finds it.

    Of one that is led, which is nearly every one, the ledger needs no word.
    """
    if state is not PartitionState.ONLINE:
        turn.note(str(partition.id), partition.id.topic, FOUND, state)
    partition.state = state
    turn.context.file_unled(partition)


def find_replicas(
    turn: Turn, partition: Partition, states: Mapping[BrokerId, ReplicaState]
) -> None:
    """Take up a partition's replicas where a new controller finds them."""
    partition.replica_states.update(states)
    for broker, state in states.items():
        if state is not ReplicaState.ONLINE:
            turn.note(str(Replica(partition.id, broker)), partition.id.topic, FOUND, state)


def remark(turn: Turn, partition: Partition, why: str) -> None:
    """Enter into the ledger that something was done about a partition in the state it is in."""
    turn.note(str(partition.id), partition.id.topic, partition.state, partition.state, why)


def in_steps(things: Iterable[T]) -> Iterator[list[T]]:
    """Many transitions are made some at a time.

    What the first ones lead to is stored and on its way while the later ones are planned, and an
    event that touches everything takes no more memory at a time than one that touches a little.
    """
    rest = iter(things)
    while some := list(islice(rest, _STEP)):
        yield some


def bump_epochs(turn: Turn, partitions: Sequence[Partition]) -> Flow[list[Partition]]:
    """Raise leader epochs, so that brokers take what they are told for new."""
    done: list[Partition] = []
    pending = [p for p in partitions if p.leadership is not None]
    for _ in range(ATTEMPTS_MAX):
        writes = [UpdateState(p.id, _bumped(turn.context, p)) for p in pending]
        outcomes = yield from commit(writes)
        again: list[Partition] = []
        for partition, write, outcome in zip(pending, writes, outcomes, strict=True):
            if isinstance(outcome, Stored):
                turn.context.lead(partition, write.leadership)
                done.append(partition)
            elif _adopt(turn, partition, outcome):
                again.append(partition)
        pending = again
        if not pending:
            break
    return done


def _bumped(context: Context, partition: Partition) -> Leadership:
    now = partition.leadership
    assert now is not None, f"{partition.id} is {partition.state}"
    return now.succeeded_by(now.leader, now.isr, context.epoch)


def _partition_view(
    context: Context, partition: Partition, strategy: Strategy, unclean_allowed: bool
) -> PartitionView:
    id = partition.id
    replicas = partition.assignment.replicas
    live = frozenset([b for b in replicas if context.is_reachable(b, id)])
    return PartitionView(
        id=id,
        state=partition.state,
        candidates=Candidates(
            replicas=replicas,
            isr=partition.leadership.isr if partition.leadership else (),
            live=live,
            leaving=live.intersection(context.shutting_down),
            lost=_losers(context, live, id) if context.lost_logs else _NOBODY,
            target=partition.assignment.target,
            unclean_allowed=unclean_allowed or context.may_be_unclean(id.topic),
        ),
        leadership=partition.leadership,
        controller_epoch=context.epoch,
        strategy=strategy,
        first_epoch=context.topics[id.topic].first_epoch,
    )


def _losers(context: Context, live: frozenset[BrokerId], id: TopicPartition) -> frozenset[BrokerId]:
    return frozenset(b for b in live if id in context.lost_logs.get(b, ()))


def _enter(turn: Turn, partition: Partition, target: PartitionState, why: str) -> None:
    if partition.state is not target or why:
        turn.note(str(partition.id), partition.id.topic, partition.state, target, why)
    partition.state = target
    turn.context.file_unled(partition)


def _adopt(turn: Turn, partition: Partition, outcome: Stale | Stored) -> bool:
    """Take over the leadership that was found in the store, if there is one."""
    if not (isinstance(outcome, Stale) and isinstance(outcome.found, Leadership)):
        return False
    turn.context.lead(partition, outcome.found)
    if partition.state is PartitionState.NEW:
        # The answer to an earlier create was lost, or another term got this far: from here on it
        # is an election like any other.
        _enter(turn, partition, PartitionState.OFFLINE, "its state was in the store already")
    return True


def _by_partition(context: Context, replicas: Iterable[Replica]) -> Iterator[_Group]:
    """Replicas that stand beside each other and are of one partition, together."""
    for id, group in groupby(replicas, _PARTITION):
        partition = context.partition(id)
        if partition is not None:
            yield partition, list(group)


def _plan_replicas(
    turn: Turn, partition: Partition, replicas: Sequence[Replica], target: ReplicaState
) -> tuple[list[tuple[Replica, replica_states.ReplicaStep]], Leadership | None]:
    """The steps of one partition's replicas, each from the leadership the one before leaves."""
    staged = partition.leadership
    doomed = turn.context.deletions.get(partition.id.topic)
    is_vanished = doomed is not None and doomed.vanished
    steps = []
    for replica in replicas:
        view = ReplicaView(
            id=replica,
            state=partition.replica_states.get(replica.broker, ReplicaState.NON_EXISTENT),
            leadership=staged,
            is_queued=doomed is not None,
            is_hopeless=is_vanished or replica.broker not in turn.context.brokers,
            controller_epoch=turn.context.epoch,
            is_renamed=turn.context.topics[partition.id.topic].is_renamed,
        )
        step = replica_states.plan(view, target)
        if isinstance(step, Refused):
            turn.warn(f"{replica}: {step.why}")
            continue
        staged = step.leadership or staged
        steps.append((replica, step))
    if staged is not None and partition.leadership is not None:
        once = min(staged.partition_epoch, partition.leadership.partition_epoch + 1)
        if staged.partition_epoch != once:  # several leave, and the node is written once
            staged = replace(staged, partition_epoch=once)
    return steps, staged


def _enter_replicas(
    turn: Turn,
    batch: Batch,
    partition: Partition,
    steps: Iterable[tuple[Replica, replica_states.ReplicaStep]],
    target: ReplicaState,
    why: str,
) -> None:
    states = partition.replica_states
    doomed = turn.context.deletions.get(partition.id.topic)
    ordered: dict[bool, list[BrokerId]] = {}  # by whether their logs are new
    for replica, step in steps:
        before = states.get(replica.broker, ReplicaState.NON_EXISTENT)
        if before is not target:
            turn.note(str(replica), partition.id.topic, before, target, why)
            if doomed is not None:
                doomed.entered_ms[replica] = turn.context.now_ms
        if target is ReplicaState.NON_EXISTENT:
            states.pop(replica.broker, None)
        else:
            states[replica.broker] = target
        if step.order:
            ordered.setdefault(step.is_new, []).append(replica.broker)
        if step.stop:
            batch.stop(replica.broker, partition, delete=step.delete)
        if step.tell_others and partition.leadership is not None:
            others = [b for b in partition.assignment.replicas if b != replica.broker]
            if step.leadership is None:
                others = []  # nothing new for them; but clients should learn who is offline
            batch.order(others, partition, is_new=False)
    for is_new, brokers in ordered.items():
        batch.order(brokers, partition, is_new=is_new)
