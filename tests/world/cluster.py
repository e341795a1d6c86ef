"""Runs cores in the fake world: one event at a time, requests delivered when told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from klamm.controller import events
from klamm.controller.core import Core
from klamm.controller.effects import Decision, Outcome, Request, Transition, UpdateMetadata, Write
from klamm.controller.events import Ask, Event
from klamm.controller.membership.roll_call import Holdings, left_to_say
from klamm.controller.states.invariants import check
from klamm.controller.states.judging import Judge, line_of
from klamm.controller.turn import ControllerSettings
from klamm.model.errors import ControllerFenced
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from world.brokers import FakeBroker
from world.store import FakeStore

A = TypeVar("A")


def tp(text: str) -> TopicPartition:
    """`T-0` as a partition."""
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


class World:
    """A cluster whose every step is a call."""

    def __init__(
        self, brokers: Sequence[int] = (), *, settings: ControllerSettings | None = None
    ) -> None:
        self.store = FakeStore()
        self.settings = settings or ControllerSettings()
        self.brokers: dict[BrokerId, FakeBroker] = {}
        self.mail: deque[tuple[Request, int]] = deque()  # on the way, with the controller's epoch
        self.answers: deque[Event] = deque()
        self.now_ms = 0
        self.calls_roll = False  # whether a new controller says only what brokers do not hold
        self.decisions: list[Decision] = []
        self.watchers: list[Callable[[Event, Decision], None]] = []
        self.before_commit: Callable[[Sequence[Write]], None] | None = None
        self.judge = Judge()  # reads every line, as an audit would
        self._core: Core | None = None
        for broker in brokers:
            self.start_broker(broker, told=False)

    @property
    def core(self) -> Core:
        assert self._core is not None, "nobody was elected"
        return self._core

    @property
    def has_controller(self) -> bool:
        return self._core is not None

    def elect(self, controller: int = 0, *, mail_is_lost: bool = True) -> None:
        """A new controller takes over; what the old one had not sent is lost with it.

        What it had sent may be on its way still, and arrive before anything of the new one does.
        """
        self.store.controller_epoch += 1
        if mail_is_lost:
            self.mail.clear()
        self.answers.clear()
        self._core = Core(BrokerId(controller), self.store.controller_epoch, self.settings)
        self.judge.begin(self._core.epoch)
        began = self.store.everything()
        if not self.calls_roll:
            self.handle(began)
            return
        held = {id: self.brokers[id].holdings(self.core.epoch) for id in began.brokers}
        self.handle(began)
        self._thin_out(held)

    def _thin_out(self, held: dict[BrokerId, Holdings]) -> None:
        said, self.mail = self.mail, deque()
        for request, epoch in said:
            rest: Request | None = request
            if epoch == self.core.epoch:  # others are an earlier controller's, still on their way
                rest, held[request.to] = left_to_say(request, held[request.to])
            if rest is not None:
                self.mail.append((rest, epoch))

    def handle(self, event: Event) -> object:
        """One event from its facts to its last request."""
        core = self.core
        decision = core.decide(event, now_ms=self.now_ms)
        self._announce(event, decision)
        while decision.writes or decision.goes_on:
            if self.before_commit is not None and decision.writes:
                self.before_commit(decision.writes)
            outcomes: list[Outcome] = self.store.commit(decision.writes, epoch=core.epoch)
            decision = core.settle(decision, outcomes)
            self._announce(event, decision)
        check(core.context)
        self.check_ledger()
        return decision.answer

    def check_ledger(self) -> None:
        """Every line is legal and joins the one before, and the last ones say how it stands."""
        faults = [*self.judge.faults(), *self.judge.differences(self.core.context)]
        assert not faults, faults

    def ask(self, event: Ask[A]) -> A:
        return cast(A, self.handle(cast(Event, event)))

    def _announce(self, event: Event, decision: Decision) -> None:
        self.decisions.append(decision)
        for move in decision.transitions:
            self.judge.take(line_of(self.core.epoch, move))
        for watcher in self.watchers:
            watcher(event, decision)
        self.mail.extend((request, self.core.epoch) for request in decision.requests)

    def deliver(self) -> None:
        """Let every request arrive and every answer be dealt with, until all is quiet."""
        for _ in range(10_000):
            if self.mail:
                self.deliver_one()
            elif self.answers:
                self.handle(self.answers.popleft())
            else:
                return
        raise AssertionError("the cluster does not come to rest")

    def deliver_one(self, to: int | None = None) -> None:
        """The oldest request arrives, or the oldest to one broker: brokers do not wait in line."""
        place = next((at for at, (r, _) in enumerate(self.mail) if to in (None, r.to)), None)
        if place is None:
            return
        request, epoch = self.mail[place]
        del self.mail[place]
        registered = self.store.brokers.get(request.to)
        if registered is None or registered.epoch != request.broker_epoch:
            return
        receiver = self.brokers[request.to]
        if isinstance(request, UpdateMetadata):
            receiver.compare_topics(self.store.topics, epoch)
        answer = receiver.receive(request, epoch)
        if answer is not None and epoch == self.core.epoch:
            self.answers.append(answer)

    def start_broker(self, broker: int, *, told: bool = True) -> None:
        id = BrokerId(broker)
        self.brokers.setdefault(id, FakeBroker(id)).restart()
        self.store.register(broker)
        if told:
            self.tell_brokers()

    def stop_broker(self, broker: int, *, told: bool = True) -> None:
        del self.store.brokers[BrokerId(broker)]
        if told:
            self.tell_brokers()

    def tell_brokers(self) -> None:
        self.handle(events.BrokersChanged(dict(self.store.brokers)))

    def tell_topics(self) -> None:
        known = self.core.context.topics
        appeared = {n: node for n, node in self.store.topics.items() if n not in known}
        vanished = tuple(name for name in known if name not in self.store.topics)
        if appeared or vanished:
            self.handle(events.TopicsChanged(appeared, vanished))
        for name, node in list(self.store.topics.items()):
            if node.version != known[name].version or node.topic_id != known[name].id:
                self.handle(events.TopicModified(name, node))

    def tell_markers(self) -> None:
        self.handle(events.MarkersChanged(tuple(self.store.markers)))

    def create(
        self, topic: str, assignment: Sequence[Sequence[int]], *, import_epoch: int | None = None
    ) -> None:
        """A topic appears; with an epoch it is one that is imported."""
        self.store.create_topic(topic, assignment)
        if import_epoch is not None:
            node = self.store.topics[topic]
            self.store.topics[topic] = replace(node, importing=True, first_epoch=import_epoch)
        self.tell_topics()

    def end_import(self, topic: str) -> None:
        """The settings of a topic say that it is imported."""
        self.store.topics[topic] = replace(self.store.topics[topic], importing=False)
        self.handle(events.ImportSwitched(topic, False))

    def delete(self, *topics: str) -> None:
        self.store.markers.update((topic, None) for topic in topics)
        self.tell_markers()

    def change_isr(self, partition: str, *isr: int) -> events.IsrAnswer:
        """The leader asks for this ISR, from what the store says now."""
        state, id = self.state(partition), tp(partition)
        change = events.IsrChange(
            topic=id.topic,
            partition=id.partition,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=tuple(BrokerId(broker) for broker in isr),
        )
        epoch = self.store.brokers[state.leader].epoch
        return self.ask(
            events.IsrChangesAsked(broker=state.leader, broker_epoch=epoch, changes=(change,))
        )

    def state(self, partition: str) -> Leadership:
        return self.store.states[tp(partition)]

    def take_mail(self) -> list[Request]:
        """The requests on their way, which then do not arrive."""
        taken = [request for request, _ in self.mail]
        self.mail.clear()
        return taken

    def transitions(self) -> list[Transition]:
        return [move for decision in self.decisions for move in decision.transitions]

    def warnings(self) -> list[str]:
        return [text for decision in self.decisions for text in decision.warnings]


__all__ = ["ControllerFenced", "World", "tp"]
