"""Everything that can happen to a controller, in any order, with faults; then the faults stop.

After every event the core's invariants hold, and so do those of the store; every line of the ledger
is legal and joins the one before, and the last lines say how everything stands (`World.handle`).
Once nothing fails any
more each topic ends led on all of its replicas, or gone from the store, every broker's metadata and
every disk.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from klamm.controller import events
from klamm.controller.effects import UpdateState, Write
from klamm.controller.events import ElectionType
from klamm.controller.turn import ControllerSettings
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership
from klamm.model.names import NO_LEADER, BrokerId, TopicPartition
from world.cluster import World
from world.settled import change_isr, check_settled, settle

BROKERS = range(4)
TOPICS = ("a", "b", "c")
PLANS = ("delete", "move", "preferred", "unclean", "everything")
replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)


class _Crash(Exception):
    """The controller dies between two writes, of one event or of several."""


class Lives(RuleBasedStateMachine):
    """One cluster's life."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(BROKERS, settings=ControllerSettings(vanished_deletes_logs=True))
        self.seen: dict[tuple[uuid.UUID, TopicPartition], Leadership] = {}
        self.leaders: dict[tuple[uuid.UUID, TopicPartition, int], BrokerId] = {}
        self.stale_next: list[int] = []
        self.crash_after: int | None = None
        self.same_controller = False
        self.world.before_commit = self._before_commit

    def _before_commit(self, writes: Sequence[Write]) -> None:
        """Let some states be rewritten by others, or the controller die half way."""
        store = self.world.store
        states = [w.partition for w in writes if isinstance(w, UpdateState)]
        while self.stale_next and states:
            id = states[self.stale_next.pop() % len(states)]
            now = store.states[id]
            store.states[id] = _raised(now)
        if self.crash_after is not None:
            if self.crash_after >= len(writes):
                self.crash_after -= len(writes)
                return
            survived = writes[: self.crash_after]
            self.crash_after = None
            store.commit(survived, epoch=self.world.core.epoch)
            raise _Crash

    def _do(self, work: object) -> None:
        """Run something; a crash means that another controller is elected."""
        assert callable(work)
        try:
            work()
        except _Crash:
            self.world.elect(1)

    @initialize(
        cancellable=st.booleans(),
        remembering=st.booleans(),
        same_controller=st.booleans(),
        calls_roll=st.booleans(),
    )
    def first_controller(
        self, cancellable: bool, remembering: bool, same_controller: bool, calls_roll: bool
    ) -> None:
        self.same_controller = same_controller
        self.world.calls_roll = calls_roll
        self.world.settings = ControllerSettings(
            vanished_deletes_logs=True, deletion_cancellable=cancellable
        )
        for broker in self.world.brokers.values():
            broker.remembers_disk = remembering
        self.world.elect(0)

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_that_is_down_gets_an_empty_disk(self, broker: int) -> None:
        if broker not in self.world.store.brokers:
            self.world.brokers[BrokerId(broker)].logs.clear()

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_cannot_be_reached(self, broker: int) -> None:
        known = self.world.store.brokers.get(BrokerId(broker))
        if known is not None:
            lost = events.BrokerUnreachable(known.id, known.epoch)
            self._do(lambda: self.world.handle(lost))

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_answers_again(self, broker: int) -> None:
        known = self.world.store.brokers.get(BrokerId(broker))
        if known is not None:
            reached = events.BrokerReached(known.id, known.epoch)
            self._do(lambda: self.world.handle(reached))

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_stops(self, broker: int) -> None:
        if broker in self.world.store.brokers:
            self._do(lambda: self.world.stop_broker(broker))

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_starts_or_bounces(self, broker: int) -> None:
        self._do(lambda: self.world.start_broker(broker))

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_asks_to_leave(self, broker: int) -> None:
        self._do(lambda: self.world.ask(events.ShutdownAsked(BrokerId(broker))))

    @rule(topic=st.sampled_from(TOPICS), assignment=st.lists(replica_lists, min_size=1, max_size=2))
    def a_topic_is_created(self, topic: str, assignment: list[list[int]]) -> None:
        if topic not in self.world.store.topics and topic not in self.world.store.markers:
            self._do(lambda: self.world.create(topic, assignment))

    @rule(topic=st.sampled_from(TOPICS), assignment=st.lists(replica_lists, min_size=1, max_size=2))
    def a_topic_is_imported(self, topic: str, assignment: list[list[int]]) -> None:
        if topic not in self.world.store.topics and topic not in self.world.store.markers:
            self._do(lambda: self.world.create(topic, assignment, import_epoch=5))

    @rule(topic=st.sampled_from(TOPICS))
    def an_import_ends(self, topic: str) -> None:
        if topic in self.world.store.topics:
            self._do(lambda: self.world.end_import(topic))

    @rule(topic=st.sampled_from(TOPICS), replicas=replica_lists)
    def a_topic_grows(self, topic: str, replicas: list[int]) -> None:
        node = self.world.store.topics.get(topic)
        if node is not None and len(node.partitions) < 3:
            self.world.store.grow_topic(topic, [replicas])
            self._do(self.world.tell_topics)

    @rule(topic=st.sampled_from(TOPICS), frozen=st.booleans())
    def writing_is_forbidden_or_allowed(self, topic: str, frozen: bool) -> None:
        node = self.world.store.topics.get(topic)
        if node is not None:
            self.world.store.topics[topic] = replace(node, frozen=frozen)
            self._do(lambda: self.world.handle(events.FreezeSwitched(topic, frozen)))

    @rule(topic=st.sampled_from(TOPICS), other=st.sampled_from(TOPICS), freezes=st.booleans())
    def two_topics_exchange_their_names(self, topic: str, other: str, freezes: bool) -> None:
        known = self.world.store.topics
        if topic in known and other in known:
            if freezes:
                self.writing_is_forbidden_or_allowed(topic, True)
                self.writing_is_forbidden_or_allowed(other, True)
            ask = events.SwapAsked(
                topic=topic,
                topic_id=known[topic].topic_id,
                other=other,
                other_id=known[other].topic_id,
            )
            self._do(lambda: self.world.ask(ask))

    @rule(topic=st.sampled_from(TOPICS))
    def a_topic_is_deleted(self, topic: str) -> None:
        if topic in self.world.store.topics:
            self._do(lambda: self.world.delete(topic))

    @rule(topic=st.sampled_from(TOPICS))
    def a_deletion_is_called_off(self, topic: str) -> None:
        self._do(lambda: self.world.ask(events.DeletionCancelled(topic)))

    @rule(topic=st.sampled_from(TOPICS))
    def a_topic_is_removed_by_hand(self, topic: str) -> None:
        if topic in self.world.store.topics:
            # Who removes nodes by hand while nobody watches leaves logs that nobody knows of.
            self.crash_after = None
            self.world.store.remove_topic_by_hand(topic)
            self._do(self.world.tell_topics)
            self._do(self.world.tell_markers)

    @rule(pick=st.integers(0, 8), replicas=st.none() | replica_lists)
    def a_partition_is_moved_or_its_move_cancelled(
        self, pick: int, replicas: list[int] | None
    ) -> None:
        ids = self._partitions()
        if ids:
            target = None if replicas is None else _ids(replicas)
            ask = events.ReassignmentsAsked({ids[pick % len(ids)]: target})
            self._do(lambda: self.world.ask(ask))

    @rule(pick=st.integers(0, 8), replicas=replica_lists)
    def a_tool_asks_for_a_move(self, pick: int, replicas: list[int]) -> None:
        ids = self._partitions()
        if ids:
            self.world.store.reassignment_requests[ids[pick % len(ids)]] = _ids(replicas)
            self._do(self._tell_reassignment_requests)

    @rule(pick=st.integers(0, 8), members=st.sets(st.sampled_from(BROKERS), min_size=1))
    def a_leader_changes_its_isr(self, pick: int, members: set[int]) -> None:
        ids = self._partitions()
        if ids:
            self._do(lambda: change_isr(self.world, ids[pick % len(ids)], members))

    @rule(kind=st.sampled_from(ElectionType))
    def elections_are_asked_for(self, kind: ElectionType) -> None:
        self._do(lambda: self.world.ask(events.ElectionsAsked(kind, None)))

    @rule(picks=st.lists(st.integers(0, 8), min_size=1, max_size=3))
    def a_tool_asks_for_elections(self, picks: list[int]) -> None:
        ids = self._partitions()
        if ids:
            asked = tuple(dict.fromkeys(ids[pick % len(ids)] for pick in picks))
            self.world.store.election_requests = asked
            self._do(lambda: self.world.handle(events.ElectionsRequested(asked)))

    @rule(topic=st.sampled_from(TOPICS))
    def an_operator_asks_what_a_topic_waits_for(self, topic: str) -> None:
        found = self.world.ask(events.ExplanationAsked(topic))
        assert (found is None) == (topic not in self.world.core.context.topics)

    @rule(pick=st.integers(0, 8), replicas=st.none() | replica_lists, kind=st.sampled_from(PLANS))
    def an_operator_asks_for_a_plan(self, pick: int, replicas: list[int] | None, kind: str) -> None:
        ids = self._partitions()
        if ids:
            about = _plannable(kind, ids[pick % len(ids)], replicas)
            before = len(self.world.store.writes), len(self.world.mail)
            self.world.ask(events.PlanAsked(about))
            assert (len(self.world.store.writes), len(self.world.mail)) == before

    @rule(topic=st.sampled_from(TOPICS), allowed=st.sampled_from([None, True, False]))
    def unclean_elections_are_switched(self, topic: str, allowed: bool | None) -> None:
        self._do(lambda: self.world.handle(events.UncleanSwitched(topic, allowed)))

    @rule(pick=st.integers(0, 8), broker=st.sampled_from(BROKERS))
    def a_disk_fails(self, pick: int, broker: int) -> None:
        ids = self._partitions()
        if ids and broker in self.world.store.brokers:
            self.world.brokers[BrokerId(broker)].bad_disk[ids[pick % len(ids)]] = None
            failed = events.LogDirFailed((BrokerId(broker),), ())
            self._do(lambda: self.world.handle(failed))

    @rule(pick=st.integers(0, 8), broker=st.sampled_from(BROKERS))
    def a_broker_refuses_orders_for_no_good_reason(self, pick: int, broker: int) -> None:
        ids = self._partitions()
        if ids:
            refused = ErrorCode.UNKNOWN_SERVER_ERROR
            self.world.brokers[BrokerId(broker)].refuses[ids[pick % len(ids)]] = refused

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_refuses_nothing_any_more(self, broker: int) -> None:
        self.world.brokers[BrokerId(broker)].refuses.clear()

    @rule(topic=st.sampled_from(TOPICS), broker=st.sampled_from(BROKERS))
    def an_operator_gives_up_a_copy(self, topic: str, broker: int) -> None:
        self._do(lambda: self.world.ask(events.ReplicaGivenUp(topic, BrokerId(broker))))

    @rule()
    def the_timers_fire(self) -> None:
        self._do(lambda: self.world.handle(events.RetryDue()))
        self._do(lambda: self.world.handle(events.RebalanceDue()))

    @rule(count=st.integers(1, 6), to=st.none() | st.sampled_from(BROKERS))
    def requests_arrive(self, count: int, to: int | None) -> None:
        for _ in range(count):
            self.world.deliver_one(to)

    @rule(count=st.integers(1, 4))
    def answers_arrive(self, count: int) -> None:
        for _ in range(count):
            if self.world.answers:
                answer = self.world.answers.popleft()
                self._do(lambda answer=answer: self.world.handle(answer))

    @rule()
    def all_mail_arrives(self) -> None:
        self._do(self.world.deliver)

    @rule(controller=st.sampled_from(BROKERS), mail_is_lost=st.booleans())
    def another_controller_is_elected(self, controller: int, mail_is_lost: bool) -> None:
        self._do(lambda: self.world.elect(controller, mail_is_lost=mail_is_lost))

    @rule(which=st.lists(st.integers(0, 8), min_size=1, max_size=3))
    def the_next_writes_come_too_late(self, which: list[int]) -> None:
        self.stale_next = which

    @precondition(lambda self: self.crash_after is None)
    @rule(after=st.integers(0, 9))
    def the_controller_will_crash(self, after: int) -> None:
        self.crash_after = after

    @invariant()
    def no_leadership_goes_back(self) -> None:
        store = self.world.store
        for id, state in store.states.items():
            topic_id = store.topics[id.topic].topic_id
            key = (topic_id, id)
            before = self.seen.get(key)
            if before is not None:
                assert state.leader_epoch >= before.leader_epoch, (id, before, state)
                if state.leader not in (before.leader, NO_LEADER):
                    assert state.leader_epoch > before.leader_epoch, (id, before, state)
            self.seen[key] = state
            assert state.isr, (id, state)
            assert set(state.isr) <= set(store.topics[id.topic].partitions[id.partition].replicas)
            assert state.controller_epoch <= store.controller_epoch
            if state.leader != NO_LEADER:
                assert state.leader in state.isr, (id, state)
                one = self.leaders.setdefault((topic_id, id, state.leader_epoch), state.leader)
                assert one == state.leader, f"two leaders of {id} in epoch {state.leader_epoch}"

    def teardown(self) -> None:
        if self.world.has_controller:
            self.stale_next, self.crash_after = [], None
            settle(self.world, same_controller=self.same_controller)
            check_settled(self.world)

    def _tell_reassignment_requests(self) -> None:
        self.world.handle(
            events.ReassignmentsRequested(dict(self.world.store.reassignment_requests))
        )

    def _partitions(self) -> list[TopicPartition]:
        return [p.id for p in self.world.core.context.partitions()]


