"""The controller: a function from events to decisions.

`decide` begins the work on an event, `settle` goes on with it when its writes have ended. The same
events and outcomes always give the same decisions. What it leaves out: reading, writing, sending,
timing and logging, which are the shell's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from klamm.controller import elections, failover, isr, producer_ids
from klamm.controller import events as on
from klamm.controller.context import Context
from klamm.controller.effects import Decision, Outcome, Write
from klamm.controller.lifecycle import cancellation, deletion, leftovers, swapping, topics
from klamm.controller.membership import brokers, refused_orders, shutdown
from klamm.controller.questions import explanation, planning, states, status
from klamm.controller.reassignments import reassignment
from klamm.controller.turn import ControllerSettings, Flow, Turn
from klamm.model.names import BrokerId


class Core:
    """One controller's term. A new term is a new core."""

    def __init__(
        self, controller: BrokerId, epoch: int, settings: ControllerSettings | None = None
    ) -> None:
        self.context = Context(controller, epoch)
        self.settings = settings or ControllerSettings()
        self._turn: Turn | None = None
        self._flow: Flow[object] | None = None

    @property
    def epoch(self) -> int:
        return self.context.epoch

    def decide(self, event: on.Event, *, now_ms: int = 0) -> Decision:
        """Begin the work on an event that came up at this time."""
        assert self._flow is None, "the event before has not ended"
        self.context.now_ms = now_ms
        self._turn = Turn(self.context, self.settings, type(event).__name__)
        self._flow = _take(self._turn, event)
        return self._advance(lambda flow: next(flow))

    def settle(self, decision: Decision, outcomes: Sequence[Outcome]) -> Decision:
        """Go on with an event whose writes have ended so."""
        assert len(outcomes) == len(decision.writes), "every write has one outcome"
        return self._advance(lambda flow: flow.send(outcomes))

    def _advance(self, step: Callable[[Flow[object]], tuple[Write, ...]]) -> Decision:
        assert self._flow is not None, "no event is being worked on"
        assert self._turn is not None, "no event is being worked on"
        answer: object = None
        try:
            writes = step(self._flow)
        except StopIteration as end:
            writes, answer, self._flow = (), end.value, None
        turn = self._turn
        decision = Decision(
            cause=turn.cause,
            writes=writes,
            requests=tuple(turn.requests),
            transitions=tuple(turn.transitions),
            warnings=tuple(turn.warnings),
            unclean_elections_count=turn.unclean_elections_count,
            answer=answer,
            goes_on=self._flow is not None and not writes,
        )
        turn.requests, turn.transitions, turn.warnings = [], [], []
        turn.unclean_elections_count = 0
        return decision


def _take(turn: Turn, event: on.Event) -> Flow[object]:
    """The work on an event, and what any event may have made possible."""
    answer = yield from _work(turn, event)
    if turn.context.lost_logs:
        yield from brokers.bring_up_emptied(turn)
    return answer


def _work(turn: Turn, event: on.Event) -> Flow[object]:
    if isinstance(event, on.Question):
        return _only(_answer(turn, event))
    match event:
        case on.TermBegan():
            return failover.term_began(turn, event)
        case on.BrokersChanged():
            return brokers.brokers_changed(turn, event)
        case on.BrokerUnreachable():
            return brokers.broker_unreachable(turn, event)
        case on.BrokerReached():
            return brokers.broker_reached(turn, event)
        case on.TopicsChanged():
            return topics.topics_changed(turn, event)
        case on.TopicModified():
            return topics.topic_modified(turn, event)
        case on.MarkersChanged():
            return deletion.markers_changed(turn, event)
        case on.LeaderAndIsrAnswered():
            return brokers.leader_and_isr_answered(turn, event)
        case on.StopReplicaAnswered():
            return deletion.stop_replica_answered(turn, event)
        case on.LogDirFailed():
            return brokers.log_dir_failed(turn, event)
        case on.IsrChangesNoticed():
            return isr.isr_changes_noticed(turn, event)
        case on.ReassignmentsRequested():
            return reassignment.reassignments_requested(turn, event)
        case on.ElectionsRequested():
            return elections.elections_requested(turn, event)
        case on.UncleanSwitched():
            return elections.unclean_switched(turn, event)
        case on.FreezeSwitched() | on.ImportSwitched():
            return topics.settings_switched(turn, event)
        case on.RebalanceDue():
            return elections.rebalance(turn)
        case on.RetryDue():
            return _retry(turn)
        case on.ShutdownAsked():
            return shutdown.shutdown_asked(turn, event)
        case on.IsrChangesAsked():
            return isr.isr_changes_asked(turn, event)
        case on.ElectionsAsked():
            return elections.elections_asked(turn, event)
        case on.ReassignmentsAsked():
            return reassignment.reassignments_asked(turn, event)
        case on.ReassignmentsListed():
            return _only(reassignment.reassignments_listed(turn.context, event))
        case on.ProducerIdsAsked():
            return producer_ids.producer_ids_asked(turn, event)
        case on.ReplicaGivenUp():
            return deletion.replica_given_up(turn, event)
        case on.DeletionCancelled():
            return cancellation.deletion_cancelled(turn, event)
        case on.SwapAsked():
            return swapping.swap_asked(turn, event)
        case on.TopicArchived():
            return _only(deletion.topic_archived(turn, event))
        case _:
            assert_never(event)


def _answer(turn: Turn, event: on.Question) -> object:
    """The answer to a question, which changes nothing."""
    match event:
        case on.ExplanationAsked():
            return explanation.explain(turn.context, event.topic)
        case on.ExplanationsAsked(after, limit):
            return explanation.explain_all(turn.context, after, limit)
        case on.StatesAsked(topics_asked, after, partitions_max):
            return states.states(turn.context, topics_asked, after, partitions_max)
        case on.StatusAsked():
            return status.status(turn.context)
        case on.PlanAsked():
            return planning.plan(turn.context, turn.settings, event.about, _take)
        case _:
            assert_never(event)


def _retry(turn: Turn) -> Flow[None]:
    yield from deletion.retry(turn)
    yield from brokers.elect_for_unled(turn)
    yield from refused_orders.order_again(turn)
    leftovers.stop(turn, turn.context.live())


def _only(answer: object) -> Flow[object]:
    yield from ()  # a question changes nothing, so it never waits for the store
    return answer
