"""One broker: how it comes up and how it goes down.

Up: a session with the store, the logs (recovering what a crash left), the parts (`building.py`),
the listener, the registration, and then the introduction by the controller: a broker that has not
heard what the cluster looks like has nothing to tell a client, so it is ready only then.

Down: the controller moves the leaderships elsewhere, everything that runs ends, the logs are closed
with a mark that says so. A killed broker does none of this; what it leaves behind is what a crash
would leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from klamm.broker import registration
from klamm.broker.access.access import Access
from klamm.broker.admin.policies import Policies
from klamm.broker.building import build, lay_ground
from klamm.broker.clock import Clock, SystemClock
from klamm.broker.damage import tell_of_damage
from klamm.broker.ground import Ground
from klamm.broker.handing_over import HandOver, OnLeft
from klamm.broker.identity.token_follower import TokenFollower
from klamm.broker.introduction import introduce
from klamm.broker.listening import Listening
from klamm.broker.net.framing import FrameMemory
from klamm.broker.net.listeners import Listeners
from klamm.broker.parts import Parts
from klamm.broker.producing.shortcut import ProduceShortcut
from klamm.broker.replicas.lost_records import leave_in_sync_sets
from klamm.broker.router import Router, refusal
from klamm.broker.seat import Seat
from klamm.broker.storage.housekeeping import Housekeeping
from klamm.broker.storage.logs import Logs
from klamm.broker.storage.strays import find_strays
from klamm.broker.tasks import Tasks
from klamm.broker.workers import Workers
from klamm.log.directory import LogDirectory
from klamm.log.disk.failure import LogDirectoryFailed
from klamm.log.settings import LogSettings
from klamm.model import brokers
from klamm.model.brokers import Endpoint
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.store import layout
from klamm.store.port import Create, SessionState, Store, Unwatch

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]

_RECONNECT_S: Final = 0.5
# Longer than a session of ZooKeeper outlives a controller that died.
_INTRODUCED_MS_MAX: Final = 30_000
_STARTS_MAX: Final = 5


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
        advertise: str | None = None,
        rack: str | None = None,
        clock: Clock | None = None,
        progress: Progress | None = None,
        frame_memory: FrameMemory | None = None,  # shared by the brokers of a process
        on_hand_over: OnLeft | None = None,
    ) -> None:
        """It listens where the settings say (`listeners`), else at `host` and `port`.

        Clients of the latter are sent to `advertise`, or to an address of this machine.
        """
        self.id = id
        self.stopped = asyncio.Event()
        self._rack = rack or settings.str("broker.rack") or None
        self._data_dir = Path(data_dir)
        self._log_dirs = _directories(settings, self._data_dir)
        # Several brokers share what the user gave; these are each one's own.
        own = {
            "broker.id": str(id),
            "node.id": str(id),
            "log.dirs": ",".join(self._log_dirs),
            "broker.rack": self._rack,
        }
        self._given = settings.with_static({k: text for k, text in own.items() if text is not None})
        # What is wrong with these is said before anything is touched.
        self._policies = Policies.of(self._given)
        self._clock: Clock = clock or SystemClock()
        self._access = Access.of(self._given, self._clock.elapsed_ms)
        self._store = store
        self._place = (host, port, advertise)
        self._listening = Listening(self._given, *self._place)
        self._progress = progress
        self._hand_over = HandOver(on_hand_over)
        self._frame_memory = frame_memory or frame_memory_of(self._given)
        self._ground: Ground | None = None
        self._parts: Parts | None = None
        self._tokens: TokenFollower | None = None
        self._own_sessions: frozenset[int] = frozenset()
        self._unwatch_session: Unwatch | None = None
        self._needs_session = False
        self._is_registering = False
        self._tasks = Tasks()
        self._is_past_gate = False
        self._is_up = False

    @property
    def parts(self) -> Parts:
        """The parts of a broker that was started."""
        assert self._parts is not None, f"broker {self.id} has not been started"
        return self._parts

    @property
    def listeners(self) -> Listeners:
        """The listeners of a broker that was started."""
        return self._listening.listeners

    @property
    def is_controller(self) -> bool:
        return self.parts.is_controller

    @property
    def endpoint(self) -> Endpoint:
        """The address at which other brokers reach it."""
        return self.parts.endpoint

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses at which it is reached, one a listener, in the order of the settings."""
        return self.parts.endpoints

    # Up

    async def start(self, gate: Callable[[], Awaitable[object]] | None = None) -> None:
        """Come up; returns when clients can be served.

        Brokers that start together share a gate between registering and electing a controller, so
        that the first controller meets them all and none of their leaderships moves.

        A session with a ZooKeeper may end meanwhile, for a recovery takes its time and the machine
        may be busy: then the broker comes up once more, with another.
        """
        for tries_left in reversed(range(_STARTS_MAX if _is_on_zookeeper(self._given) else 1)):
            try:
                await self._come_up(gate)
            except StoreUnavailable as fault:
                await self.kill()
                if not tries_left:
                    raise
                log.warning(
                    "the store was lost during the start, which begins again",
                    extra={"broker": self.id, "why": str(fault)},
                )
                self._forget_start()
            except BaseException:
                await self.kill()
                raise
            else:
                return

    def _forget_start(self) -> None:
        if self._ground is not None:
            self._own_sessions |= {self._ground.session.id}
        self._ground = self._parts = self._tokens = self._unwatch_session = None
        self._listening, self._tasks = Listening(self._given, *self._place), Tasks()
        self.stopped.clear()

    async def _come_up(self, gate: Callable[[], Awaitable[object]] | None) -> None:
        ground = await self._reach_store()
        await self._follow_credentials(ground)
        await ground.dynamic_config.load()
        if ground.lists is not None:
            await ground.lists.load()
        topics = frozenset(await ground.session.children(layout.TOPICS) or ())
        logs = await self._open_logs(ground, topics)
        parts = self._parts = build(ground, logs, self._policies, topics)
        await _set_strays_aside(parts, topics)
        missed = [p for directory in logs.directories for p in directory.missing]
        await leave_in_sync_sets(ground.session, self.id, missed)
        parts.troubles.on_failure.append(self._directory_failed)
        tell_of_damage(parts)
        router = Router(parts, ProduceShortcut(parts))
        await self._listening.open(parts, router.route, refusal, self._frame_memory)
        await self._register(parts)
        parts.dynamic_config.follow()
        if parts.lists is not None:
            parts.lists.follow()
        self._is_up = True
        self._start_tasks(parts, self.listeners)
        if gate is not None and not self._is_past_gate:
            await gate()
            self._is_past_gate = True
        await parts.controller.start()
        metadata = parts.metadata
        if not await metadata.wait_for(lambda _: metadata.is_introduced, _INTRODUCED_MS_MAX):
            # It is registered and listens; whoever becomes the controller will find it.
            log.warning(
                "no controller has told this broker of all topics; it starts without knowing the "
                "cluster",
                extra={"broker": self.id},
            )

    async def _reach_store(self) -> Ground:
        session = await self._store.connect()
        try:
            seat = Seat(
                id=self.id,
                rack=self._rack,
                cluster_id=await registration.prepare(session),
                secret=await registration.cluster_secret(session),
                session=session,
                listeners=self._listening.config,
                identity=self._listening.identity,
            )
        except BaseException:
            await session.close()
            raise
        self._ground = lay_ground(
            seat,
            settings=self._given,
            data_dir=self._data_dir,
            clock=self._clock,
            workers=Workers(self.id),
            access=self._access,
        )
        return self._ground

    async def _open_logs(self, ground: Ground, topics: frozenset[str]) -> Logs:
        loop = asyncio.get_running_loop()
        settings_for = await _settings_of(ground, topics)

        def offline(directory: LogDirectory) -> None:
            # Told by whichever thread noticed.
            if directory.failure is not None:
                loop.call_soon_threadsafe(ground.troubles.directory_failed, directory.failure)

        def opened() -> Logs:
            return Logs.open(
                self._log_dirs,
                self.id,
                ground.cluster_id,
                settings_for=settings_for,
                delete_delay_ms=ground.settings.int("log.segment.delete.delay.ms"),
                now_ms=self._clock.now_ms(),
                progress=self._progress,
                on_offline=offline,
            )

        return await ground.in_worker(opened)

    async def _follow_credentials(self, ground: Ground) -> None:
        """Know who can log in, from before the first one comes."""
        credentials, config = self._listening.credentials, ground.dynamic_config
        config.on_user.append(credentials.set_user)
        config.on_users.append(credentials.keep_only_users)
        if credentials.has_tokens:
            self._tokens = TokenFollower(ground.seat, credentials)
            await self._tokens.load()
            self._tokens.follow()

    def _start_tasks(self, parts: Parts, listeners: Listeners) -> None:
        housekeeping = Housekeeping(
            parts, parts.logs, drop_laggards=parts.replicas.drop_laggards, sweep=listeners.sweep
        )
        parts.dynamic_config.on_broker.append(lambda _: housekeeping.settings_changed())
        self._tasks.start(introduce(parts), f"broker-{self.id}-introduction")
        self._tasks.start(parts.proposals.run(), f"broker-{self.id}-proposals")
        self._tasks.start(housekeeping.run(), f"broker-{self.id}-housekeeping")
        self._tasks.start(parts.relocations.run(), f"broker-{self.id}-relocations")
        self._tasks.start(parts.coordinators.run(), f"broker-{self.id}-coordinators")
        self._tasks.start(parts.ledger_topic.run(), f"broker-{self.id}-ledger-topic")
        self._tasks.start(parts.tokens.run(lambda: parts.is_controller), f"broker-{self.id}-tokens")
        self._tasks.start(
            self._listening.run(lambda: self._announce(parts)), f"broker-{self.id}-listeners"
        )

    async def _register(self, parts: Parts) -> None:
        seat = parts.seat
        seat.epoch = await registration.register(
            seat.session,
            _registration(seat),
            timestamp_ms=self._clock.now_ms(),
            own_sessions=self._own_sessions,
            patience_s=_registration_patience_s(parts.settings),
        )
        self._unwatch_session = seat.session.watch_state(self._session_changed)
        log.info("registered", extra={"broker": self.id, "epoch": seat.epoch})

    async def _announce(self, parts: Parts) -> None:
        """Tell everybody that this broker is reached elsewhere."""
        try:
            me = _registration(parts.seat)
            await registration.rewrite(parts.session, me, timestamp_ms=self._clock.now_ms())
        except StoreUnavailable as fault:
            log.warning("other endpoints wait for a new session", extra={"why": str(fault)})

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED and self._is_up:
            self._needs_session = True
            if not self._is_registering:
                self._is_registering = True
                again = self._register_again(self.parts)
                self._tasks.start(again, f"broker-{self.id}-registration")

    async def _register_again(self, parts: Parts) -> None:
        """The session is gone, and the registration with it: come back as a new broker.

        The next session may end as well before all is done. One at a time: of two that register,
        the second would wait for the first to go.
        """
        try:
            while self._is_up and self._needs_session:
                await self._leave_session(parts)
                self._needs_session = False
                try:
                    await self._take_seat(parts)
                except (StoreUnavailable, UsageError) as fault:
                    self._needs_session = True
                    log.warning("cannot register", extra={"why": str(fault)})
                    await asyncio.sleep(_RECONNECT_S)
        finally:
            self._is_registering = False

    async def _leave_session(self, parts: Parts) -> None:
        self._own_sessions |= {parts.session.id}
        if self._unwatch_session is not None:
            self._unwatch_session()
            self._unwatch_session = None
        # Before anything is asked of a store that may be away: the role went with the session.
        await parts.controller.stop(resign=False)
        # It may have been out of reach only, and would be in the way of the next.
        self._tasks.start(parts.session.close(), f"broker-{self.id}-old-session")

    async def _take_seat(self, parts: Parts) -> None:
        parts.seat.session = await self._store.connect()
        await self._register(parts)
        await parts.dynamic_config.load()
        parts.dynamic_config.follow()
        if parts.lists is not None:
            await parts.lists.load()
            parts.lists.follow()
        if self._tokens is not None:
            await self._tokens.load()
            self._tokens.follow()
        await parts.controller.start()

    # Down

    async def stop(self, *, hand_over: bool = True, keep: bool = True) -> None:
        """Go down in order, with nothing left to recover.

        Where the whole cluster goes down there is nobody to hand leaderships over to. What is
        removed next need not be kept: bringing it to the disk is most of the time a stop takes.
        """
        if not self._is_up:
            return
        parts = self.parts
        if hand_over:
            await self._hand_over.run(parts)
        self._is_up = False
        parts.replicas.is_stopping = True
        await parts.controller.stop(resign=hand_over)
        await self._end_all(parts, self.listeners.stop)
        await parts.in_worker(lambda: parts.logs.close(clean=keep, broker_epoch=parts.epoch))
        await parts.session.close()
        parts.workers.shutdown()
        self.stopped.set()

    def forgo_hand_over(self) -> None:
        """Have a stop that is under way wait for nobody to take leaderships over."""
        self._hand_over.forgo()

    async def kill(self) -> None:
        """Go down as a crash would: nothing is flushed, nobody is told."""
        self._is_up = False
        if self._parts is not None:
            parts = self._parts
            await parts.controller.stop(resign=False)
            kill = self.listeners.kill if self._listening.is_open else None
            await self._end_all(parts, kill)
            parts.logs.close(clean=False)
        if self._ground is not None:
            await self._ground.session.close()
            self._ground.workers.shutdown(wait=False)
        self.stopped.set()

    async def _end_all(
        self, parts: Parts, end_listening: Callable[[], Awaitable[None]] | None
    ) -> None:
        if self._unwatch_session is not None:
            self._unwatch_session()
        await parts.fetchers.stop()
        parts.replicas.abandon()
        if end_listening is not None:
            await end_listening()
        await self._listening.identity.stop()
        if self._tokens is not None:
            await self._tokens.stop()
        await parts.auto_creation.close()
        await parts.dynamic_config.stop()
        if parts.lists is not None:
            await parts.lists.stop()
        await self._tasks.cancel()
        await parts.channel.close()
        parts.sessions.close()

    # What happens

    def _directory_failed(self, failure: LogDirectoryFailed) -> None:
        """Takes a failed disk offline; without any disk there is no broker."""
        parts = self.parts
        parts.replicas.fail_directory(failure.path)
        parts.relocations.directory_failed(failure.path)
        if not self._is_up:
            return
        if not parts.logs.online:
            log.critical("no log directory is left: this broker stops", extra={"broker": self.id})
            self._tasks.start(self.kill(), f"broker-{self.id}-end")
        else:
            self._tasks.start(_tell_of_failure(parts), f"broker-{self.id}-log-dir-event")


