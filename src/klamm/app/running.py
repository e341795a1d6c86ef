"""A running cluster whose brokers this process looks after, wherever they run.

`ClusterApp` (brokers on this loop) and `ProcessCluster` (a process a broker) have in common the
store and the data directory, the addresses, who is asked what, and how one waits for a change.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from klamm.app import asking
from klamm.app.faults import check_ports, raise_file_limit, warn_of_openness
from klamm.app.locking import lock, with_locks
from klamm.app.plan import Plan
from klamm.app.stores import OpenStore, open_store
from klamm.client.aio import acls
from klamm.datadir import DataDirectory
from klamm.model.brokers import Endpoint
from klamm.model.errors import KlammError, UsageError
from klamm.secured.secured import Secured
from klamm.security.authorization.acls import Binding
from klamm.store.port import Store
from klamm.view import ClusterView, Predicate

Progress = Callable[[str], None]
Gate = Callable[[], Awaitable[object]]
ACQUAINTED_WITHIN_S: Final = 60.0


class _Reachable(Protocol):
    @property
    def endpoint(self) -> Endpoint: ...


B = TypeVar("B", bound=_Reachable)


class RunningCluster(ABC, Generic[B]):
    """The parts of one cluster, all owned by the loop that called `start`."""

    def __init__(self, plan: Plan, progress: Progress | None = None) -> None:
        self.plan = self._asked = plan
        self.settings = plan.checked_settings()
        self.secured: Secured | None = None  # of a locked cluster, once it was started
        self.brokers: dict[int, B] = {}  # those that run
        self._progress = progress or _quiet
        self._ports: dict[int, dict[str, int]] = {}  # kept over a restart, for clients, by listener
        self._endpoints: dict[int, tuple[Endpoint, ...]] = {}
        self._directory: DataDirectory | None = None
        self._opened: OpenStore | None = None
        self._membership = asyncio.Event()  # set and cleared at once: wakes those who wait
        self._all_failed = asyncio.Event()

    @property
    def store(self) -> Store:
        assert self._opened is not None, "the cluster has not been started"
        return self._opened.store

    @property
    def data(self) -> Path:
        assert self._directory is not None, "the cluster has not been started"
        return self._directory.path

    @property
    def bootstrap_servers(self) -> str:
        """Every broker's address on the first listener, also of those that are down for now."""
        return self.bootstrap_on(None)

    def bootstrap_on(self, listener: str | None) -> str:
        """Every broker's address on this listener; None: on the first that is advertised."""
        return asking.bootstrap(self._endpoints, listener)

    def address(self, at: int) -> str:
        """`host:port` of one broker on its first listener, also while it is down."""
        return asking.bootstrap({at: self._endpoints[at]}, None)

    @property
    def zookeeper_address(self) -> str:
        """The address of the served store, or of the cluster's own ZooKeeper; '' for neither."""
        return self._opened.address if self._opened else ""

    @property
    def ids(self) -> range:
        """The numbers of all brokers, whether they run or not."""
        return range(self.plan.brokers)

    async def stop(self) -> None:
        """Controlled: every log is flushed and marked clean."""
        self._progress("stopping")
        await self.stop_brokers()
        await self._release()

    @abstractmethod
    async def stop_brokers(self) -> None:
        """Stop all brokers, after which leaders and in-sync sets are what they were."""

    async def start_brokers(self) -> None:
        """Start all brokers that do not run."""
        missing = [at for at in self.ids if at not in self.brokers]
        together = asyncio.Barrier(len(missing)) if missing and not self.brokers else None
        async with asyncio.TaskGroup() as starting:
            for at in missing:
                starting.create_task(self._start(at, together.wait if together else at_once))
        await self._wait_for_all()

    async def failed(self) -> str:
        """Wait until the last broker has stopped by itself, and say so."""
        await self._all_failed.wait()
        return self._failure()

    @abstractmethod
    async def look(self) -> ClusterView:
        """The metadata that each running broker has right now."""

    async def wait_until(self, predicate: Predicate, timeout_s: float) -> ClusterView:
        """Ask `predicate` now and at every change of a broker's metadata until it says yes."""
        try:
            async with asyncio.timeout(timeout_s):
                while not predicate(view := await self.look()):
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
        if self._all_failed.is_set():
            raise KlammError(self._failure())
        async with asking.client(self._places, self.settings) as client:
            await asking.create_topic(client, name, partitions, replication_factor, configs)

    async def allow(self, bindings: Iterable[Binding]) -> None:
        """Add access control lists, as an operator would."""
        async with asking.client(self._places, self.settings) as client:
            await acls.create(client, bindings)

    async def store_paths(self) -> list[str]:
        """Every path in the store, parents first."""
        return await asking.store_paths(self.store)

    @property
    def _places(self) -> list[tuple[str, int]]:
        return [(broker.endpoint.host, broker.endpoint.port) for broker in self.brokers.values()]

    async def _prepare(self) -> None:
        """Claim the data directory; check what can be checked before anything else is touched."""
        raise_file_limit()
        check_ports(place for at in self.ids for place in self.plan.places(at))
        if self._asked.security is None:
            warn_of_openness(self.plan.places(0), self.settings)
        self._directory = DataDirectory.claim(self.plan.data)

    async def _lock(self) -> None:
        """Make the locks of a cluster that is to be secured."""
        self.plan, self.secured = await lock(self._asked, self.data)
        self.settings = with_locks(self.settings, self._asked, self.plan)

    async def _open_store(self) -> None:
        """Open the store, and put the users of a secured cluster into it."""
        assert self._directory is not None, "the cluster has no data directory yet"
        self._opened = await open_store(self.plan, self.settings, self._directory, self._progress)
        self.settings = self._opened.settings
        if self.secured is not None:
            await self.secured.seed(self.store)

    @abstractmethod
    async def _start(self, at: int, gate: Gate) -> None:
        """Start one broker; it takes part in elections once the gate is open."""

    @abstractmethod
    async def _wait_for_all(self) -> None:
        """Until each running broker has heard of every other."""

    @abstractmethod
    async def _change_since(self, view: ClusterView) -> None:
        """Until some broker has newer metadata than in this view, or brokers have come or gone."""

    @abstractmethod
    def _failure(self) -> str:
        """The sentence for a cluster whose last broker has stopped by itself."""

    @abstractmethod
    async def _release(self) -> None:
        """Let go of everything; `_release_store` is the end of it."""

    async def _release_store(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None
        if self._directory is not None:
            await asyncio.to_thread(self._directory.release)

    def _wake(self) -> None:
        self._membership.set()
        self._membership.clear()

    def _check_id(self, at: int) -> None:
        if not 0 <= at < self.plan.brokers:
            raise UsageError(f"there is no broker {at} in a cluster of {self.plan.brokers}")


async def at_once() -> None:
    """The gate of a broker that starts alone."""


def _quiet(_line: str) -> None:
    pass
