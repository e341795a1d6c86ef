"""`Cluster`: a real cluster inside a Python program or a test.

It runs on a loop of its own in a thread of its own, so that neither a blocking client nor a busy
loop of the caller can starve it. `with` gives a `Cluster`, whose methods block; `async with` gives
an `AsyncCluster`, whose methods are awaited. Nothing is shared between clusters: ports are free
ones and data is temporary unless said otherwise, so any number live side by side.

With `processes=True` each broker is a process of its own, and `kill_broker` is a kill -9.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from klamm import view
from klamm.app.one_process import ClusterApp
from klamm.app.plan import Plan
from klamm.app.processes import ProcessCluster
from klamm.broker.metadata_cache import PartitionInfo
from klamm.model.errors import UsageError
from klamm.model.settings import BrokerSettings
from klamm.secured.secured import Secured
from klamm.secured.wishes import ADMIN, Security, security_of
from klamm.secured.words import bindings_of
from klamm.view import ClusterView, Predicate

T = TypeVar("T")
TIMEOUT = 30.0


class _Facts:
    """The facts that both kinds of cluster know without waiting."""

    _app: ClusterApp | ProcessCluster

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,...` of all brokers on their first listener, for a client's configuration."""
        return self._app.bootstrap_servers

    def bootstrap_on(self, listener: str) -> str:
        """The same on one of several listeners, such as `SASL_SSL`."""
        return self._app.bootstrap_on(listener)

    @property
    def metrics_url(self) -> str:
        """The address of the Prometheus metrics; '' without `klamm_metrics_port`."""
        return self._app.metrics_url

    @property
    def data(self) -> Path:
        """The data directory; broker i keeps its logs in `broker-i`."""
        return self._app.data

    @property
    def clients(self) -> Path:
        """The directory with the files of a secured cluster's clients; see `klamm up --secure`."""
        return self._secured.clients

    def client_config(
        self,
        user: str = ADMIN,
        client: str = "confluent-kafka",
        *,
        listener: str | None = None,
        mechanism: str | None = None,
        password: str | None = None,
        wrong: str = "",
    ) -> dict[str, Any]:
        """The settings with which a client gets into a secured cluster as this user.

        `client` is confluent-kafka, kafka-python, aiokafka (keywords for their constructors) or
        java (properties). Without `listener` and `mechanism` it is the first of either. `wrong`
        breaks one thing: "password", "expired" (certificate or token), "stranger" (a certificate
        of somebody else's authority), "authority" (the client trusts nobody here).
        """
        return self._secured.client_config(
            user, client, listener=listener, mechanism=mechanism, password=password, wrong=wrong
        )

    def token(self, user: str, *, expires_in_s: float = 3600) -> str:
        """A token for OAUTHBEARER; one whose time is below zero has expired."""
        return self._secured.token(user, life=timedelta(seconds=expires_in_s))[0]

    @property
    def _secured(self) -> Secured:
        if self._app.secured is None:
            raise UsageError("this cluster is open to everybody, or not started: use security=True")
        return self._app.secured

    @property
    def controller_id(self) -> int | None:
        """The active controller, None while there is none."""
        if isinstance(self._app, ClusterApp):
            return self._app.controller_id
        found = self.view.controller_id
        return None if found < 0 else found

    @property
    def running(self) -> list[int]:
        """The ids of the brokers that run."""
        return sorted(self._app.brokers)

    @property
    def settings(self) -> BrokerSettings:
        """The settings the brokers were started with."""
        return self._app.settings

    @property
    def view(self) -> ClusterView:
        """The metadata that each running broker has right now."""
        if isinstance(self._app, ClusterApp):
            return self._app.view()
        return self._looked()

    def _looked(self) -> ClusterView:
        """The same, asked of other processes."""
        raise NotImplementedError

    def partition(self, topic: str, partition: int = 0) -> PartitionInfo | None:
        """One partition as the controller's broker sees it; None where it sees none."""
        return self.view.partition(topic, partition)