def _registration(seat: Seat) -> brokers.Registration:
    return brokers.Registration(
        id=seat.id, epoch=-1, endpoints=seat.endpoints, rack=seat.rack, can_prove=True
    )


def frame_memory_of(settings: BrokerSettings) -> FrameMemory:
    """The memory that requests on their way may take together."""
    return FrameMemory(settings.int("klamm.request.memory.max.bytes"))


def _directories(settings: BrokerSettings, data_dir: Path) -> list[str]:
    """The log directories: `log.dirs` if it is set, else the broker's own directory."""
    named = settings.static.get("log.dirs") or settings.static.get("log.dir")
    if not named:
        return [str(data_dir)]
    return [str(data_dir / part.strip()) for part in named.split(",")]


async def _settings_of(ground: Ground, topics: frozenset[str]) -> Callable[[str], LogSettings]:
    """The settings of the topics in the store, for logs that are already here."""
    known = await ground.dynamic_config.learnt(topics)
    default = LogSettings.of(ground.settings.for_topic({}))
    by_name = {name: LogSettings.of(topic) for name, topic in known.items() if topic.overrides}
    return lambda topic: by_name.get(topic, default)


async def _set_strays_aside(parts: Parts, topics: frozenset[str]) -> None:
    for directory in parts.logs.directories:
        for gone in [p for p in directory.missing if p.topic not in topics]:
            directory.made_up_for(gone)
    found = await find_strays(parts.session, parts.id, parts.logs)
    for partition in found:
        log.warning("a log of no topic is set aside", extra={"partition": str(partition)})
    await parts.in_worker(lambda: parts.logs.set_aside(found))


def _is_on_zookeeper(settings: BrokerSettings) -> bool:
    return bool(settings.str("zookeeper.connect"))


def _registration_patience_s(settings: BrokerSettings) -> float:
    """An embedded store knows who died; ZooKeeper believes in them a session's time longer."""
    session_s = settings.int("zookeeper.session.timeout.ms") / 1000
    return 1.5 * session_s * _is_on_zookeeper(settings)


async def _tell_of_failure(parts: Parts) -> None:
    event = Create(
        layout.LOG_DIR_EVENT_PREFIX, layout.encode_log_dir_event(parts.id), sequential=True
    )
    try:
        await parts.session.multi([event])
    except StoreUnavailable as fault:
        log.error("the controller does not hear of a failed disk", extra={"why": str(fault)})
