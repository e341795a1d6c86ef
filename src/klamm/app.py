"""A whole cluster in one process: the only place that knows all the parts.

`ClusterApp` turns a `Plan` into a store, N brokers and a data directory, and owns them: what it
started it stops. Brokers share the process and the loop but nothing else; they meet in the store
and talk through TCP, as they would on N machines.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.broker.net.door import Door, exposure
from klamm.broker.server import Broker, frame_memory_of
from klamm.client.admin import Admin
from klamm.client.cluster import Client
from klamm.client.errors import code_of
from klamm.datadir import DataDirectory
from klamm.model.errors import KlammError, RequestRefused, StoreUnavailable, UsageError
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.protocol.messages import create_topics
from klamm.start_check import heed
from klamm.store import layout
from klamm.store.backups import Policy
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Store
from klamm.view import BrokerView, ClusterView, Predicate

if TYPE_CHECKING:
    from klamm.metrics.server import MetricsServer
    from klamm.store.serving.server import StoreServer
    from klamm.store.zookeeper import ZooKeeperStore

log = logging.getLogger(__name__)

Progress = Callable[[str], None]
PORT_MAX = 65535
ACQUAINTED_WITHIN_S = 60.0
_SILENT_S = 1.0  # somebody who waits for longer is told for what


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The wishes for a cluster: brokers, ports, data, settings."""

    brokers: int = 3
    host: str = "127.0.0.1"
    port: int = 0  # broker i listens on port + i; 0 lets the system choose
    data: Path | None = None  # None: a temporary directory, and a store in memory
    settings: Mapping[str, str] = field(default_factory=dict)
    racks: Sequence[str] = ()  # one a broker, or none at all
    zookeeper: str | None = None  # host:port,... of a ZooKeeper to use as the store

    def fault(self) -> str | None:
        """The reason why no cluster can be made of this, or None."""
        if self.brokers < 1:
            return f"a cluster needs at least one broker, not {self.brokers}"
        if not 0 <= self.port <= PORT_MAX - self.brokers + 1:
            return f"port {self.port} leaves no room for {self.brokers} brokers below {PORT_MAX}"
        if self.zookeeper is not None and not self.zookeeper.strip():
            return "the list of ZooKeeper servers is empty"
        settings = self.broker_settings()
        if settings.str("zookeeper.connect") and settings.int("klamm.store.serve.port") >= 0:
            return (
                "--zookeeper-port (klamm.store.serve.port) serves the embedded store, which a "
                "cluster with --zookeeper (zookeeper.connect) does not have"
            )
        if self.racks and len(self.racks) != self.brokers:
            return f"{len(self.racks)} racks were named for {self.brokers} brokers: one each"
        return None

    def broker_settings(self) -> BrokerSettings:
        """The user's settings over the few defaults that suit one machine."""
        given = {**_fitting(self.brokers), **self.settings}
        if self.zookeeper is not None:
            given["zookeeper.connect"] = self.zookeeper
        return BrokerSettings.parse(given)


def _fitting(brokers: int) -> dict[str, str]:
    """The settings of Kafka's own development configuration: a small cluster must still do all."""
    copies = str(min(3, brokers))
    return {
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "klamm.ledger.topic.replication.factor": copies,
        "group.initial.rebalance.delay.ms": "0",
    }


