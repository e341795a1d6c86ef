"""Every broker can be the controller; the store says which one is.

Whoever creates the node `/controller` and raises `/controller_epoch` in one multi leads the cluster
until that node is gone. The version of the epoch's node fences every write of the term. A broker
that does not lead waits for the node to go and then tries again.

A broker that lost touch with the store for as long as a session lives may have been replaced. It is
told so by its session, asks for nothing, and leads no more until it has been elected again.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from klamm.broker.ledger.ledger import Ledger
from klamm.broker.net.peers import Peers
from klamm.broker.term.control_messages import ControlSender
from klamm.broker.term.controller_metrics import ControllerMetrics
from klamm.broker.term.inbox import Inbox
from klamm.broker.term.outbox import Link, Outbox
from klamm.broker.term.requesters import Requesters
from klamm.broker.term.standby import Standby
from klamm.broker.term.term import Term
from klamm.controller import events
from klamm.controller.core import Core
from klamm.controller.questions import gauges
from klamm.controller.states.names import TopicState
from klamm.model.brokers import Registration
from klamm.model.errors import ControllerFenced, ErrorCode, RequestRefused, StoreUnavailable
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.model.settings.topic import FROZEN, IMPORTING, is_true
from klamm.store import layout
from klamm.store.port import Create, Delete, Node, Session, SessionState, SetData, Unwatch

log = logging.getLogger(__name__)

A = TypeVar("A")
_STANDBY: Final = "klamm.controller.standby.enable"
_UNCLEAN: Final = "unclean.leader.election.enable"
_PAUSE_AFTER_FAILURE_S: Final = 0.5


class TermHost(Protocol):
    """The services the controller's shell needs of its broker."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def session(self) -> Session: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def data_dir(self) -> Path: ...

    @property
    def peers(self) -> Peers: ...

    def now_ms(self) -> int: ...


class Mandate(NamedTuple):
    """An election that was won."""

    epoch: int
    epoch_version: int  # of /controller_epoch: the fence
    czxid: int  # of /controller: tells our node from any other


