"""One broker: the parts, how they come up and how they go down.

Up: a session with the store, the logs (recovering what a crash left), the listener, the
registration, and then the controller's first word: a broker that has not heard what the cluster
looks like has nothing to tell a client, so it is ready only then.

Down: the controller moves the leaderships elsewhere, everything that runs ends, the logs are closed
with a mark that says so. A killed broker does none of this; what it leaves behind is what a crash
would leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path
from typing import Final, TypeVar

from klamm.broker import registration
from klamm.broker.admin.auto_creation import AutoCreation
from klamm.broker.admin.dynamic_config import DynamicConfig
from klamm.broker.admin.policies import Policies
from klamm.broker.admin.topic_admin import Admin
from klamm.broker.clock import Clock, SystemClock
from klamm.broker.controller_channel import ControllerChannel, ControllerUnreachable
from klamm.broker.coordinators.groups import GroupCoordinator
from klamm.broker.coordinators.replicated import Coordinators
from klamm.broker.coordinators.transactions import TransactionCoordinator
from klamm.broker.fetching.fetch_sessions import FetchSessions
from klamm.broker.ledger.ledger_topic import LedgerTopic
from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.metrics import BrokerMetrics
from klamm.broker.net.connection_limits import ConnectionLimits
from klamm.broker.net.door import Door
from klamm.broker.net.framing import FrameMemory
from klamm.broker.net.listener import Listener
from klamm.broker.net.peers import Peers
from klamm.broker.net.proof import Secret
from klamm.broker.net.router import Router, bounds_of
from klamm.broker.producer_ids import ProducerIds
from klamm.broker.quotas.quotas import Client, Quotas
from klamm.broker.quotas.throttles import Throttles
from klamm.broker.replicas.fetcher import Fetchers
from klamm.broker.replicas.lost_records import leave_in_sync_sets
from klamm.broker.replicas.proposals import Proposals
from klamm.broker.replicas.replicas import ReplicaManager
from klamm.broker.storage.housekeeping import Housekeeping
from klamm.broker.storage.logs import Logs
from klamm.broker.storage.relocations import LogMoves
from klamm.broker.storage.strays import find_strays
from klamm.broker.tasks import Tasks
from klamm.broker.term.controlling import ControllerShell
from klamm.log.directory import LogDirectory
from klamm.log.partition import LogDirectoryFailed, StorageTrouble
from klamm.log.settings import LogSettings
from klamm.model import brokers
from klamm.model.brokers import Endpoint
from klamm.model.errors import ErrorCode, StoreUnavailable
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.settings import BrokerSettings, TopicSettings
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import controlled_shutdown
from klamm.replication.selection import SELECTORS, Selector
from klamm.store import layout
from klamm.store.port import Create, Session, SessionState, Store, Unwatch

log = logging.getLogger(__name__)

T = TypeVar("T")
Progress = Callable[[int, int], None]

_CONTROLLED_SHUTDOWN_VERSION: Final = 3
_TROUBLE_EVERY_MS: Final = 30_000
_RECONNECT_S: Final = 0.5
_FIRST_PAUSE_S: Final = 0.05
_WORKERS: Final = 8  # one a chore, so that a long compaction keeps nobody waiting


class Broker:
    """A broker of one cluster; several may live in one process, each on the same loop."""

    def __init__(
        self,
        id: BrokerId,
        *,
        store: Store,
        settings: BrokerSettings,
        data_dir: Path | str,
        host: str = "127.0.0.1",
        port: int = 0,
        rack: str | None = None,
        clock: Clock | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.id = id
        self.rack = rack or settings.str("broker.rack") or None
        self.data_dir = Path(data_dir)
        self._log_dirs = _directories(settings, self.data_dir)
        # Several brokers share what the user gave; these are each one's own.
        own = {
            "broker.id": str(id),
            "node.id": str(id),
            "log.dirs": ",".join(self._log_dirs),
            "broker.rack": self.rack,
        }
        settings = settings.with_static({k: text for k, text in own.items() if text is not None})
        self.clock: Clock = clock or SystemClock()
        self.cluster_id = ""
        self.secret: Secret
        self.epoch = -1  # of the registration; -1 before the first
        self.session: Session
        self.endpoint: Endpoint
        self.logs: Logs
        self.metadata = MetadataCache()
        self.metrics = BrokerMetrics(is_timing=settings.int("klamm.metrics.port") >= 0)
        self.peers = Peers(self)
        self.channel = ControllerChannel(self.metadata, self.peers, lambda: f"broker-{self.id}")
        self.proposals = Proposals(self, self.channel)
        self.producer_ids = ProducerIds(self.channel, id, lambda: self.epoch)
        self.fetchers: Fetchers
        self.sessions = FetchSessions(self)
        self.replicas = ReplicaManager(self)
        self.moves = LogMoves(self)
        self.housekeeping = Housekeeping(self)
        self.controller = ControllerShell(self)
        self.policies = Policies.of(settings)
        self.quotas = Quotas(self.clock.elapsed_ms)
        self.throttles = Throttles(id, self.clock.elapsed_ms)
        self.throttles.take_rate(settings)
        self.dynamic_config = DynamicConfig(self, settings)
        self.admin = Admin(self, self.policies)
        self.auto_creation = AutoCreation(self)
        self.ledger_topic = LedgerTopic(
            self, self.controller.ledger, self.data_dir, self.auto_creation.create_internal_topic
        )
        self.workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix=f"klamm-{id}-worker")
        self.on_partitions_removed: list[Callable[[frozenset[TopicPartition]], None]] = []
        self.stopped = asyncio.Event()
        self._settings = settings
        self.coordinators = Coordinators(self)
        self._store = store
        self._host = host
        self._port = port
        self._progress = progress
        self.bounds = bounds_of(settings)
        self.listener = Listener(
            Router(self).route,
            frame_size_max=self.bounds,
            memory=FrameMemory(settings.int("klamm.request.memory.max.bytes")),
            idle_ms_max=settings.int("connections.max.idle.ms"),
            limits=ConnectionLimits(self.quotas, lambda: self.settings),
            is_admitted=Door(settings).admits,
        )
        self._own_sessions: frozenset[int] = frozenset()
        self._unwatch_session: Unwatch | None = None
        self._tasks = Tasks()
        self._is_up = False
        self.topics_at_start: frozenset[str] = frozenset()  # that were there before this broker
        self._failed_paths: set[str] = set()
        self._troubles = 0  # since they were last told of
        self._trouble_told_ms: int | None = None

    # What others ask

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force now."""
        return self._settings

    @property
    def is_controller(self) -> bool:
        return self.controller.is_active

    @property
    def controller_epoch(self) -> int:
        """The highest epoch of a controller that has ordered anything here."""
        return self.replicas.controller_epoch

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions

    def now_ms(self) -> int:
        return self.clock.now_ms()

    @property
    def lag_ms_max(self) -> int:
        return self.settings.int("replica.lag.time.max.ms")

    @property
    def fetch_bytes_max(self) -> int:
        return self.settings.int("fetch.max.bytes")

    @property
    def replica_selector(self) -> Selector | None:
        return SELECTORS.get(self.settings.str("replica.selector.class"))

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Run blocking work on one of the broker's threads."""
        return await asyncio.get_running_loop().run_in_executor(self.workers, work)

    async def topic_settings(self, topics: Iterable[str]) -> Mapping[str, TopicSettings]:
        """The settings of topics whose logs are about to be made here."""
        names = list(topics)
        await self.dynamic_config.learn(names)
        return {name: self.dynamic_config.topic(name) for name in names}

    async def auto_create(self, topics: Iterable[str], client: Client) -> Mapping[str, ErrorCode]:
        """Create topics that somebody asked for; what to say of each."""
        return await self.auto_creation.create(topics, client)

    # Up

    async def start(self, gate: Callable[[], Awaitable[object]] | None = None) -> None:
        """Come up; returns when clients can be served.

        Brokers that start together share a gate between registering and electing a controller, so
        that the first controller meets them all and none of their leaderships moves.
        """
        try:
            await self._come_up(gate)
        except BaseException:
            await self.kill()
            raise

    async def _come_up(self, gate: Callable[[], Awaitable[object]] | None) -> None:
        self.session = await self._store.connect()
        self.cluster_id = await registration.prepare(self.session)
        self.secret = await registration.cluster_secret(self.session)
        await self.dynamic_config.load()
        self.logs = await self._open_logs()
        await self._set_strays_aside()
        missed = [p for directory in self.logs.directories for p in directory.missing]
        await leave_in_sync_sets(self.session, self.id, missed)
        self.fetchers = Fetchers(self)
        self._tell_of_damage()
        self.endpoint = await self.listener.start(self._host, self._port)
        await self._register()
        self.dynamic_config.follow()
        self._is_up = True
        self._tasks.start(self.proposals.run(), f"broker-{self.id}-proposals")
        self._tasks.start(self.housekeeping.run(), f"broker-{self.id}-housekeeping")
        self._tasks.start(self.moves.run(), f"broker-{self.id}-moves")
        self._tasks.start(self.coordinators.run(), f"broker-{self.id}-coordinators")
        self._tasks.start(self.ledger_topic.run(), f"broker-{self.id}-ledger-topic")
        if gate is not None:
            await gate()
        await self.controller.start()
        await self.metadata.wait_for(lambda snapshot: self.id in snapshot.brokers)

    async def _open_logs(self) -> Logs:
        loop = asyncio.get_running_loop()
        settings_for = await self._loaded_settings()

        def offline(directory: LogDirectory) -> None:
            # Told by whichever thread noticed.
            if directory.failure is not None:
                loop.call_soon_threadsafe(self.directory_failed, directory.failure)

        def opened() -> Logs:
            return Logs.open(
                self._log_dirs,
                self.id,
                self.cluster_id,
                settings_for=settings_for,
                delete_delay_ms=self.settings.int("log.segment.delete.delay.ms"),
                now_ms=self.clock.now_ms(),
                progress=self._progress,
                on_offline=offline,
            )

        return await self.in_worker(opened)

    def _tell_of_damage(self) -> None:
        """What a crash or a bad disk did to the logs; replicas elsewhere may make up for it."""
        for directory in self.logs.directories:
            if directory.failure is not None:
                self.directory_failed(directory.failure)
            for path in directory.foreign:
                log.warning("this is no log, and is left alone", extra={"path": path})
            for partition, end in directory.missing.items():
                if self.logs.get(partition) is None:
                    log.error("a log is gone", extra={"partition": str(partition), "end": end})
        for local in self.logs:
            if local.damage is not None:
                log.log(
                    logging.ERROR if local.damage.missing else logging.WARNING,
                    "a log was cut at rest" if local.damage.at_rest else "recovery cut a log",
                    extra={"partition": str(local.topic_partition), **local.damage._asdict()},
                )

    async def _set_strays_aside(self) -> None:
        for directory in self.logs.directories:
            for gone in [p for p in directory.missing if p.topic not in self.topics_at_start]:
                directory.made_up_for(gone)
        found = await find_strays(self.session, self.id, self.logs)
        for partition in found:
            log.warning("a log of no topic is set aside", extra={"partition": str(partition)})
        await self.in_worker(lambda: self.logs.set_aside(found))

    async def _loaded_settings(self) -> Callable[[str], LogSettings]:
        """The settings of the topics in the store, for logs that are already here."""
        names = await self.session.children(layout.TOPICS) or ()
        self.topics_at_start = frozenset(names)
        known = await self.topic_settings(names)
        default = LogSettings.of(self.settings.for_topic({}))
        by_name = {name: LogSettings.of(topic) for name, topic in known.items() if topic.overrides}
        return lambda topic: by_name.get(topic, default)

    async def _register(self) -> None:
        me = brokers.Broker(
            id=self.id, epoch=-1, endpoints=(self.endpoint,), rack=self.rack, can_prove=True
        )
        self.epoch = await registration.register(
            self.session,
            me,
            timestamp_ms=self.clock.now_ms(),
            own_sessions=self._own_sessions,
            patience_s=self._registration_patience_s,
        )
        self._unwatch_session = self.session.watch_state(self._session_changed)
        log.info("registered", extra={"broker": self.id, "epoch": self.epoch})

    @property
    def _registration_patience_s(self) -> float:
        """An embedded store knows who died; ZooKeeper believes in them a session's time longer."""
        on_zookeeper = bool(self.settings.str("zookeeper.connect"))
        return 1.5 * self.settings.int("zookeeper.session.timeout.ms") / 1000 * on_zookeeper

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED and self._is_up:
            self._tasks.start(self._register_again(), f"broker-{self.id}-registration")

    async def _register_again(self) -> None:
        """The session is gone, and the registration with it: come back as a new broker."""
        self._own_sessions |= {self.session.id}
        # Before anything is asked of a store that may be away: the role went with the session.
        await self.controller.stop(resign=False)
        while self._is_up:
            try:
                self.session = await self._store.connect()
                await self._register()
                await self.dynamic_config.load()
                self.dynamic_config.follow()
                await self.controller.start()
            except StoreUnavailable as fault:
                log.warning("cannot register", extra={"why": str(fault)})
                await asyncio.sleep(_RECONNECT_S)
            else:
                return

    # Down

    async def stop(self, *, hand_over: bool = True) -> None:
        """Go down in order, with nothing left to recover.

        Where the whole cluster goes down there is nobody to hand leaderships over to.
        """
        if not self._is_up:
            return
        if hand_over:
            await self._hand_over()
        self._is_up = False
        self.replicas.is_stopping = True
        await self.controller.stop(resign=hand_over)
        await self._end_all(self.listener.stop)
        await self.in_worker(lambda: self.logs.close(clean=True, broker_epoch=self.epoch))
        await self.session.close()
        self.workers.shutdown()
        self.stopped.set()

    async def kill(self) -> None:
        """Go down as a crash would: nothing is flushed, nobody is told."""
        self._is_up = False
        await self.controller.stop(resign=False)
        await self._end_all(self.listener.kill)
        if hasattr(self, "logs"):
            self.logs.close(clean=False)
        if hasattr(self, "session"):
            await self.session.close()
        self.workers.shutdown(wait=False)
        self.stopped.set()

    async def _end_all(self, end_listening: Callable[[], Awaitable[None]]) -> None:
        if self._unwatch_session is not None:
            self._unwatch_session()
        if hasattr(self, "fetchers"):
            await self.fetchers.stop()
        self.replicas.abandon()
        await end_listening()
        await self.auto_creation.close()
        await self.dynamic_config.stop()
        await self._tasks.cancel()
        await self.channel.close()
        self.sessions.close()

    async def _hand_over(self) -> None:
        """Ask the controller to move this broker's leaderships, as far as others can take them.

        As patient as Kafka's settings say, but asking again sooner: most of what is in the way
        is gone within milliseconds.
        """
        settings = self.settings
        if not settings.bool("controlled.shutdown.enable"):
            return
        pause_s = settings.int("controlled.shutdown.retry.backoff.ms") / 1000
        patience_s = pause_s * settings.int("controlled.shutdown.max.retries")
        deadline = self.clock.elapsed_ms() + patience_s * 1000
        next_pause_s = min(_FIRST_PAUSE_S, pause_s)
        while self.metadata.snapshot.brokers.keys() - {self.id}:
            if await self._is_relieved() or self.clock.elapsed_ms() > deadline:
                return
            await asyncio.sleep(next_pause_s)
            next_pause_s = min(2 * next_pause_s, pause_s)

    async def _is_relieved(self) -> bool:
        request = controlled_shutdown.Request(self.id, self.epoch)
        version = _CONTROLLED_SHUTDOWN_VERSION
        try:
            answer = await self.channel.request(ApiKey.CONTROLLED_SHUTDOWN, version, request)
        except ControllerUnreachable as fault:
            log.info("controlled shutdown found no controller", extra={"why": str(fault)})
            return False
        left = [TopicPartition(*astuple(p)) for p in answer.remaining_partitions]
        log.info("controlled shutdown", extra={"code": answer.error_code, "remaining": len(left)})
        return not answer.error_code and not any(map(self._may_be_taken_over, left))

    def _may_be_taken_over(self, partition: TopicPartition) -> bool:
        """Whether another replica is there, which may be in sync in a moment."""
        snapshot = self.metadata.snapshot
        found = snapshot.partition(partition)
        others = snapshot.brokers.keys() - {self.id}
        return found is not None and not others.isdisjoint(found.replicas)

    # What happens

    def metadata_changed(self, removed: frozenset[TopicPartition]) -> None:
        """The controller has told something new of the cluster."""
        self.sessions.keep_only(self.metadata.snapshot.brokers.keys())
        self.ledger_topic.metadata_changed()
        if removed:
            gone = {partition.topic for partition in removed} - self.metadata.snapshot.topics.keys()
            self.auto_creation.topics_removed(gone)
            for topic in gone:
                self.dynamic_config.forget(topic)
            for hook in self.on_partitions_removed:
                hook(removed)

    def topic_settings_changed(self, topic: str, settings: TopicSettings) -> None:
        """A topic's own settings were altered."""
        self.replicas.reconfigure(topic, settings)
        self.throttles.take_topic(topic, settings)
        self.controller.topic_settings_changed(topic, settings.overrides)

    def broker_settings_changed(self, settings: BrokerSettings) -> None:
        """This broker's settings were altered, and with them the defaults of all topics."""
        self._settings = settings
        self.throttles.take_rate(settings)
        self.replicas.reconfigure_all(self.dynamic_config.topic)
        if hasattr(self, "logs"):
            for directory in self.logs.directories:
                directory.delete_delay_ms = settings.int("log.segment.delete.delay.ms")
        self.listener.let_in()
        self.housekeeping.settings_changed()
        self.controller.broker_settings_changed()
        self.ledger_topic.wake()

    def storage_trouble(self, trouble: StorageTrouble) -> None:
        """A log could not do what it should; what that means depends on whose fault it is."""
        if isinstance(trouble, LogDirectoryFailed):
            self.directory_failed(trouble)
            return
        # Thousands of requests may meet the same shortage: one of them speaks for a while.
        now_ms = self.clock.elapsed_ms()
        self._troubles += 1
        if self._trouble_told_ms is None or now_ms - self._trouble_told_ms >= _TROUBLE_EVERY_MS:
            log.error("storage trouble", extra={"why": str(trouble), "times": self._troubles})
            self._trouble_told_ms, self._troubles = now_ms, 0

    def directory_failed(self, failure: LogDirectoryFailed) -> None:
        """A disk cannot be trusted any more: what is on it is offline until a restart."""
        if failure.path in self._failed_paths:
            return  # several who met the failure tell of it
        self._failed_paths.add(failure.path)
        log.critical("a log directory failed", extra={"path": failure.path}, exc_info=failure)
        if hasattr(self, "fetchers"):
            self.replicas.fail_directory(failure.path)
            self.moves.directory_failed(failure.path)
        if not self._is_up:
            return
        if not self.logs.online:
            log.critical("no log directory is left: this broker stops", extra={"broker": self.id})
            self._tasks.start(self.kill(), f"broker-{self.id}-end")
        else:
            self._tasks.start(self._tell_of_failure(), f"broker-{self.id}-log-dir-event")

    async def _tell_of_failure(self) -> None:
        event = Create(
            layout.LOG_DIR_EVENT_PREFIX, layout.encode_log_dir_event(self.id), sequential=True
        )
        try:
            await self.session.multi([event])
        except StoreUnavailable as fault:
            log.error("the controller does not hear of a failed disk", extra={"why": str(fault)})


def _directories(settings: BrokerSettings, data_dir: Path) -> list[str]:
    """Where the logs are: `log.dirs` when it is set, else the broker's own directory."""
    named = settings.static.get("log.dirs") or settings.static.get("log.dir")
    if not named:
        return [str(data_dir)]
    return [str(data_dir / part.strip()) for part in named.split(",")]