class Cluster(_Facts):
    """A cluster of real brokers whose methods block; see the module for what it promises."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        data: Path | str | None = None,
        racks: Sequence[str] = (),
        zookeeper: str | None = None,
        processes: bool = False,
        security: Security | Mapping[str, object] | str | bool | None = None,
        **more: object,
    ) -> None:
        """Further keywords are settings: `log_retention_ms=1` is `log.retention.ms=1`.

        `security` locks the cluster: True, the name of a listener such as "MTLS", or a
        `klamm.Security` (or its fields as a mapping).
        """
        dotted = {name.replace("_", "."): value for name, value in more.items()}
        plan = Plan(
            brokers=brokers,
            port=port,
            data=None if data is None else Path(data),
            settings={k: _text(v) for k, v in {**(settings or {}), **dotted}.items()},
            racks=tuple(racks),
            zookeeper=zookeeper,
            security=security_of(security),
        )
        # A fault in what was asked shows here, where the caller's line is, and not in a thread.
        self._app = ProcessCluster(plan) if processes else ClusterApp(plan)
        self._host: _Host | None = None

    def start(self) -> Self:
        """Run the cluster; returns when every broker serves."""
        host = self._host = _Host()
        try:
            host.submit(self._app.start()).result()
        except BaseException:
            self._close()
            raise
        return self

    def stop(self) -> None:
        """End the cluster: quickly where its data is temporary, in a controlled way elsewhere."""
        if self._host is None:
            return
        try:
            self._run(self._app.stop() if self._app.plan.data else self._app.kill())
        finally:
            self._close()

    def kill(self) -> None:
        """Let the whole cluster crash, and leave its data as it is."""
        try:
            self._run(self._app.kill())
        finally:
            self._close()

    def stop_broker(self, broker: int) -> None:
        """Controlled shutdown of one broker."""
        self._run(self._app.stop_broker(broker))

    def start_broker(self, broker: int) -> None:
        """Bring a stopped or killed broker back, with its port and data."""
        self._run(self._app.start_broker(broker))

    def kill_broker(self, broker: int) -> None:
        """Let one broker crash."""
        self._run(self._app.kill_broker(broker))

    def restart_broker(self, broker: int) -> None:
        """Controlled shutdown and start of one broker."""
        self.stop_broker(broker)
        self.start_broker(broker)

    def pause_broker(self, broker: int) -> None:
        """Have the system stop one broker's process (SIGSTOP); needs `processes=True`."""
        self._run(self._do(self._processes.pause_broker, broker))

    def resume_broker(self, broker: int) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._run(self._do(self._processes.resume_broker, broker))

    def pid(self, broker: int) -> int | None:
        """The process of one broker, None while it does not run; needs `processes=True`."""
        return self._processes.pid(broker)

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
        *,
        timeout_s: float = TIMEOUT,
    ) -> None:
        """Create a topic and wait until every broker knows its leaders; -1: by the settings."""
        texts = {k: _text(v) for k, v in (configs or {}).items()}
        self._run(self._app.create_topic(name, partitions, replication_factor, texts))
        self.wait_for_topic(
            name, partitions=partitions if partitions > 0 else None, timeout_s=timeout_s
        )

    def allow(
        self,
        principal: str,
        operations: str,
        *resources: str,
        deny: bool = False,
        prefixed: bool = False,
        host: str = "*",
    ) -> None:
        """Let somebody do something, in the words of `klamm acls add`; with `deny` forbid it.

        `cluster.allow("alice", "consume", "topic:orders", "group:billing")`
        """
        made = bindings_of(
            principal, operations, resources, deny=deny, prefixed=prefixed, host=host
        )
        self._run(self._app.allow(made))

    def wait_until(self, predicate: Predicate, timeout_s: float = TIMEOUT) -> ClusterView:
        """Wait until the brokers' views fulfil `predicate`, which is asked at every change."""
        return self._run(self._app.wait_until(predicate, timeout_s))

    def wait_for_topic(
        self, topic: str, *, partitions: int | None = None, timeout_s: float = TIMEOUT
    ) -> None:
        """Wait until every broker knows the topic and each of its partitions has a leader."""
        self.wait_until(view.topic_is_led(topic, partitions), timeout_s)

    def wait_for_no_topic(self, topic: str, *, timeout_s: float = TIMEOUT) -> None:
        """Wait until no broker knows the topic any more."""
        self.wait_until(view.topic_is_gone(topic), timeout_s)

    def wait_for_isr(
        self,
        topic: str,
        partition: int | None = None,
        *,
        size: int | None = None,
        timeout_s: float = TIMEOUT,
    ) -> None:
        """Wait until a partition, or each one, has `size` (default: all) replicas in sync."""
        self.wait_until(view.isr_has(topic, partition, size), timeout_s)

    def wait_for_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        other_than: int | None = None,
        timeout_s: float = TIMEOUT,
    ) -> int:
        """Wait until all brokers agree on a leader, and say which."""
        self.wait_until(view.leader_is_agreed(topic, partition, other_than), timeout_s)
        found = self.partition(topic, partition)
        return -1 if found is None else found.leader

    def wait_for_controller(
        self, *, other_than: int | None = None, timeout_s: float = TIMEOUT
    ) -> int:
        """Wait until all brokers agree on a controller, and say which."""
        return self.wait_until(view.controller_is_agreed(other_than), timeout_s).controller_id

    def store_paths(self) -> list[str]:
        """Every path in the metadata store, for tests that want to see nothing left."""
        return self._run(self._app.store_paths())

    @property
    def _processes(self) -> ProcessCluster:
        if isinstance(self._app, ProcessCluster):
            return self._app
        raise UsageError("these brokers share one process: ask for Cluster(processes=True)")

    async def _do(self, call: Callable[[int], None], broker: int) -> None:
        call(broker)

    def _looked(self) -> ClusterView:
        return self._run(self._app.look())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._host is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a with block, or start() it")
        return self._host.submit(work).result()

    def _close(self) -> None:
        if self._host is not None:
            self._host.close()
            self._host = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> AsyncCluster:
        await asyncio.to_thread(self.start)
        return AsyncCluster(self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)


