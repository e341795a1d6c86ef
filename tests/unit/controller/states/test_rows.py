"""Every row of the three tables, as it is used: something happens, and that transition is made.

Each test here is one row, told by `@row`; the last ones fail when a table has a row without a test
of its own. What a rule gives for every view of a partition is in `test_partition_states.py` and
`test_replica_states.py`, of a topic in `test_topic_states.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import wraps

import pytest

from klamm.controller import events
from klamm.controller.effects import LeaderAndIsr, StopReplica, UpdateState, Write
from klamm.controller.states import PartitionState as P
from klamm.controller.states import ReplicaState as R
from klamm.controller.states import TopicState as T
from klamm.controller.states import partition_states, replica_states, topic_states
from klamm.controller.states.partition_states import PartitionView
from klamm.controller.states.replica_states import ReplicaView
from klamm.controller.states.topic_states import TopicView
from klamm.controller.turn import ControllerSettings
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import NO_LEADER, BrokerId, Replica
from world.cluster import World, tp

# The machine counts: both have states of the same names.
Row = tuple[type, str, str]
ROWS: dict[Row, str] = {}  # with the name of the test
ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


class Watched(World):
    """A world that knows which legal transitions were planned since they were last cleared."""

    used: set[Row]


Test = Callable[[Watched], None]


def row(before: T | P | R, after: T | P | R) -> Callable[[Test], Test]:
    """This test is about that row, and uses it."""
    key = (type(before), str(before), str(after))

    def register(test: Test) -> Test:
        assert key not in ROWS, f"{key} is told twice"
        ROWS[key] = test.__name__

        @wraps(test)
        def run(world: Watched) -> None:
            test(world)
            assert key in world.used, f"{before} -> {after} was not made"

        return run

    return register


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """T-0 on brokers 1 and 2, led by 1; broker 3 is the controller."""
    used: set[Row] = set()
    plan_partition, plan_replica = partition_states.plan, replica_states.plan
    plan_topic = topic_states.plan

    def partition(view: PartitionView, target: P) -> partition_states.PartitionStep | Refused:
        step = plan_partition(view, target)
        if not isinstance(step, Refused):
            used.add((P, str(view.state), str(target)))
        return step

    def replica(view: ReplicaView, target: R) -> replica_states.ReplicaStep | Refused:
        step = plan_replica(view, target)
        if not isinstance(step, Refused):
            used.add((R, str(view.state), str(target)))
        return step

    def topic(view: TopicView, target: T) -> topic_states.TopicStep | Refused:
        step = plan_topic(view, target)
        if not isinstance(step, Refused):
            used.add((T, str(view.state), str(target)))
        return step

    monkeypatch.setattr(topic_states, "plan", topic)
    monkeypatch.setattr(partition_states, "plan", partition)
    monkeypatch.setattr(replica_states, "plan", replica)
    world = Watched([1, 2, 3], settings=ControllerSettings(deletion_cancellable=True))
    world.elect(3)
    world.create("T", [[1, 2]])
    world.deliver()
    world.used = used
    used.clear()
    return world


def state(world: World, partition: str = "T-0") -> P:
    found = world.core.context.partition(tp(partition))
    assert found is not None
    return found.state


def replica(world: World, broker: int, partition: str = "T-0") -> R:
    return world.core.context.replica_state(Replica(tp(partition), BrokerId(broker)))


def life(world: World, topic: str = "T") -> T:
    return world.core.context.topics[topic].state


def last_line(world: World, topic: str = "T") -> tuple[str, str, str]:
    line = [m for m in world.transitions() if m.subject == f"topic {topic}"][-1]
    return line.before, line.after, line.why


def orders(world: World, broker: int) -> list[bool]:
    """Whether the log is new, of every order on its way to a broker."""
    mail = [request for request, _ in world.mail if request.to == broker]
    return [o.is_new for r in mail if isinstance(r, LeaderAndIsr) for o in r.orders]


def stops(world: World, broker: int) -> list[bool]:
    """Whether the log is to go, of every stop on its way to a broker."""
    mail = [request for request, _ in world.mail if request.to == broker]
    return [o.delete for r in mail if isinstance(r, StopReplica) for o in r.orders]


# Partitions


@row(P.NON_EXISTENT, P.NEW)
def test_a_partition_of_a_new_topic_is_known_before_it_is_led(world: Watched) -> None:
    world.stop_broker(1)
    world.create("U", [[1]])
    assert state(world, "U-0") is P.NEW


@row(P.NEW, P.ONLINE)
def test_a_new_partition_gets_its_first_leader(world: Watched) -> None:
    world.create("U", [[2, 1]])
    assert (state(world, "U-0"), world.state("U-0").leader) == (P.ONLINE, 2)


@row(P.ONLINE, P.ONLINE)
def test_a_led_partition_is_given_another_leader(world: Watched) -> None:
    world.ask(events.ShutdownAsked(ONE))
    assert (state(world), world.state("T-0").leader) == (P.ONLINE, 2)


@row(P.OFFLINE, P.ONLINE)
def test_a_partition_whose_leader_is_gone_is_led_again(world: Watched) -> None:
    world.stop_broker(1)
    assert (state(world), world.state("T-0").leader) == (P.ONLINE, 2)


@row(P.NEW, P.OFFLINE)
def test_a_partition_that_was_never_led_can_be_deleted(world: Watched) -> None:
    world.stop_broker(1)
    world.create("U", [[1]])
    world.used.clear()
    world.core.settings = ControllerSettings()
    world.delete("U")
    assert state(world, "U-0") is P.NON_EXISTENT


@row(P.ONLINE, P.OFFLINE)
def test_a_partition_loses_its_last_replica(world: Watched) -> None:
    world.stop_broker(1)
    world.used.clear()
    world.stop_broker(2)
    assert (state(world), world.state("T-0").leader) == (P.OFFLINE, NO_LEADER)


@row(P.OFFLINE, P.OFFLINE)
def test_an_offline_partition_can_be_deleted(world: Watched) -> None:
    world.stop_broker(1)
    world.stop_broker(2)
    world.used.clear()
    world.core.settings = ControllerSettings()
    world.delete("T")
    assert state(world) is P.NON_EXISTENT


@row(P.OFFLINE, P.NON_EXISTENT)
def test_a_partition_ends_when_its_deletion_starts(world: Watched) -> None:
    world.delete("T")
    assert state(world) is P.NON_EXISTENT


# Replicas


@row(R.NON_EXISTENT, R.NEW)
def test_an_added_replica_is_told_to_follow_with_a_new_log(world: Watched) -> None:
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, TWO, THREE)}))
    assert (replica(world, 3), orders(world, 3)) == (R.NEW, [True, True])


@row(R.NEW, R.ONLINE)
def test_a_replica_serves_once_its_partition_is_led(world: Watched) -> None:
    world.create("U", [[2]])
    assert (replica(world, 2, "U-0"), orders(world, 2)) == (R.ONLINE, [True])


@row(R.ONLINE, R.ONLINE)
def test_a_broker_with_a_failed_disk_is_asked_for_every_replica(world: Watched) -> None:
    world.handle(events.LogDirFailed((TWO,), ()))
    assert (replica(world, 2), orders(world, 2)) == (R.ONLINE, [False])


@row(R.OFFLINE, R.ONLINE)
def test_a_returning_broker_is_told_what_its_replica_is(world: Watched) -> None:
    world.stop_broker(2)
    world.deliver()
    world.used.clear()
    world.start_broker(2)
    assert (replica(world, 2), orders(world, 2)) == (R.ONLINE, [False])


def halted_by_a_move_with_a_dead_replica(world: World) -> None:
    """A new controller finds T half moved to brokers 1 and 3, marked, and broker 2 away."""
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, THREE)}))
    world.deliver()
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.elect(3)
    world.deliver()
    assert replica(world, 2) is R.DELETION_INELIGIBLE


@row(R.DELETION_INELIGIBLE, R.ONLINE)
def test_a_replica_serves_again_when_its_deletion_is_called_off(world: Watched) -> None:
    halted_by_a_move_with_a_dead_replica(world)
    world.start_broker(2)
    world.deliver()
    world.used.clear()
    assert world.ask(events.DeletionCancelled("T")) == events.PartitionFault()
    # Told what it is, and once more that it is on its way to another broker.
    assert (replica(world, 2), orders(world, 2)) == (R.ONLINE, [False, False])


@row(R.NEW, R.OFFLINE)
def test_an_added_replica_is_lost_before_it_caught_up(world: Watched) -> None:
    world.elect(1)
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, TWO, THREE)}))
    world.deliver()
    world.used.clear()
    world.stop_broker(3)
    assert (replica(world, 3), world.state("T-0").isr) == (R.OFFLINE, (1, 2))


@row(R.ONLINE, R.OFFLINE)
def test_a_lost_replica_leaves_the_isr_and_the_others_hear_of_it(world: Watched) -> None:
    world.stop_broker(2)
    assert (replica(world, 2), world.state("T-0").isr) == (R.OFFLINE, (1,))
    assert orders(world, 1) == [False]


@row(R.OFFLINE, R.OFFLINE)
def test_a_broker_that_left_in_order_goes(world: Watched) -> None:
    world.ask(events.ShutdownAsked(TWO))
    world.deliver()
    before = world.state("T-0")
    world.used.clear()
    world.stop_broker(2)
    assert (replica(world, 2), world.state("T-0")) == (R.OFFLINE, before)


@row(R.DELETION_INELIGIBLE, R.OFFLINE)
def test_a_copy_that_could_not_be_deleted_is_stopped_again(world: Watched) -> None:
    world.brokers[TWO].bad_disk[tp("T-0")] = None
    world.delete("T")
    world.deliver()
    assert replica(world, 2) is R.DELETION_INELIGIBLE
    world.used.clear()
    world.handle(events.RetryDue())
    assert False in stops(world, 2)


@row(R.OFFLINE, R.DELETION_STARTED)
def test_a_stopped_copy_is_to_be_removed(world: Watched) -> None:
    world.delete("T")
    assert (replica(world, 2), stops(world, 2)) == (R.DELETION_STARTED, [False, True])


@row(R.DELETION_STARTED, R.DELETION_SUCCESSFUL)
def test_a_removed_copy_is_confirmed(world: Watched) -> None:
    world.delete("T")
    world.used.clear()
    while world.mail:
        world.deliver_one()
    world.handle(world.answers.popleft())
    assert R.DELETION_SUCCESSFUL in (replica(world, 1), replica(world, 2))


@row(R.OFFLINE, R.DELETION_INELIGIBLE)
def test_a_copy_on_a_dead_broker_cannot_be_deleted(world: Watched) -> None:
    world.stop_broker(2)
    world.core.settings = ControllerSettings()
    world.used.clear()
    world.delete("T")
    assert replica(world, 2) is R.DELETION_INELIGIBLE


@row(R.DELETION_STARTED, R.DELETION_INELIGIBLE)
def test_a_broker_refuses_to_delete_its_copy(world: Watched) -> None:
    world.delete("T")
    world.used.clear()
    requests = [r for r in world.take_mail() if isinstance(r, StopReplica) and r.to == 2]
    refusal = {tp("T-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.handle(events.StopReplicaAnswered(requests[-1], ErrorCode.NONE, refusal))
    assert replica(world, 2) is R.DELETION_INELIGIBLE


@row(R.DELETION_SUCCESSFUL, R.NON_EXISTENT)
def test_a_replica_that_was_moved_away_is_forgotten(world: Watched) -> None:
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE,)}))
    assert (replica(world, 2), world.state("T-0").isr) == (R.NON_EXISTENT, (1,))
    assert stops(world, 2) == [False, True]


def doomed_with_a_dead_replica(world: Watched) -> None:
    """T is on its way out, and broker 2 is not there to confirm it."""
    world.stop_broker(2)
    world.core.settings = ControllerSettings()
    world.delete("T")
    world.used.clear()


def give_up(world: World, topic: str, broker: BrokerId) -> None:
    assert world.ask(events.ReplicaGivenUp(topic, broker)) == events.PartitionFault()


@row(R.NON_EXISTENT, R.DELETION_SUCCESSFUL)
def test_a_copy_that_was_never_made_is_given_up(world: Watched) -> None:
    # A tool adds a broker that is not there, while others keep writing the partition's state.
    world.before_commit = lambda writes: raise_versions(world, writes)
    world.store.reassignment_requests[tp("T-0")] = (ONE, TWO, BrokerId(7))
    world.handle(events.ReassignmentsRequested(dict(world.store.reassignment_requests)))
    world.before_commit = None
    assert replica(world, 7) is R.NON_EXISTENT
    world.stop_broker(1)
    world.stop_broker(2)
    world.delete("T")
    give_up(world, "T", BrokerId(7))
    assert replica(world, 7) is R.DELETION_SUCCESSFUL


def raise_versions(world: World, writes: Iterable[Write]) -> None:
    """Somebody else writes every state that the controller is about to write."""
    for write in writes:
        if isinstance(write, UpdateState):
            now = world.store.states[write.partition]
            raised = dataclasses.replace(now, partition_epoch=now.partition_epoch + 1)
            world.store.states[write.partition] = raised


@row(R.NEW, R.DELETION_SUCCESSFUL)
def test_a_copy_that_was_being_made_is_given_up(world: Watched) -> None:
    world.store.reassignment_requests[tp("T-0")] = (ONE, TWO, BrokerId(7))
    world.handle(events.ReassignmentsRequested(dict(world.store.reassignment_requests)))
    assert replica(world, 7) is R.NEW
    world.delete("T")
    give_up(world, "T", BrokerId(7))
    assert replica(world, 7) is R.DELETION_SUCCESSFUL


@row(R.ONLINE, R.DELETION_SUCCESSFUL)
def test_a_copy_on_a_broker_that_never_was_there_is_given_up(world: Watched) -> None:
    world.core.settings = ControllerSettings()
    world.create("U", [[1, 7]])
    world.deliver()
    world.delete("U")
    world.deliver()
    give_up(world, "U", BrokerId(7))
    assert "U" not in world.store.topics
    why = "every replica has confirmed, but for the copies on broker 7: given up"
    assert last_line(world, "U") == (T.DELETING, T.ABSENT, why)


@row(R.OFFLINE, R.DELETION_SUCCESSFUL)
def test_a_copy_that_is_offline_is_given_up(world: Watched) -> None:
    doomed_with_a_dead_replica(world)
    world.deliver()
    assert replica(world, 2) is R.OFFLINE
    give_up(world, "T", TWO)
    assert "T" not in world.store.topics


@row(R.DELETION_INELIGIBLE, R.DELETION_SUCCESSFUL)
def test_a_copy_that_could_not_be_deleted_is_given_up(world: Watched) -> None:
    doomed_with_a_dead_replica(world)
    assert replica(world, 2) is R.DELETION_INELIGIBLE
    give_up(world, "T", TWO)
    assert replica(world, 2) is R.DELETION_SUCCESSFUL


# Topics


@row(T.ABSENT, T.CREATED)
def test_a_topic_is_taken_up(world: Watched) -> None:
    world.create("U", [[1], [2]])
    assert last_line(world, "U") == (T.ABSENT, T.CREATED, "2 partitions")


def grow(world: World) -> None:
    world.store.grow_topic("T", [[2]])
    world.tell_topics()
    assert state(world, "T-1") is P.ONLINE


@row(T.CREATED, T.GROWING)
def test_a_topic_grows(world: Watched) -> None:
    grow(world)
    grown = [m.why for m in world.transitions() if m.after == T.GROWING]
    assert grown == ["partitions [1]"]


@row(T.GROWING, T.CREATED)
def test_a_topic_that_has_grown_serves_as_before(world: Watched) -> None:
    grow(world)
    assert life(world) is T.CREATED


@row(T.CREATED, T.FROZEN)
def test_a_topic_is_frozen(world: Watched) -> None:
    world.handle(events.FreezeSwitched("T", True))
    assert life(world) is T.FROZEN
    told = len(world.transitions())
    world.handle(events.FreezeSwitched("T", True))
    world.handle(events.FreezeSwitched("unknown", True))
    assert len(world.transitions()) == told


@row(T.FROZEN, T.CREATED)
def test_a_frozen_topic_is_thawed(world: Watched) -> None:
    world.handle(events.FreezeSwitched("T", True))
    world.handle(events.FreezeSwitched("T", False))
    assert life(world) is T.CREATED


@row(T.FROZEN, T.GROWING)
def test_a_frozen_topic_grows(world: Watched) -> None:
    world.handle(events.FreezeSwitched("T", True))
    grow(world)


@row(T.GROWING, T.FROZEN)
def test_a_frozen_topic_that_has_grown_is_frozen_as_before(world: Watched) -> None:
    world.handle(events.FreezeSwitched("T", True))
    grow(world)
    assert life(world) is T.FROZEN


@row(T.CREATED, T.QUEUED)
def test_a_topic_is_to_be_deleted(world: Watched) -> None:
    world.delete("T")
    assert world.core.context.is_queued("T")


@row(T.FROZEN, T.QUEUED)
def test_a_frozen_topic_is_to_be_deleted(world: Watched) -> None:
    world.handle(events.FreezeSwitched("T", True))
    world.delete("T")
    assert world.core.context.is_queued("T")


def held_back(world: World) -> None:
    """No log is removed while the deletion can be called off."""
    world.stop_broker(2)
    world.delete("T")
    assert life(world) is T.HALTED


@row(T.QUEUED, T.HALTED)
def test_a_deletion_that_cannot_end_does_not_start(world: Watched) -> None:
    held_back(world)
    assert last_line(world) == (T.QUEUED, T.HALTED, "a replica is offline")


@row(T.DELETING, T.HALTED)
def test_a_deletion_halts_half_way(world: Watched) -> None:
    world.delete("T")
    world.stop_broker(2)
    assert last_line(world) == (T.DELETING, T.HALTED, "a replica is offline")


@row(T.HALTED, T.HALTED)
def test_a_deletion_that_waits_meets_another_obstacle(world: Watched) -> None:
    world.delete("T")
    world.stop_broker(2)
    requests = [r for r in world.take_mail() if isinstance(r, StopReplica) and r.to == 1]
    refusal = {tp("T-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.handle(events.StopReplicaAnswered(requests[-1], ErrorCode.NONE, refusal))
    assert last_line(world) == (T.HALTED, T.HALTED, "a broker could not delete its copy")


@row(T.QUEUED, T.DELETING)
def test_a_deletion_starts(world: Watched) -> None:
    world.delete("T")
    assert last_line(world) == (T.QUEUED, T.DELETING, "")


@row(T.HALTED, T.DELETING)
def test_a_deletion_goes_on_when_its_broker_is_back(world: Watched) -> None:
    held_back(world)
    world.start_broker(2)
    assert last_line(world) == (T.HALTED, T.DELETING, "a broker with a replica is back")


@row(T.HALTED, T.CREATED)
def test_a_deletion_that_waits_is_called_off(world: Watched) -> None:
    held_back(world)
    assert world.ask(events.DeletionCancelled("T")) == events.PartitionFault()
    assert last_line(world) == (T.HALTED, T.CREATED, "called off by hand")


@row(T.HALTED, T.FROZEN)
def test_a_topic_that_was_frozen_meanwhile_lives_on_so(world: Watched) -> None:
    held_back(world)
    world.handle(events.FreezeSwitched("T", True))
    assert life(world) is T.HALTED
    assert world.ask(events.DeletionCancelled("T")) == events.PartitionFault()
    assert life(world) is T.FROZEN


@row(T.DELETING, T.ABSENT)
def test_a_topic_is_gone_when_every_replica_has_confirmed(world: Watched) -> None:
    world.delete("T")
    world.deliver()
    assert last_line(world) == (T.DELETING, T.ABSENT, "every replica has confirmed")


def importing(world: World) -> None:
    world.create("I", [[1, 2], [2, 1]], import_epoch=7)
    assert life(world, "I") is T.IMPORTING


@row(T.ABSENT, T.IMPORTING)
def test_a_topic_that_is_imported_begins_closed_and_in_a_later_epoch(world: Watched) -> None:
    importing(world)
    assert last_line(world, "I") == (T.ABSENT, T.IMPORTING, "2 partitions")
    assert {world.state(f"I-{n}").leader_epoch for n in (0, 1)} == {7}
    assert world.ask(events.StatusAsked()).importing == ("I",)


@row(T.IMPORTING, T.CREATED)
def test_a_topic_serves_when_everything_is_imported(world: Watched) -> None:
    importing(world)
    world.end_import("I")
    assert last_line(world, "I") == (T.IMPORTING, T.CREATED, "everything is imported")
    told = len(world.transitions())
    world.handle(events.ImportSwitched("I", True))
    world.handle(events.ImportSwitched("unknown", False))
    assert (life(world, "I"), len(world.transitions())) == (T.CREATED, told)
    assert world.warnings() == ["topic I has served already: it cannot be imported"]


@row(T.IMPORTING, T.FROZEN)
def test_a_topic_that_was_frozen_during_its_import_is_frozen_after_it(world: Watched) -> None:
    importing(world)
    world.handle(events.FreezeSwitched("I", True))
    assert life(world, "I") is T.IMPORTING
    world.end_import("I")
    assert life(world, "I") is T.FROZEN


@row(T.IMPORTING, T.GROWING)
def test_a_topic_grows_during_its_import(world: Watched) -> None:
    importing(world)
    world.store.grow_topic("I", [[2]])
    world.tell_topics()
    assert world.state("I-2").leader_epoch == 7


@row(T.GROWING, T.IMPORTING)
def test_a_topic_that_has_grown_is_imported_as_before(world: Watched) -> None:
    importing(world)
    world.store.grow_topic("I", [[2]])
    world.tell_topics()
    assert life(world, "I") is T.IMPORTING


@row(T.IMPORTING, T.QUEUED)
def test_an_import_is_given_up_by_deleting_its_topic(world: Watched) -> None:
    importing(world)
    world.delete("I")
    world.deliver()
    assert "I" not in world.store.topics


@row(T.HALTED, T.IMPORTING)
def test_an_import_goes_on_when_its_deletion_is_called_off(world: Watched) -> None:
    importing(world)
    world.stop_broker(2)
    world.delete("I")
    assert life(world, "I") is T.HALTED
    assert world.ask(events.DeletionCancelled("I")) == events.PartitionFault()
    assert life(world, "I") is T.IMPORTING


def test_a_new_controller_finds_a_topic_that_is_imported(world: Watched) -> None:
    importing(world)
    world.elect(1)
    assert last_line(world, "I") == ("found", T.IMPORTING, "")
    assert {world.state(f"I-{n}").leader_epoch for n in (0, 1)} == {7}
    world.end_import("I")
    assert life(world, "I") is T.CREATED


def exchanged(world: World) -> events.PartitionFault:
    """T and another, of two partitions, have each other's name."""
    world.create("S", [[2, 1], [1, 3]])
    for name in ("T", "S"):
        world.store.topics[name] = dataclasses.replace(world.store.topics[name], frozen=True)
        world.handle(events.FreezeSwitched(name, True))
    world.deliver()
    ids = {name: world.store.topics[name].topic_id for name in ("T", "S")}
    ask = events.SwapAsked(topic="T", topic_id=ids["T"], other="S", other_id=ids["S"])
    return world.ask(ask)