def _plannable(kind: str, id: TopicPartition, replicas: list[int] | None) -> events.Plannable:
    match kind:
        case "delete":
            return events.MarkersChanged((id.topic,))
        case "move":
            return events.ReassignmentsAsked({id: None if replicas is None else _ids(replicas)})
        case "preferred":
            return events.ElectionsAsked(ElectionType.PREFERRED, (id,))
        case "unclean":
            return events.ElectionsAsked(ElectionType.UNCLEAN, (id,))
        case _:
            return events.ElectionsAsked(ElectionType.PREFERRED, None)


def _ids(brokers: list[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def _raised(state: Leadership) -> Leadership:
    return Leadership(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        controller_epoch=state.controller_epoch,
        partition_epoch=state.partition_epoch + 1,
        recovery=state.recovery,
    )


def test_a_copy_is_accounted_for_though_its_broker_has_all_it_needs() -> None:
    """The answer that tells that an earlier topic's copy is gone was lost with a controller."""
    world = World(BROKERS, settings=ControllerSettings(vanished_deletes_logs=True))
    world.calls_roll = True
    world.elect(0)
    world.create("a", [[0]])
    world.store.remove_topic_by_hand("a")
    world.tell_topics()
    world.create("a", [[0]])
    while world.mail:
        world.deliver_one()
    world.elect(1)
    settle(world, same_controller=True)
    check_settled(world)


def test_a_broker_that_was_fenced_hears_of_what_is_on_its_way_out() -> None:
    world = World(BROKERS)
    world.elect(0)
    world.create("a", [[0]])
    known = world.store.brokers[BrokerId(1)]
    world.handle(events.BrokerUnreachable(known.id, known.epoch))
    world.delete("a")
    settle(world, same_controller=True)
    check_settled(world)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