class AsyncCluster(_Facts):
    """A running cluster whose methods are awaited: each is the `Cluster` method of its name."""

    def __init__(self, cluster: Cluster) -> None:
        self._app = cluster._app
        self._cluster = cluster

    def _looked(self) -> ClusterView:
        return self._cluster.view

    async def stop_broker(self, broker: int) -> None:
        await asyncio.to_thread(self._cluster.stop_broker, broker)

    async def start_broker(self, broker: int) -> None:
        await asyncio.to_thread(self._cluster.start_broker, broker)

    async def kill_broker(self, broker: int) -> None:
        await asyncio.to_thread(self._cluster.kill_broker, broker)

    async def restart_broker(self, broker: int) -> None:
        await asyncio.to_thread(self._cluster.restart_broker, broker)

    async def pause_broker(self, broker: int) -> None:
        await asyncio.to_thread(self._cluster.pause_broker, broker)

    async def resume_broker(self, broker: int) -> None:
        await asyncio.to_thread(self._cluster.resume_broker, broker)

    def pid(self, broker: int) -> int | None:
        return self._cluster.pid(broker)

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
        *,
        timeout_s: float = TIMEOUT,
    ) -> None:
        await asyncio.to_thread(
            self._cluster.create_topic,
            name,
            partitions,
            replication_factor,
            configs,
            timeout_s=timeout_s,
        )

    async def allow(
        self,
        principal: str,
        operations: str,
        *resources: str,
        deny: bool = False,
        prefixed: bool = False,
        host: str = "*",
    ) -> None:
        await asyncio.to_thread(
            self._cluster.allow,
            principal,
            operations,
            *resources,
            deny=deny,
            prefixed=prefixed,
            host=host,
        )

    async def wait_until(self, predicate: Predicate, timeout_s: float = TIMEOUT) -> ClusterView:
        return await asyncio.to_thread(self._cluster.wait_until, predicate, timeout_s)

    async def wait_for_topic(
        self, topic: str, *, partitions: int | None = None, timeout_s: float = TIMEOUT
    ) -> None:
        await self.wait_until(view.topic_is_led(topic, partitions), timeout_s)

    async def wait_for_no_topic(self, topic: str, *, timeout_s: float = TIMEOUT) -> None:
        await self.wait_until(view.topic_is_gone(topic), timeout_s)

    async def wait_for_isr(
        self,
        topic: str,
        partition: int | None = None,
        *,
        size: int | None = None,
        timeout_s: float = TIMEOUT,
    ) -> None:
        await self.wait_until(view.isr_has(topic, partition, size), timeout_s)

    async def wait_for_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        other_than: int | None = None,
        timeout_s: float = TIMEOUT,
    ) -> int:
        await self.wait_until(view.leader_is_agreed(topic, partition, other_than), timeout_s)
        found = self.partition(topic, partition)
        return -1 if found is None else found.leader

    async def wait_for_controller(
        self, *, other_than: int | None = None, timeout_s: float = TIMEOUT
    ) -> int:
        agreed = await self.wait_until(view.controller_is_agreed(other_than), timeout_s)
        return agreed.controller_id


class _Host:
    """A thread with a loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="klamm-cluster", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End the loop and its thread; what ran on it has been stopped before."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


def _text(value: object) -> str:
    """A setting as Kafka writes it: true and false in small letters, lists with commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
