"""A whole cluster in one process.

`ClusterApp` turns a `Plan` into a store, N brokers and a data directory, and owns them: what it
started it stops. Brokers share the process and the loop but nothing else; they meet in the store
and talk through TCP, as they would on N machines.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from klamm.app import asking
from klamm.app.faults import plain
from klamm.app.locking import write_clients
from klamm.app.plan import Plan
from klamm.app.running import ACQUAINTED_WITHIN_S, Gate, Progress, RunningCluster, at_once
from klamm.app.scraping import serve_metrics
from klamm.broker.server import Broker, frame_memory_of
from klamm.model.brokers import PLAINTEXT
from klamm.model.errors import UsageError
from klamm.model.names import BrokerId
from klamm.security.listeners.placing import at_ports
from klamm.view import BrokerView, ClusterView, all_are_acquainted

if TYPE_CHECKING:
    from klamm.metrics.server import MetricsServer

log = logging.getLogger(__name__)


class ClusterApp(RunningCluster[Broker]):
    """The running parts of one cluster, all on the loop that called `start`."""

    def __init__(self, plan: Plan, progress: Progress | None = None) -> None:
        super().__init__(plan, progress)
        self._frame_memory = frame_memory_of(self.settings)
        self._metrics: MetricsServer | None = None
        self._watches: dict[int, asyncio.Task[None]] = {}  # a task a broker, until it stops
        self._failed: dict[int, None] = {}  # those that stopped by themselves, in their order

    @property
    def metrics_url(self) -> str:
        """The address of the Prometheus metrics; '' where `klamm.metrics.port` is -1."""
        return self._metrics.url if self._metrics else ""

    async def start(self) -> None:
        """Return when every broker serves and knows all the others; undo all on failure."""
        await self._prepare()
        try:
            await self._lock()
            self._metrics = await serve_metrics(
                self.brokers, self.plan.host, self.settings.int("klamm.metrics.port")
            )
            await self._open_store()
            await self.start_brokers()
            await write_clients(self.secured, self.bootstrap_on)
        except BaseException as error:
            await self.kill()
            raise plain(error) from error

    async def stop_brokers(self) -> None:
        """Stop all brokers, after which leaders and in-sync sets are what they were."""
        if await self._is_alone():
            await self._stop_together()
        else:
            for at in sorted(self.brokers, key=lambda at: self.brokers[at].is_controller):
                await self.stop_broker(at)

    async def kill(self) -> None:
        """As a crash: nothing is flushed, nobody is told. For data that nobody will read again."""
        brokers = self._take_all()
        await asyncio.gather(*(broker.kill() for broker in brokers))
        await self._release()

    async def start_broker(self, at: int) -> None:
        """Bring back one broker, on the port and the data it had."""
        self._check_id(at)
        if at in self.brokers:
            raise UsageError(f"broker {at} already runs")
        await self._start(at, at_once)
        await self._wait_for_all()

    async def stop_broker(self, at: int) -> None:
        """Stop one broker in a controlled way: its leaderships move first."""
        await self._take(at).stop()

    async def kill_broker(self, at: int) -> None:
        """Let one broker crash."""
        await self._take(at).kill()

    def pause_broker(self, at: int) -> None:
        """Refused: there is no process to pause that is this broker's alone."""
        raise UsageError(
            "brokers that share one process cannot be paused: run the cluster with --processes "
            "(Cluster: processes=True)"
        )

    resume_broker = pause_broker

    def state(self, at: int) -> str:
        """The state of one broker."""
        self._check_id(at)
        return "running" if at in self.brokers else "failed" if at in self._failed else "stopped"

    def pid(self, at: int) -> int | None:
        """The process of a broker that runs: this one."""
        return os.getpid() if at in self.brokers else None

    def _failure(self) -> str:
        named = ", ".join(map(str, self._failed))
        return (
            f"no broker is left: {named} stopped by themselves, mostly because their disks failed; "
            "the lines above say why"
        )

    @property
    def controller_id(self) -> int | None:
        """The broker that is the active controller, None while there is none."""
        return next((at for at, broker in self.brokers.items() if broker.is_controller), None)

    def view(self) -> ClusterView:
        """The metadata that each running broker has right now."""
        controller = self.controller_id
        return ClusterView(
            {at: BrokerView(broker.parts.metadata.snapshot) for at, broker in self.brokers.items()},
            -1 if controller is None else controller,
        )

    async def look(self) -> ClusterView:
        """The same, for those who may have to wait for it."""
        return self.view()

    async def _change_since(self, view: ClusterView) -> None:
        """Until some broker has newer metadata than in this view, or brokers have come or gone."""
        waits = [
            asyncio.ensure_future(self.brokers[at].parts.metadata.wait_for(seen.is_older_than))
            for at, seen in view.brokers.items()
            if at in self.brokers
        ]
        waits.append(asyncio.ensure_future(self._changed_members(view.brokers.keys())))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _is_alone(self) -> bool:
        """Whether all brokers of the cluster are ours."""
        if self._opened is None or not self._opened.is_shared:
            return True
        if not self.zookeeper_address:
            return False
        return await asking.registered(self.store) <= self.brokers.keys()

    async def _stop_together(self) -> None:
        """Stop all brokers at once.

        The controllers end first, and none resigns: else each broker that goes would be taken for
        a loss, and the last one left would lead everything, alone in sync.
        """
        brokers = self._take_all()
        self._wake()
        await asyncio.gather(*(broker.parts.controller.stop(resign=False) for broker in brokers))
        assert self._directory is not None, "the cluster has no data directory yet"
        # Logs that somebody gave a place of their own stay.
        own_place = self.settings.static.keys() & {"log.dirs", "log.dir"}
        keep = not self._directory.temporary or bool(own_place)
        await asyncio.gather(*(broker.stop(hand_over=False, keep=keep) for broker in brokers))

    async def _start(self, at: int, gate: Gate) -> None:
        assert self._directory is not None, "the cluster has no data directory yet"
        kept = self._ports.get(at, {})
        texts = self.plan.listening_texts(at)
        broker = Broker(
            BrokerId(at),
            store=self.store,
            settings=self.settings.with_static(at_ports(texts, kept) if kept else texts),
            data_dir=self._directory.broker(at),
            host=self.plan.host,
            port=kept.get(PLAINTEXT) or (self.plan.port and self.plan.port + at),
            advertise=self.plan.advertise,
            rack=self.plan.racks[at] if self.plan.racks else None,
            progress=lambda done, total: self._progress(f"broker {at}: log {done} of {total}"),
            frame_memory=self._frame_memory,
        )
        await broker.start(gate)
        self.brokers[at] = broker
        self._ports[at] = broker.listeners.ports
        self._endpoints[at] = broker.endpoints
        self._failed.pop(at, None)
        self._all_failed.clear()
        self._watches[at] = asyncio.create_task(self._watch(at, broker), name=f"watch-{at}")
        self._wake()

    async def _watch(self, at: int, broker: Broker) -> None:
        """Notice when a broker stops that nobody stopped."""
        await broker.stopped.wait()
        if self.brokers.get(at) is not broker:
            return
        del self.brokers[at]
        self._failed[at] = None
        log.critical("a broker stopped by itself", extra={"broker": at, "left": len(self.brokers)})
        if not self.brokers:
            self._all_failed.set()
        self._wake()

    def _take_all(self) -> list[Broker]:
        brokers = list(self.brokers.values())
        self.brokers.clear()
        return brokers

    def _take(self, at: int) -> Broker:
        self._check_id(at)
        if at not in self.brokers:
            raise UsageError(f"broker {at} does not run")
        broker = self.brokers.pop(at)
        self._wake()
        return broker

    async def _changed_members(self, known: AbstractSet[int]) -> bool:
        while self.brokers.keys() == known:
            await self._membership.wait()
        return True

    async def _wait_for_all(self) -> None:
        """Until each running broker has heard of every other."""
        await self.wait_until(all_are_acquainted(self.brokers), ACQUAINTED_WITHIN_S)

    async def _release(self) -> None:
        for watch in self._watches.values():
            watch.cancel()
        await asyncio.gather(*self._watches.values(), return_exceptions=True)
        self._watches.clear()
        if self._metrics is not None:
            await self._metrics.stop()
            self._metrics = None
        await self._release_store()
