"""One term of the controller: from the election that was won to the end of the role.

The loop is as dull as it can be. One event at a time: read the facts, ask the core, store what it
decided, tell the core how that ended, then send. Whatever goes wrong ends the term, and the next
one reads everything anew: nobody carries on with a half-changed context.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

from klamm import gc_pause
from klamm.broker.ledger.ledger import Ledger
from klamm.broker.term import observing
from klamm.broker.term.committing import Committer
from klamm.broker.term.controller_metrics import ControllerMetrics
from klamm.broker.term.controller_states import state_of
from klamm.broker.term.inbox import Inbox, Letter
from klamm.broker.term.keeping import BY, mark_expired
from klamm.broker.term.observing import AtHand, Observer
from klamm.broker.term.outbox import Outbox
from klamm.broker.term.requesters import Requesters
from klamm.controller import events
from klamm.controller.core import Core
from klamm.controller.effects import Decision, RemoveTopic, Stored
from klamm.controller.turn import ControllerSettings
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.settings import BrokerSettings
from klamm.store import layout
from klamm.store.port import Create, Session, SetData, Unwatch

log = logging.getLogger(__name__)
state_log = logging.getLogger("klamm.state_change")

_FIRST_REBALANCE_S: Final = 5.0
# What is asked about a deletion is answered with the markers as they are now: whoever made one a
# moment ago must not hear that nothing is being deleted.
_ABOUT_DELETIONS: Final = (
    events.ExplanationAsked,
    events.ExplanationsAsked,
    events.StatusAsked,
    events.StatesAsked,
    events.ReplicaGivenUp,
    events.DeletionCancelled,
)
_LEDGER_SYNC_S: Final = 1.0
_TAKEOVER_S: Final = 10.0
_SHOWN_S: Final = 0.25  # so long the rest of a decision waits for what was said first


class Term:
    """The controller while it is one."""

    def __init__(
        self,
        core: Core,
        *,
        session: Session,
        epoch_version: int,
        outbox: Outbox,
        inbox: Inbox,
        ledger: Ledger,
        settings: Callable[[], BrokerSettings],
        now_ms: Callable[[], int],
        metrics: ControllerMetrics | None = None,
        standby: AtHand | None = None,
        requesters: Requesters | None = None,
    ) -> None:
        self.core = core
        self._standby = standby
        self._metrics = metrics or ControllerMetrics()
        self.inbox = inbox
        self._session = session
        self._committer = Committer(session, epoch_version)
        self._observer = Observer(session, draw_id=uuid.uuid4, watch=self._watch_node)
        self._outbox = outbox
        self._ledger = ledger
        self._settings = settings
        self._now_ms = now_ms
        self._requesters = requesters or Requesters()
        self._by: Callable[[str], str] = _nobody  # who asked for what is worked on, by topic
        self._watches: dict[str, Unwatch] = {}
        self._topics_watched: dict[str, observing.TopicHint] = {}  # by path
        self._working_on: list[Letter] = []  # more than one where an urgent one came in between

    async def run(self) -> None:
        """Take over, then work until cancelled or until something ends the term."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._watch_everything()
                await self._make_features()
                await self._take_over(tasks)
                tasks.create_task(self._rebalance(), name="leader-rebalance")
                tasks.create_task(self._retry(), name="retry")
                tasks.create_task(self._let_go(), name="keeping")
                tasks.create_task(self._reconcile(), name="reconciliation")
                tasks.create_task(self._keep_ledger(), name="ledger")
                tasks.create_task(self._outbox.watch(), name="outbox")
                while True:
                    await self._take_turn(await self.inbox.get())
        finally:
            # Before anything is awaited: a term that ends by itself is ended once more by whoever
            # lost the session, and nobody must be left to wait for an answer then.
            self._refuse_waiting()
            for unwatch in self._watches.values():
                unwatch()
            try:
                await self._outbox.close()
            finally:
                self._ledger.sync()

    async def _take_over(self, tasks: asyncio.TaskGroup) -> None:
        with ExitStack() as stack:
            stack.enter_context(gc_pause.paused())
            began = await self._observer.everything(self._standby)
            if self._standby is not None:
                await self._standby.close()
            with self._outbox.held_back(), self._metrics.working(state_of(began)):
                await self._work_on(began)
            # What brokers do with what they are told is as much again.
            telling = tasks.create_task(self._until_told(), name="takeover")
            rest = stack.pop_all()
            telling.add_done_callback(lambda _: rest.close())

    async def _until_told(self) -> None:
        with suppress(TimeoutError):  # a broker that is silent must not keep others waiting
            async with asyncio.timeout(_TAKEOVER_S):
                await self.delivered()

    async def delivered(self) -> None:
        """Until every broker has answered all that it was sent."""
        await self._outbox.delivered()

    async def _until_shown(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHOWN_S):
                await self.shown()

    async def shown(self) -> None:
        """Until every broker has answered all metadata that it was sent."""
        await self._outbox.shown()

    async def _make_features(self) -> None:
        """Brokers of Kafka look for this node; klamm has no features to finalize."""
        data = layout.encode_feature(layout.FeatureNode(enabled=True))
        # It is made once for all terms, so it needs no fence; one that is enabled stays as it is.
        await self._session.multi([Create(layout.FEATURE, data)])
        node = await self._session.get(layout.FEATURE)
        found = layout.decode_feature(node.data) if node is not None else None
        if node is None or (found is not None and found.enabled):
            return
        # A controller from before KIP-584, or a hand, switched features off; what such a node
        # names counts for nothing, in Kafka too.
        log.warning(
            "the node /feature was %s and is enabled again, without features",
            "unreadable" if found is None else "disabled",
            extra={"features": {} if found is None else dict(found.levels)},
        )
        await self._session.multi([SetData(layout.FEATURE, data, node.stat.version)])

    async def _take_turn(self, letter: Letter) -> None:
        content = letter.content
        waited_s = time.perf_counter() - letter.put_s
        self._metrics.queue_s[type(content).__name__].observe(waited_s)
        with self._metrics.working(state_of(content)):
            await self._deal_with(letter, content)

    async def _deal_with(self, letter: Letter, content: observing.Hint | events.Event) -> None:
        self._working_on.append(letter)
        if isinstance(content, events.ProducerIdsAsked):
            found: list[events.Event] = [await self._observer.producer_ids(content)]
        elif isinstance(content, observing.Hint):
            found = await self._observer.observe(content, self.core.context)
        elif isinstance(content, _ABOUT_DELETIONS):
            markers = await self._observer.observe(observing.MarkersHint(), self.core.context)
            found = [*markers, content]
        else:
            found = [content]
        answer: object = None
        for position, event in enumerate(found):
            if position:
                await self._take_urgent_turns()
            self._by = self._asked_by(event, letter)
            answer = await self._work_on(event)
            self._requesters.told(event)
        if letter.answer is not None and not letter.answer.done():
            letter.answer.set_result(answer)
        self._working_on.pop()

    def _asked_by(self, event: events.Event, letter: Letter) -> Callable[[str], str]:
        """The requester of an event: of an ask its sender, of a node in the store by topic."""
        if event is letter.content and letter.by:
            return lambda _: letter.by
        return partial(self._requesters.of, type(event))

    async def _take_urgent_turns(self) -> None:
        """Between two steps of something long, let in what must not wait for all of it."""
        while (urgent := self.inbox.take_urgent()) is not None:
            await self._take_turn(urgent)

    async def _work_on(self, event: events.Event) -> object:
        if isinstance(event, (events.BrokersChanged, events.TermBegan)):
            await self._outbox.follow(event.brokers)
            gone = self.core.context.brokers.keys() - event.brokers.keys()
            self._unwatch(layout.broker_path(broker) for broker in gone)
        if isinstance(event, events.TopicsChanged):
            self._unwatch(layout.topic_path(topic) for topic in event.vanished)
        self.core.settings = _core_settings(self._settings())
        with gc_pause.paused():
            return await self._carry_out(event)

    async def _carry_out(self, event: events.Event) -> object:
        decision = self.core.decide(event, now_ms=self._now_ms())
        while decision.writes or decision.goes_on:
            self._announce(decision)
            if decision.goes_on:
                await self._until_shown()
                decision = self.core.settle(decision, ())
                continue
            outcomes = await self._committer.commit(decision.writes)
            self._unwatch(
                layout.topic_path(write.topic)
                for write, outcome in zip(decision.writes, outcomes, strict=True)
                if isinstance(write, RemoveTopic) and isinstance(outcome, Stored)
            )
            decision = self.core.settle(decision, outcomes)
        self._announce(decision)
        return decision.answer

    def _announce(self, decision: Decision) -> None:
        """Log, record and send what is stored by now."""
        self._metrics.unclean_elections += decision.unclean_elections_count
        for warning in decision.warnings:
            log.warning(warning, extra={"cause": decision.cause})
        if decision.transitions:
            self._ledger.append(
                self.core.epoch,
                decision.cause,
                decision.transitions,
                time_ms=self._now_ms(),
                by=self._by,
            )
            if state_log.isEnabledFor(logging.DEBUG):
                for move in decision.transitions:
                    state_log.debug("moved", extra={"cause": decision.cause, "move": move})
        self._outbox.send(decision.requests)

    def _refuse_waiting(self) -> None:
        """Answer those whose question nobody will look at any more."""
        for letter in [*self._working_on, *self.inbox.drain()]:
            if letter.answer is not None and not letter.answer.done():
                letter.answer.set_exception(RequestRefused(ErrorCode.NOT_CONTROLLER))

    def _watch_everything(self) -> None:
        children: dict[str, observing.Hint] = {
            layout.BROKER_IDS: observing.BrokersHint(),
            layout.TOPICS: observing.TopicsHint(),
            layout.DELETE_TOPICS: observing.MarkersHint(),
            layout.LOG_DIR_EVENTS: observing.LogDirsHint(),
            layout.ISR_CHANGES: observing.IsrChangesHint(),
        }
        for path, hint in children.items():
            self._watches[path] = self._session.watch_children(path, partial(self.inbox.put, hint))
        # One for all topics: a watch a topic would be a request a topic.
        self._watches["topics"] = self._session.watch_tree(layout.TOPICS, self._topics_touched)
        self._watch_node(layout.REASSIGN_PARTITIONS, observing.ReassignmentsHint())
        self._watch_node(layout.PREFERRED_REPLICA_ELECTION, observing.ElectionsHint())

    def _topics_touched(self, paths: Collection[str]) -> None:
        if layout.TOPICS in paths:
            self.inbox.put(observing.AllTopicsHint())
        for hint in filter(None, map(self._topics_watched.get, paths)):
            self.inbox.put(hint)

    def _watch_node(self, path: str, hint: observing.Hint) -> None:
        if isinstance(hint, observing.TopicHint):
            self._topics_watched[path] = hint
        elif path not in self._watches:
            self._watches[path] = self._session.watch_node(path, partial(self.inbox.put, hint))

    def _unwatch(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._topics_watched.pop(path, None)
            unwatch = self._watches.pop(path, None)
            if unwatch is not None:
                unwatch()

    async def _rebalance(self) -> None:
        pause_s = _FIRST_REBALANCE_S
        while True:
            await asyncio.sleep(pause_s)
            left = 0
            if self._settings().bool("auto.leader.rebalance.enable"):
                left = await self._ask_internally(events.RebalanceDue())
            interval_s = self._settings().int("leader.imbalance.check.interval.seconds")
            # A round that did not move all of them goes on soon.
            pause_s = min(1.0, interval_s) if left else interval_s

    async def _retry(self) -> None:
        while True:
            pause_ms = self._settings().int("klamm.delete.topic.retry.ms")
            await asyncio.sleep((pause_ms or 30_000) / 1000)
            if pause_ms:
                await self._ask_internally(events.RetryDue())

    async def _let_go(self) -> None:
        """Topics that were kept for a time are deleted when it is over."""
        while True:
            settings = self._settings()
            await asyncio.sleep(settings.int("klamm.kept.check.interval.ms") / 1000)
            if not settings.bool("delete.topic.enable"):
                continue
            context = self.core.context
            frozen = [n for n, t in context.topics.items() if t.frozen and not context.is_queued(n)]
            await mark_expired(
                self._session,
                self._committer.fenced,
                frozen,
                self._now_ms(),
                lambda topic: self._requesters.note(events.MarkersChanged, [topic], BY),
            )

    async def _reconcile(self) -> None:
        """Look again now and then, in case a hint was lost."""
        while True:
            pause_ms = self._settings().int("klamm.reconcile.interval.ms")
            await asyncio.sleep((pause_ms or 60_000) / 1000)
            if pause_ms:
                for hint in (
                    observing.BrokersHint(),
                    observing.MarkersHint(),
                    observing.AllTopicsHint(),
                    observing.LogDirsHint(),
                    observing.IsrChangesHint(),
                    observing.ReassignmentsHint(),
                    observing.ElectionsHint(),
                ):
                    self.inbox.put(hint)

    async def _keep_ledger(self) -> None:
        while True:
            await asyncio.sleep(_LEDGER_SYNC_S)
            await asyncio.to_thread(self._ledger.sync)

    async def _ask_internally(self, event: events.Event) -> int:
        """Queue an event and wait for its turn to end."""
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.inbox.put(event, answer)
        result = await answer
        return result if isinstance(result, int) else 0


def _nobody(_: str) -> str:
    return ""


def _core_settings(settings: BrokerSettings) -> ControllerSettings:
    return ControllerSettings(
        deletion_enabled=settings.bool("delete.topic.enable"),
        deletion_cancellable=settings.bool("klamm.delete.topic.cancel.enable"),
        vanished_deletes_logs=settings.bool("klamm.vanished.topic.delete.logs"),
        imbalance_percentage=settings.int("leader.imbalance.per.broker.percentage"),
        rebalance_batch_max=settings.int("klamm.leader.rebalance.batch"),
        legacy_reassignments_checked=settings.bool("klamm.reassignment.strict"),
    )