@row(T.FROZEN, T.ABSENT)
def test_a_topic_gives_its_name_to_another(world: Watched) -> None:
    before = {name: world.store.topics.get(name) for name in ("T",)}
    assert exchanged(world) == events.PartitionFault()
    node = world.store.topics["S"]
    assert before["T"] is not None
    assert node.topic_id == before["T"].topic_id
    assert life(world) is life(world, "S") is T.FROZEN
    world.deliver()
    assert {len(world.store.topics[name].partitions) for name in ("T",)} == {2}


@row(R.ONLINE, R.NON_EXISTENT)
def test_a_log_goes_on_under_another_name(world: Watched) -> None:
    assert exchanged(world) == events.PartitionFault()
    lines = [m for m in world.transitions() if m.subject == "T-0 on broker 1"]
    assert (R.ONLINE, R.NON_EXISTENT, "it is called S now") in [
        (m.before, m.after, m.why) for m in lines
    ]


@row(R.OFFLINE, R.NON_EXISTENT)
def test_a_log_of_a_broker_that_is_away_goes_on_under_another_name(world: Watched) -> None:
    world.stop_broker(2)
    assert exchanged(world) == events.PartitionFault()
    world.start_broker(2)
    world.deliver()
    assert state(world, "T-0") is P.ONLINE


@pytest.mark.parametrize(
    ("machine", "rows"),
    [
        (P, partition_states.TRANSITIONS),
        (R, replica_states.TRANSITIONS),
        (T, topic_states.TRANSITIONS),
    ],
)
def test_every_row_has_a_test_of_its_own(machine: type, rows: Iterable[tuple[str, str]]) -> None:
    told = {(before, after) for kind, before, after in ROWS if kind is machine}
    assert told == {(str(before), str(after)) for before, after in rows}