class ControllerShell:
    """The controller's part of one broker, active or not.

    It lives on one session of the store: a broker that gets a new one stops and starts its shell.
    """

    def __init__(self, host: TermHost) -> None:
        self._host = host
        self.ledger = Ledger(host.data_dir, host.id)
        # Reading a long ledger takes a core and megabytes: one reader at a time.
        self.story_turn: Final = asyncio.Lock()
        self.metrics: Final = ControllerMetrics()
        self.requesters: Final = Requesters()
        self._changed = asyncio.Event()
        self._term: Term | None = None
        self._task: asyncio.Task[None] | None = None
        self._unwatch: list[Unwatch] = []
        self._resigns = True
        self._is_cut_off = False  # from the store, for so long that others may lead
        self._standby: Standby | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker leads the cluster, as far as it knows."""
        return self._term is not None

    @property
    def epoch(self) -> int:
        """The epoch of the running term, 0 where there is none."""
        return self._term.core.epoch if self._term else 0

    @property
    def topic_names(self) -> Mapping[uuid.UUID, str]:
        """The topics the controller knows, by id; empty where this is not the controller."""
        return self._term.core.context.names if self._term else {}

    def gauges(self) -> gauges.Gauges:
        """The gauges of the cluster; all zero if this is not the controller, as in Kafka."""
        return gauges.read(self._term.core.context) if self._term else gauges.Gauges()

    def queue_sizes(self) -> Mapping[str, int]:
        """The number of waiting events of each kind."""
        return self._term.inbox.sizes() if self._term else {}

    def is_queued_for_deletion(self, topic: str) -> bool:
        """Whether the controller is about to delete this topic."""
        return self._term is not None and self._term.core.context.is_queued(topic)

    def is_leaving(self, topic: str) -> bool:
        """Whether the deletion of this topic is under way, and nothing holds it up."""
        context = self._term.core.context if self._term else None
        known = context.topics.get(topic) if context is not None else None
        return known is not None and known.state in (TopicState.QUEUED, TopicState.DELETING)

    def is_alive(self, topic: str) -> bool:
        """Whether the controller knows this topic and is not about to delete it."""
        context = self._term.core.context if self._term else None
        return context is not None and topic in context.topics and not context.is_queued(topic)

    async def everybody_told(self, within_s: float) -> None:
        """Until every broker shows what it was told so far, but not for longer than this."""
        if self._term is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._term.shown()

    @property
    def standby_partitions(self) -> int:
        """The number of partitions whose states are at hand when a term begins."""
        return self._standby.partitions_count if self._standby else 0

    async def start(self) -> None:
        """Stand for election, now and whenever the controller is gone."""
        session = self._host.session
        self._unwatch = [
            session.watch_node(layout.CONTROLLER, self._changed.set),
            session.watch_state(self._session_changed),
        ]
        self._resigns, self._is_cut_off = True, False
        self._changed.set()
        self._task = asyncio.create_task(self._run(), name=f"controller-{self._host.id}")

    async def stop(self, *, resign: bool = True) -> None:
        """End the role. A broker that plays dead does not resign: its session has to expire."""
        self._resigns = resign
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch = []
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._standby is not None:
            await self._standby.close()
            self._standby = None
        self.ledger.close()

    async def submit(self, ask: events.Ask[A], by: str = "") -> A:
        """Ask the controller for somebody; RequestRefused(NOT_CONTROLLER) where this is not it."""
        if self._term is None or self._term.inbox.is_over:
            raise RequestRefused(ErrorCode.NOT_CONTROLLER)
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._term.inbox.put(cast(events.Event, ask), answer, by)
        return cast(A, await answer)

    def topic_settings_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """A topic's own settings are these now."""
        text = overrides.get(_UNCLEAN)
        allowed = None if text is None else is_true(text)
        if self._term is not None:
            self._term.inbox.put(events.UncleanSwitched(topic, allowed))
            self._term.inbox.put(events.FreezeSwitched(topic, is_true(overrides.get(FROZEN))))
            self._term.inbox.put(events.ImportSwitched(topic, is_true(overrides.get(IMPORTING))))

    def broker_settings_changed(self) -> None:
        """The broker's settings changed at run time."""
        if self._term is not None:
            allowed = self._host.settings.bool(_UNCLEAN)
            if allowed != self._term.core.context.unclean_default:
                self._term.inbox.put(events.UncleanSwitched(None, allowed))

    def story(self, topic: str | None = None) -> Iterable[dict[str, object]]:
        """The decisions this broker made while it was the controller."""
        return self.ledger.read(topic)

    def _session_changed(self, state: SessionState) -> None:
        if state is not SessionState.SUSPENDED:
            self._is_cut_off = state is not SessionState.CONNECTED
            self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._is_cut_off:
                continue  # the session says when it is back; an expired one never is
            try:
                mandate = await self._elect()
                if mandate is not None:
                    await self._lead(mandate)
                elif self._standby is None and self._wants_standby:
                    self._standby = Standby(self._host.session)
            except StoreUnavailable as fault:
                # Without the store nobody leads; a new session starts a new shell.
                log.warning("the controller lost the store", extra={"fault": str(fault)})
                await self._try_again_soon()
            except Exception:
                # A fault of ours must not take this broker out of all elections to come.
                log.exception("the election failed")
                await self._try_again_soon()

    @property
    def _wants_standby(self) -> bool:
        """Whether to keep things at hand; in a store of this process they are at hand already."""
        return self._host.settings.bool(_STANDBY) and not self._host.session.is_near

    async def _try_again_soon(self) -> None:
        await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)
        self._changed.set()

    async def _elect(self) -> Mandate | None:
        """Try to become the controller."""
        session = self._host.session
        found = await session.get(layout.CONTROLLER)
        if found is not None and not await self._is_removed(found):
            return None
        epoch, version = await self._last_epoch()
        node = layout.ControllerNode(self._host.id, self._host.now_ms())
        await session.multi(
            [
                Create(layout.CONTROLLER, layout.encode_controller(node), ephemeral=True),
                SetData(
                    layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(epoch + 1), version
                ),
            ]
        )
        # Whatever the multi answered, or whether its answer was lost: the nodes tell who won.
        return await self._confirmed(epoch + 1)

    async def _is_removed(self, node: Node) -> bool:
        """Whether the controller's node was ours, of a term that ended, and is gone now.

        A term that ends while the store is away cannot remove its node; where the session lives
        on, so does the node, and with it in the way nobody would ever be elected.
        """
        if node.stat.ephemeral_owner != self._host.session.id:
            return False
        delete = Delete(layout.CONTROLLER, node.stat.version)
        (result,) = await self._host.session.multi([delete])
        return result.ok

    async def _confirmed(self, epoch: int) -> Mandate | None:
        """The mandate, if the store says that this session holds it for this epoch."""
        controller, last = await self._host.session.get_many(
            [layout.CONTROLLER, layout.CONTROLLER_EPOCH]
        )
        if controller is None or last is None:
            self._changed.set()
            return None
        if controller.stat.ephemeral_owner != self._host.session.id:
            return None
        if layout.decode_controller_epoch(last.data) != epoch:
            return None
        return Mandate(epoch, last.stat.version, controller.stat.czxid)

    async def _last_epoch(self) -> tuple[int, int]:
        session = self._host.session
        node = await session.get(layout.CONTROLLER_EPOCH)
        if node is None:
            first = layout.encode_controller_epoch(0)
            await session.multi([Create(layout.CONTROLLER_EPOCH, first)])
            node = await session.get(layout.CONTROLLER_EPOCH)
        epoch = layout.decode_controller_epoch(node.data) if node else None
        if node is None or epoch is None:
            raise StoreUnavailable(f"{layout.CONTROLLER_EPOCH} cannot be read")
        return epoch, node.stat.version

    async def _lead(self, mandate: Mandate) -> None:
        """Lead until the mandate is lost, or something goes wrong."""
        log.info("this broker is the controller", extra={"epoch": mandate.epoch})
        standby, self._standby = self._standby, None
        self._term = self._new_term(mandate, standby)
        work = asyncio.create_task(self._term.run(), name=f"term-{mandate.epoch}")
        try:
            await self._until_replaced(mandate, work)
        finally:
            self._term = None
            work.cancel()
            (ended,) = await asyncio.gather(work, return_exceptions=True)
            if standby is not None:
                await standby.close()
            if self._resigns:
                await self._give_up_node(mandate)
        if isinstance(ended, Exception):
            await self._explain_end(ended)
        self._changed.set()

    async def _until_replaced(self, mandate: Mandate, work: asyncio.Task[None]) -> None:
        while not work.done():
            hint = asyncio.create_task(self._changed.wait(), name="controller-hint")
            try:
                await asyncio.wait({work, hint}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                hint.cancel()
            if self._changed.is_set():
                self._changed.clear()
                if self._is_cut_off:
                    log.warning("the controller was away from the store: others may lead")
                    return
                node = await self._host.session.get(layout.CONTROLLER)
                if node is None or node.stat.czxid != mandate.czxid:
                    return

    async def _explain_end(self, ended: Exception) -> None:
        if isinstance(ended, ExceptionGroup) and ended.subgroup(ControllerFenced):
            log.info("another controller was elected: this one resigned")
            return
        lost = ended.subgroup(StoreUnavailable) if isinstance(ended, ExceptionGroup) else None
        if lost is not None:
            why = str(_first(lost))
            log.error("the controller's term ended: its store fails", extra={"why": why})
        else:
            log.error("the controller's term ended with a fault", exc_info=ended)
        await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)

    async def _give_up_node(self, mandate: Mandate) -> None:
        """Let somebody else be elected at once; the node is ours alone while its czxid is ours."""
        session = self._host.session
        try:
            node = await session.get(layout.CONTROLLER)
            if node is not None and node.stat.czxid == mandate.czxid:
                await session.multi([Delete(layout.CONTROLLER, node.stat.version)])
        except StoreUnavailable:
            log.info("the store is away: the controller's node goes with its session")

    def _new_term(self, mandate: Mandate, standby: Standby | None) -> Term:
        host = self._host
        inbox = Inbox()
        core = Core(host.id, mandate.epoch)
        core.context.unclean_default = host.settings.bool(_UNCLEAN)
        outbox = Outbox(
            ControlSender(host.id, mandate.epoch, host.peers.ways.inter_broker),
            open=self._open,
            answered=inbox.put,
            timeout_s=host.settings.int("controller.socket.timeout.ms") / 1000,
            fence_s=lambda: host.settings.int("klamm.fence.unreachable.ms") / 1000,
            metrics=self.metrics,
        )
        return Term(
            core,
            session=host.session,
            epoch_version=mandate.epoch_version,
            outbox=outbox,
            inbox=inbox,
            ledger=self.ledger,
            settings=lambda: host.settings,
            now_ms=host.now_ms,
            metrics=self.metrics,
            standby=standby,
            requesters=self.requesters,
        )

    async def _open(self, broker: Registration) -> Link:
        return await self._host.peers.connect_to(broker, f"controller-{self._host.id}")


def _first(group: ExceptionGroup[StoreUnavailable]) -> Exception:
    """The first of a group that is not a group itself."""
    first: Exception = group
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first
