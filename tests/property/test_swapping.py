"""Two topics exchange their names again and again, while brokers and controllers come and go.

After every event the invariants hold and every line of the ledger joins the one before
(`World.handle`). Once nothing fails any more both topics are led on all of their replicas under the
names that the store has, and every log is under the name of its topic.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from klamm.controller import events
from klamm.controller.effects import Write
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from world.cluster import World
from world.settled import change_isr, check_settled, settle

BROKERS = range(3)
NAMES = ("one", "other")


class _Crash(Exception):
    """The controller dies before or after a write."""


class Exchanges(RuleBasedStateMachine):
    """One cluster with two topics."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(BROKERS)
        self.world.before_commit = self._before_commit
        self.crash_after: int | None = None
        self.ids: frozenset[uuid.UUID] = frozenset()
        self.epochs: dict[TopicPartition, int] = {}  # that clients have seen of a name
        self.same_controller = False

    def _before_commit(self, writes: Sequence[Write]) -> None:
        if self.crash_after is None:
            return
        if self.crash_after >= len(writes):
            self.crash_after -= len(writes)
            return
        survived, self.crash_after = writes[: self.crash_after], None
        self.world.store.commit(survived, epoch=self.world.core.epoch)
        raise _Crash

    def _do(self, work: object) -> None:
        assert callable(work)
        try:
            work()
        except _Crash:
            self.world.elect(1)

    @initialize(sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)), same=st.booleans())
    def begin(self, sizes: tuple[int, int], same: bool) -> None:
        self.same_controller = same
        self.world.elect(0)
        for name, size in zip(NAMES, sizes, strict=True):
            self.world.create(name, [[n % 3, (n + 1) % 3] for n in range(size)])
            self.freeze(name, True)
        self.world.deliver()
        self.ids = frozenset(node.topic_id for node in self.world.store.topics.values())

    @rule(name=st.sampled_from(NAMES), frozen=st.booleans())
    def freeze(self, name: str, frozen: bool) -> None:
        self.world.store.topics[name] = replace(self.world.store.topics[name], frozen=frozen)
        self._do(lambda: self.world.handle(events.FreezeSwitched(name, frozen)))

    @rule(times=st.integers(1, 2))
    def exchange(self, times: int) -> None:
        known = self.world.store.topics
        one, other = (known[name].topic_id for name in NAMES)
        ask = events.SwapAsked(topic="one", topic_id=one, other="other", other_id=other)

        def swap() -> None:
            done = [self.world.ask(ask) for _ in range(times)]
            # Asked again, whoever has heard no answer is told the same.
            assert len({fault.code for fault in done}) == 1, done
            if done[0].code is ErrorCode.NONE:
                assert known["one"].topic_id == other

        self._do(swap)

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_stops(self, broker: int) -> None:
        if broker in self.world.store.brokers:
            self._do(lambda: self.world.stop_broker(broker))

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_starts_or_bounces(self, broker: int) -> None:
        self._do(lambda: self.world.start_broker(broker))

    @rule(pick=st.integers(0, 5), members=st.sets(st.sampled_from(BROKERS), min_size=1))
    def a_leader_changes_its_isr(self, pick: int, members: set[int]) -> None:
        ids = [p.id for p in self.world.core.context.partitions()]
        self._do(lambda: change_isr(self.world, ids[pick % len(ids)], members))

    @rule(count=st.integers(1, 6), to=st.none() | st.sampled_from(BROKERS))
    def requests_arrive(self, count: int, to: int | None) -> None:
        for _ in range(count):
            self.world.deliver_one(to)

    @rule()
    def all_mail_arrives(self) -> None:
        self._do(self.world.deliver)

    @rule(controller=st.sampled_from(BROKERS), mail_is_lost=st.booleans())
    def another_controller_is_elected(self, controller: int, mail_is_lost: bool) -> None:
        self._do(lambda: self.world.elect(controller, mail_is_lost=mail_is_lost))

    @rule(after=st.integers(0, 4))
    def the_controller_will_crash(self, after: int) -> None:
        self.crash_after = after

    @rule()
    def the_timers_fire(self) -> None:
        self._do(lambda: self.world.handle(events.RetryDue()))

    @invariant()
    def both_are_there_once_and_no_epoch_of_a_name_goes_back(self) -> None:
        store = self.world.store
        if not self.ids:
            return
        assert frozenset(node.topic_id for node in store.topics.values()) == self.ids
        for id, state in store.states.items():
            assert id.partition in store.topics[id.topic].partitions
            assert state.leader_epoch >= self.epochs.get(id, 0), (id, state)
            self.epochs[id] = state.leader_epoch

    def teardown(self) -> None:
        if self.world.has_controller:
            self.crash_after = None
            settle(self.world, same_controller=self.same_controller)
            check_settled(self.world)
            for broker in self.world.brokers.values():
                for id, topic_id in broker.logs.items():
                    assert self.world.store.topics[id.topic].topic_id == topic_id, (broker.id, id)


TestExchanges = Exchanges.TestCase
TestExchanges.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
