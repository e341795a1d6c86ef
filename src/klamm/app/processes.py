"""A cluster with a process a broker, watched by this one.

The embedded store lives here, in the parent: it does little, so it shares the process with the
watching, and a broker that dies can take nobody along but itself. Brokers have sessions with it
over ZooKeeper's protocol, as they would with a ZooKeeper. When one of them dies the parent knows it
from the system, and ends its session at once; a ZooKeeper elsewhere misses it after a session's
time.

Nothing is restarted unless somebody asks. When this process dies, the brokers die with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from klamm.app import asking
from klamm.app.broker_process import (
    BrokerProcess,
    ProcessState,
    end_of,
    is_own_failure,
    state_after,
)
from klamm.app.faults import plain
from klamm.app.locking import write_clients
from klamm.app.nursery import Nursery
from klamm.app.one_broker import BrokerPlan
from klamm.app.plan import Plan
from klamm.app.running import ACQUAINTED_WITHIN_S, Gate, Progress, RunningCluster, at_once
from klamm.model.brokers import PLAINTEXT
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import BrokerId
from klamm.security.listeners.placing import at_ports
from klamm.store import layout
from klamm.store.port import Session
from klamm.store.serving.digest import FILE_NAME as DIGEST_FILE
from klamm.view import BrokerView, ClusterView, all_are_acquainted

log = logging.getLogger(__name__)

NURSERY_MODULE: Final = "klamm.app.nursery_main"
_SERVING: Final = "klamm.store.serve."
_ANSWERS_WITHIN_S: Final = 10.0  # a broker that hangs is not waited for


class ProcessCluster(RunningCluster[BrokerProcess]):
    """The parent of a cluster's brokers, on the loop that called `start`."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress | None = None,
        nursery: Nursery | None = None,  # None: a new one
    ) -> None:
        super().__init__(plan, progress)
        if not self.settings.str("zookeeper.connect") and not plan.zookeeper_nodes:
            served = max(0, self.settings.int("klamm.store.serve.port"))
            self.settings = self.settings.with_static({"klamm.store.serve.port": str(served)})
        self._states: dict[int, ProcessState] = {}  # of those that do not run
        self._metrics: dict[int, str] = {}
        self._nursery = nursery
        self._born: dict[int, BrokerProcess] = {}  # by pid, until they have ended
        self._ended_at_once: dict[int, int] = {}  # how, by pid: before we knew of their birth
        self._session: Session | None = None  # to end sessions of the dead
        self._burials: set[asyncio.Task[None]] = set()

    @property
    def metrics_url(self) -> str:
        """The addresses of the Prometheus metrics, one a broker; '' where they are not served."""
        return ",".join(url for _, url in sorted(self._metrics.items()) if url)

    # The whole cluster

    async def start(self) -> None:
        """Return when every broker serves and knows all the others; undo all on failure."""
        try:
            await self._prepare()
            await self._lock()
            await self._open_store()
            self._session = await self.store.connect()
            for at in self.ids:
                # Who was registered when the parent was killed has died with it.
                await self._end_session_of(at)
            if self._nursery is None:
                self._nursery = Nursery.start(NURSERY_MODULE)
            self._nursery.attach(self._ended, self._bereaved)
            await self.start_brokers()
            await write_clients(self.secured, self.bootstrap_on)
        except BaseException as error:
            await self.kill()
            raise plain(error) from error

    async def stop_brokers(self) -> None:
        """Stop all brokers, after which leaders and in-sync sets are what they were.

        The controllers end first, and none resigns: else each broker that goes would be taken for
        a loss, and the last one left would lead everything, alone in sync.
        """
        running = list(self.brokers.values())
        for process in running:
            process.is_expected_to_end = True
            if process.is_paused:
                process.resume()
        if await self._is_alone():
            await asyncio.gather(*(process.rest() for process in running), return_exceptions=True)
            await asyncio.gather(*(process.stop(hand_over=False) for process in running))
        else:
            await self.look()
            for process in sorted(running, key=lambda process: process.is_controller):
                await process.stop(hand_over=True)

    async def kill(self) -> None:
        """As a crash: nothing is flushed, nobody is told. For data that nobody will read again."""
        for process in self._born.values():
            process.is_expected_to_end = True
        await self._release()

    # One broker

    async def start_broker(self, at: int) -> None:
        """Bring back one broker, on the port and the data it had."""
        self._check_id(at)
        if at in self.brokers or self._states.get(at) is ProcessState.STARTING:
            raise UsageError(f"broker {at} already runs")
        await self._start(at, at_once)
        await self._wait_for_all()

    async def stop_broker(self, at: int) -> None:
        """Stop one broker in a controlled way: its leaderships move first."""
        await self._running(at).stop(hand_over=True)

    async def kill_broker(self, at: int) -> None:
        """kill -9."""
        await self._running(at).kill()

    def pause_broker(self, at: int) -> None:
        """Have the system stop its process where it is; its session ends when its time is over."""
        self._running(at).pause()
        self._wake()

    def resume_broker(self, at: int) -> None:
        """Let a paused broker go on."""
        self._running(at).resume()
        self._wake()

    def state(self, at: int) -> ProcessState:
        """The state of one broker."""
        self._check_id(at)
        process = self.brokers.get(at)
        if process is None:
            return self._states[at]
        return ProcessState.PAUSED if process.is_paused else ProcessState.RUNNING

    def pid(self, at: int) -> int | None:
        """The process of a broker that runs."""
        process = self.brokers.get(at)
        return process.pid if process else None

    # What the brokers see

    async def look(self) -> ClusterView:
        """The metadata that each running broker has right now."""
        asked = {at: process for at, process in self.brokers.items() if not process.is_paused}
        told = await asyncio.gather(
            *(asyncio.wait_for(process.view(), _ANSWERS_WITHIN_S) for process in asked.values()),
            return_exceptions=True,
        )
        return self._as_view(dict(zip(asked, told, strict=True)))

    def _as_view(self, told: Mapping[int, BrokerView | BaseException]) -> ClusterView:
        controller = next((at for at, each in self.brokers.items() if each.is_controller), -1)
        seen: dict[int, BrokerView] = {}
        for at, view in told.items():
            if isinstance(view, BrokerView):
                seen[at] = view
            elif not isinstance(view, KlammError | TimeoutError):
                raise view
        return ClusterView(seen, controller if controller in seen else -1)

    async def _change_since(self, _view: ClusterView) -> None:
        """Until some broker has newer metadata than it told last, or brokers come or go."""
        waits = [
            asyncio.ensure_future(process.view(newer=True))
            for process in self.brokers.values()
            if not process.is_paused
        ]
        woken = asyncio.ensure_future(self._membership.wait())
        try:
            await asyncio.wait({*waits, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in (*waits, woken):
                wait.cancel()
            await asyncio.gather(*waits, woken, return_exceptions=True)

    async def _wait_for_all(self) -> None:
        """Until each running broker has heard of every other."""
        running = [at for at, process in self.brokers.items() if not process.is_paused]
        await self.wait_until(all_are_acquainted(running), ACQUAINTED_WITHIN_S)

    async def _is_alone(self) -> bool:
        """Whether all brokers of the cluster are ours."""
        if not self.zookeeper_address:
            return False
        return await asking.registered(self.store) <= self.brokers.keys()

    # Processes

    async def _start(self, at: int, gate: Gate) -> None:
        assert self._nursery is not None, "the cluster has no nursery yet"
        process = BrokerProcess(self._plan_of(at), gate, self._progress)
        self._states[at] = ProcessState.STARTING
        try:
            await process.bear(self._nursery)
            self._born[process.pid] = process
            if (status := self._ended_at_once.pop(process.pid, None)) is not None:
                self._ended(process.pid, status)
            await process.start()
        except BaseException:
            process.is_expected_to_end = True
            self._states[at] = ProcessState.FAILED
            if process.pid:
                await process.hang_up()
            raise
        if process.ended.done():
            raise KlammError(f"broker {at} {end_of(process.ended.result())} as soon as it started")
        self.brokers[at] = process
        self._ports[at], self._endpoints[at] = process.ports, process.endpoints
        self._metrics[at] = process.metrics_url
        self._all_failed.clear()
        self._wake()

    def _plan_of(self, at: int) -> BrokerPlan:
        assert self._directory is not None, "the cluster has no data directory yet"
        given = {k: v for k, v in self.settings.static.items() if not k.startswith(_SERVING)}
        kept, texts = self._ports.get(at, {}), self.plan.listening_texts(at)
        given |= at_ports(texts, kept) if kept else texts
        if self.zookeeper_address:
            given["zookeeper.connect"] = self.zookeeper_address
            given["klamm.zookeeper.digest.file"] = str(self.data / DIGEST_FILE)
        metrics = self.settings.int("klamm.metrics.port")
        if metrics > 0:
            given["klamm.metrics.port"] = str(metrics + at)
        return BrokerPlan(
            id=at,
            data=str(self._directory.broker(at)),
            host=self.plan.host,
            port=kept.get(PLAINTEXT) or (self.plan.port and self.plan.port + at),
            advertise=self.plan.advertise,
            rack=self.plan.racks[at] if self.plan.racks else None,
            settings=given,
        )

    def _ended(self, pid: int, status: int) -> None:
        """A process of ours is no more."""
        process = self._born.pop(pid, None)
        if process is None:
            self._ended_at_once[pid] = status
            return
        if self.brokers.get(process.id) is process:
            del self.brokers[process.id]
            self._states[process.id] = state_after(status)
        if not process.is_expected_to_end:
            self._tell_of(process, status)
        burial = asyncio.create_task(self._bury(process, status), name=f"burial-{process.id}")
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)

    def _tell_of(self, process: BrokerProcess, status: int) -> None:
        log.critical(
            "broker %d (process %d) %s; `klamm cluster start %d` brings it back",
            process.id,
            process.pid,
            end_of(status),
            process.id,
        )
        if not self.brokers and is_own_failure(status):
            self._all_failed.set()

    def _bereaved(self) -> None:
        """The nursery was killed, and all brokers with it: no other can be started."""
        log.critical("the process that starts brokers was killed, and every broker with it")
        for pid, process in list(self._born.items()):
            process.is_expected_to_end = True
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # where the system has not done so
            self._ended(pid, signal.SIGKILL)
        self._all_failed.set()

    async def _bury(self, process: BrokerProcess, status: int) -> None:
        """End the session of a broker that could not do so itself."""
        try:
            await process.hang_up()
            await self._end_session_of(process.id)
        except KlammError as fault:
            log.warning("a dead broker's session is left to its time-out", extra={"why": fault})
        finally:
            if not process.ended.done():
                process.ended.set_result(status)
            self._wake()

    async def _end_session_of(self, at: int) -> None:
        """End the session that a broker of ours is registered by, which has died."""
        server = self._opened.server if self._opened else None
        if server is None or self._session is None:
            return
        node = await self._session.get(layout.broker_path(BrokerId(at)))
        if node is not None:
            server.end_session(node.stat.ephemeral_owner)
            await self._session.multi([])  # behind all that was handed in

    async def _release(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None
        for pid in list(self._born):
            self._ended(pid, signal.SIGKILL)  # the nursery has seen to that
        await asyncio.gather(*self._burials, return_exceptions=True)
        self.brokers.clear()
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._release_store()

    def _running(self, at: int) -> BrokerProcess:
        self._check_id(at)
        process = self.brokers.get(at)
        if process is None:
            raise UsageError(f"broker {at} does not run")
        return process

    def _failure(self) -> str:
        return "no broker is left; the lines above say why. Start the cluster again"