class ClusterApp:
    """The running parts of one cluster, all on the loop that called `start`."""

    def __init__(self, plan: Plan, progress: Progress | None = None) -> None:
        fault = plan.fault()
        if fault is not None:
            raise UsageError(fault)
        heeded = heed(plan.settings)
        if heeded.refusals:
            raise UsageError("; ".join(heeded.refusals))
        if heeded.idle:
            log.warning("no effect here: %s", ", ".join(heeded.idle))
        self.plan = plan
        self.settings = plan.broker_settings()
        self._frame_memory = frame_memory_of(self.settings)
        self.brokers: dict[int, Broker] = {}  # those that run
        self._progress = progress or _quiet
        self._ports: dict[int, int] = {}  # kept over a broker's restart, for its clients
        self._directory: DataDirectory | None = None
        self._store: Store | None = None
        self._metrics: MetricsServer | None = None
        self._served: StoreServer | None = None
        self._membership = asyncio.Event()  # set and cleared at once: wakes those who wait
        self._watches: dict[int, asyncio.Task[None]] = {}  # a task a broker, until it stops
        self._failed: dict[int, None] = {}  # those that stopped by themselves, in their order
        self._all_failed = asyncio.Event()

    @property
    def store(self) -> Store:
        assert self._store is not None, "the cluster has not been started"
        return self._store

    @property
    def data(self) -> Path:
        assert self._directory is not None, "the cluster has not been started"
        return self._directory.path

    @property
    def bootstrap_servers(self) -> str:
        """Every broker's address, also of those that are down for now."""
        return ",".join(f"{self.plan.host}:{self._ports[at]}" for at in sorted(self._ports))

    @property
    def metrics_url(self) -> str:
        """The address of the Prometheus metrics; '' where `klamm.metrics.port` is -1."""
        return self._metrics.url if self._metrics else ""

    @property
    def zookeeper_address(self) -> str:
        """Where the embedded store is served; '' where `klamm.store.serve.port` is -1."""
        return self._served.address if self._served else ""

    async def start(self) -> None:
        """Return when every broker serves and knows all the others; undo all on failure."""
        raise_file_limit()
        self._check_ports()
        for warning in (exposure(self.plan.host), Door(self.settings).warning()):
            if warning is not None:
                log.warning(warning)
        self._directory = DataDirectory.claim(self.plan.data)
        try:
            await self._serve_metrics()
            self._store = await self._open_store()
            together = asyncio.Barrier(self.plan.brokers)
            async with asyncio.TaskGroup() as starting:
                for at in range(self.plan.brokers):
                    starting.create_task(self._start(at, together.wait))
            await self._wait_for_all()
        except BaseException as error:
            await self.kill()
            raise _plain(error) from error

    async def stop(self) -> None:
        """Controlled: every log is flushed and marked clean."""
        self._progress("stopping")
        if await self._is_alone():
            await self._stop_together()
        else:
            for at in sorted(self.brokers, key=lambda at: self.brokers[at].is_controller):
                await self.stop_broker(at)
        await self._release()

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
        await self._start(at)
        await self._wait_for_all()

    async def stop_broker(self, at: int) -> None:
        """Stop one broker in a controlled way: its leaderships move first."""
        await self._take(at).stop()

    async def kill_broker(self, at: int) -> None:
        """Let one broker crash."""
        await self._take(at).kill()

    async def failed(self) -> str:
        """Wait until the last broker has stopped by itself, and say so."""
        await self._all_failed.wait()
        return self._failure()

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

    async def wait_until(self, predicate: Predicate, timeout_s: float) -> ClusterView:
        """Ask `predicate` now and at every change of a broker's metadata until it says yes."""
        try:
            async with asyncio.timeout(timeout_s):
                while not predicate(view := self.view()):
                    if self._all_failed.is_set():
                        raise KlammError(self._failure())
                    await self._change_since(view)
                return view
        except TimeoutError:
            what = getattr(predicate, "__qualname__", repr(predicate))
            raise TimeoutError(f"{what} did not hold within {timeout_s} s") from None

    async def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> None:
        """Create a topic, as a client would; -1 leaves a number to the brokers' settings."""
        topic = create_topics.CreatableTopic(
            name,
            partitions,
            replication_factor,
            configs=[create_topics.CreatableTopicConfig(k, v) for k, v in configs.items()],
        )
        if self._all_failed.is_set():
            raise KlammError(self._failure())
        async with Client(self.bootstrap_servers) as client:
            (result,) = await Admin(client).create_topics([topic])
        if result.error_code:
            raise RequestRefused(code_of(result.error_code), result.error_message)

    async def store_paths(self) -> list[str]:
        """Every path in the store, parents first."""
        session = await self.store.connect()
        try:
            paths = ["/"]
            for path in paths:  # grows while we walk it
                names = await session.children(path) or ()
                paths += [f"{path.rstrip('/')}/{name}" for name in names]
            return paths
        finally:
            await session.close()

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
        if self._served is None:
            return not self._connect  # nobody else can reach an embedded store
        session = await self.store.connect()
        try:
            registered = await session.children(layout.BROKER_IDS) or ()
        finally:
            await session.close()
        return {str(at) for at in self.brokers} >= set(registered)

    async def _stop_together(self) -> None:
        """Stop all brokers at once, after which leaders and in-sync sets are what they were.

        The controllers end first, and none resigns: else each broker that goes would be taken for
        a loss, and the last one left would lead everything, alone in sync.
        """
        brokers = self._take_all()
        await asyncio.gather(*(broker.parts.controller.stop(resign=False) for broker in brokers))
        await asyncio.gather(*(broker.stop(hand_over=False) for broker in brokers))

    async def _start(self, at: int, gate: Callable[[], Awaitable[object]] | None = None) -> None:
        assert self._directory is not None, "the cluster has no data directory yet"
        port = self._ports.get(at) or (self.plan.port and self.plan.port + at)
        broker = Broker(
            BrokerId(at),
            store=self.store,
            settings=self.settings,
            data_dir=self._directory.broker(at),
            host=self.plan.host,
            port=port,
            rack=self.plan.racks[at] if self.plan.racks else None,
            progress=lambda done, total: self._progress(f"broker {at}: log {done} of {total}"),
            frame_memory=self._frame_memory,
        )
        await broker.start(gate)
        self.brokers[at] = broker
        self._ports[at] = broker.endpoint.port
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

    def _wake(self) -> None:
        self._membership.set()
        self._membership.clear()

    def _check_id(self, at: int) -> None:
        if not 0 <= at < self.plan.brokers:
            raise UsageError(f"there is no broker {at} in a cluster of {self.plan.brokers}")

    def _check_ports(self) -> None:
        """Say no before anything is touched, rather than after recovering a thousand logs."""
        if self.plan.port == 0:
            return
        for port in range(self.plan.port, self.plan.port + self.plan.brokers):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self.plan.host, port))
                except OSError as error:
                    raise UsageError(_port_fault(self.plan.host, port, error)) from error

    async def _serve_metrics(self) -> None:
        port = self.settings.int("klamm.metrics.port")
        if port < 0:
            return
        try:
            # Not at the top: most clusters never need it.
            from klamm.metrics.server import MetricsServer
        except ImportError as missing:
            needs = "metrics need prometheus-client: pip install 'klamm[metrics]'"
            raise UsageError(needs) from missing
        self._metrics = MetricsServer(self.brokers)
        await self._metrics.start(self.plan.host, port)

    async def _open_store(self) -> Store:
        assert self._directory is not None, "the cluster has no data directory yet"
        if self._connect:
            # Not at the top: most clusters never need it.
            from klamm.store.zookeeper import ZooKeeperStore

            timeout_ms = self.settings.int("zookeeper.session.timeout.ms")
            patience_ms = self.settings.int_or("zookeeper.connection.timeout.ms", timeout_ms)
            store = ZooKeeperStore(
                self._connect,
                session_timeout_ms=timeout_ms,
                connection_timeout_ms=patience_ms,
                digest=self._shown_digest(),
            )
            await self._reach(store, patience_ms)
            return store
        if self.plan.data is None:
            embedded = EmbeddedStore.open(None, serving=self._serves)
        else:
            embedded = await self._open_embedded(self._directory)
        if self._serves:
            await self._serve(embedded, self._directory)
        return embedded

    @property
    def _serves(self) -> bool:
        """Whether other processes are to have sessions with the embedded store."""
        return self.settings.int("klamm.store.serve.port") >= 0

    async def _serve(self, store: EmbeddedStore, directory: DataDirectory) -> None:
        """Open the embedded store's door for other processes."""
        # Not at the top: most clusters never need it.
        from klamm.store.serving.digest import read_or_draw
        from klamm.store.serving.server import Door, StoreServer

        settings = self.settings
        try:
            door = Door(
                host=settings.str("klamm.store.serve.host"),
                port=settings.int("klamm.store.serve.port"),
                digest=read_or_draw(directory.path),
                anyone_may_write=settings.str("klamm.store.serve.writers") == "anyone",
                tick_ms=settings.int("klamm.store.serve.tick.ms"),
                connections_max=settings.int("klamm.store.serve.connections.max"),
            )
            server = StoreServer(store, door)
            await server.start()
        except BaseException:
            await store.close()
            raise
        self._served = server

    def _shown_digest(self) -> str:
        """What is shown to a ZooKeeper; '' for nothing."""
        from klamm.store.serving.digest import read

        name = self.settings.str("klamm.zookeeper.digest.file")
        return read(Path(name)) if name else ""

    async def _reach(self, store: ZooKeeperStore, patience_ms: int) -> None:
        """Wait for ZooKeeper, and say so when it takes longer than a moment."""
        waiting = asyncio.get_running_loop().call_later(
            _SILENT_S,
            log.warning,
            "no ZooKeeper answers yet at %s: trying for %g s (zookeeper.connection.timeout.ms)",
            store.hosts,
            patience_ms / 1000,
        )
        try:
            await store.reach()
        except StoreUnavailable as fault:
            await store.close()
            raise UsageError(
                f"no ZooKeeper could be reached within {patience_ms / 1000:g} s ({fault}): start "
                "it, or correct --zookeeper (zookeeper.connect)"
            ) from fault
        finally:
            waiting.cancel()

    async def _open_embedded(self, directory: DataDirectory) -> EmbeddedStore:
        """The store of the data directory; UsageError where it was lost and logs would be too."""
        elsewhere = [Path(name.strip()) for name in self._log_dirs if name.strip().startswith("/")]
        directory.refuse_loss(elsewhere)
        store = EmbeddedStore.open(
            directory.store,
            fsync=self.settings.bool("klamm.store.fsync"),
            policy=Policy(
                keep=self.settings.int("klamm.store.backups"),
                interval_s=self.settings.int("klamm.store.backup.interval.ms") / 1000,
            ),
            serving=self._serves,
        )
        try:
            directory.refuse_loss(elsewhere, is_empty=store.is_empty)
        except UsageError:
            await store.close()
            raise
        return store

    @property
    def _log_dirs(self) -> list[str]:
        static = self.settings.static
        return (static.get("log.dirs") or static.get("log.dir") or "").split(",")

    @property
    def _connect(self) -> str:
        """The address of the ZooKeeper that keeps the metadata; '' for the embedded store."""
        return self.settings.str("zookeeper.connect")

    async def _wait_for_all(self) -> None:
        """Until each running broker has heard of every other."""
        everyone = frozenset(self.brokers)

        def are_known(view: ClusterView) -> bool:
            return all(everyone <= broker.live for broker in view.brokers.values())

        await self.wait_until(are_known, ACQUAINTED_WITHIN_S)

    async def _release(self) -> None:
        for watch in self._watches.values():
            watch.cancel()
        await asyncio.gather(*self._watches.values(), return_exceptions=True)
        self._watches.clear()
        if self._metrics is not None:
            await self._metrics.stop()
            self._metrics = None
        if self._served is not None:
            await self._served.stop()
            self._served = None
        if self._store is not None:
            await self._store.close()
            self._store = None
        if self._directory is not None:
            await asyncio.to_thread(self._directory.release)


def raise_file_limit() -> int:
    """As many open files as the system lets us have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft  # a sandbox may forbid it; what is open at once is bounded anyway
    return hard


def _quiet(_line: str) -> None:
    pass


def _port_fault(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken; choose another with --port, or --port 0 for free ones"
    return f"cannot listen on {host}:{port}: {error.strerror}"


def _plain(error: BaseException) -> BaseException:
    """The one error that a group of failed starts is about, in words for the user."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.errno in _USERS_FAULT:
        about = f" ({error.filename})" if error.filename else ""
        return UsageError(f"cannot start: {error.strerror}{about}")
    return error


_USERS_FAULT = frozenset(
    {errno.EADDRINUSE, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
)
