"""The server in front of an embedded store: ZooKeeper's client protocol on a port.

Other processes have sessions here as they would have with a ZooKeeper of one node: brokers of
klamm's and of Apache Kafka's, kazoo, zkCli. They and the brokers of this process share one tree.

It is a door. It listens on this machine only unless told otherwise; whoever comes may read, but for
the cluster's secrets; who wants to write shows the cluster's own digest. A node's own grants hold
on top of that, for everybody who comes through here.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import platform
import resource
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from klamm.model.errors import UsageError
from klamm.store import layout
from klamm.store.access import READ, Caller
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.node_paths import SERVER_NODES
from klamm.store.port import Create, Delete
from klamm.store.serving import codes, digest, replies, words
from klamm.store.serving.listener import Connection
from klamm.store.serving.pipeline import (
    EndOfSession,
    Pipeline,
    ServedWrite,
    Session,
    StartOfSession,
)
from klamm.store.serving.requests import Auth, Connect
from klamm.store.serving.sessions import TIMEOUT_TICKS_MAX, TIMEOUT_TICKS_MIN, Sessions
from klamm.store.serving.watchtable import WatchTable
from klamm.store.tree import Tree
from klamm.store.writes import Write

TICK_MS: Final = 2000
CONNECTIONS_MAX: Final = 1000
_SESSIONS_MAX: Final = 10_000
_OUTSTANDING_MAX: Final = 1000
_DIGESTS_MAX: Final = 16  # that one connection may show
_SWEEP_EVERY_S: Final = 60.0
_SIZE_EVERY_S: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDoor:
    """The address at which a store is served, and who may connect."""

    host: str = "127.0.0.1"
    port: int = 0  # 0 lets the system choose
    digest: str  # user:password; who shows it may write
    anyone_may_write: bool = False
    tick_ms: int = TICK_MS
    connections_max: int = CONNECTIONS_MAX

    def newcomer(self, address: str) -> Caller:
        """Somebody who has shown nothing."""
        if self.anyone_may_write:
            return Caller(address=address, hidden=(layout.CLUSTER_SECRET,))
        return Caller(address=address, may_write=False, hidden=layout.SECRETS)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can come."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class StoreServer:
    """Serves one store that was opened for it."""

    def __init__(self, store: EmbeddedStore, door: ServedDoor) -> None:
        self._store = store
        self._door = door
        self._digest_id = digest.digest_id(door.digest.encode())
        self.watches: WatchTable[Pipeline] = WatchTable(lambda who: not who.caller.may_write)
        self._sessions: Sessions[Pipeline]
        self._connections: dict[Pipeline, Connection] = {}
        self._loop = asyncio.get_running_loop()
        self._listening: asyncio.Server | None = None
        self._own: EmbeddedSession  # for what the server itself writes
        self._ticking: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._outstanding = 0
        self._is_lost = False
        self._began_s = self._loop.time()
        self._sized: tuple[float, int] = (0.0, 0)
        self.zxid = 0  # of the last transaction that was told of
        self.received_count = self.sent_count = 0  # of connections that have ended

    @property
    def tree(self) -> Tree:
        return self._store.tree

    @property
    def port(self) -> int:
        assert self._listening is not None, "the store is not served"
        return int(self._listening.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """The address that clients are given."""
        host = f"[{self._door.host}]" if ":" in self._door.host else self._door.host
        return f"{host}:{self.port}"

    async def start(self) -> None:
        """Take up the sessions of before and listen; UsageError where that cannot be."""
        secret = await self._store.serve(self)
        self._sessions = Sessions(secret, self._door.tick_ms)
        self.zxid = self.tree.shown_zxid
        for session_id, timeout_ms in self.tree.sessions.items():
            self._sessions.add(session_id, timeout_ms, self._now_ms)
        self._own = await self._store.connect()
        await self._own.multis([Create(path, b"")] for path in SERVER_NODES)
        try:
            self._listening = await self._loop.create_server(
                lambda: Connection(self), self._door.host, self._door.port
            )
        except OSError as error:
            raise UsageError(_fault(self._door, error)) from error
        if not self._door.is_local:
            log.warning(
                "the store is served beyond this machine: what it holds and the digest that lets "
                "write travel in the clear",
                extra={"address": self.address},
            )
        self._tick()
        self._sweep()

    async def stop(self) -> None:
        """Let what was handed in be done and answered, then hang up. Sessions go on."""
        if self._listening is None:
            return
        self._listening.close()
        for timer in (self._ticking, self._sweeping):
            if timer is not None:
                timer.cancel()
        for connection in self._connections.values():
            if not connection.transport.is_closing():
                connection.transport.pause_reading()
        await self._own.multi([])  # behind all that was handed in
        for connection in tuple(self._connections.values()):
            connection.pipeline.close()
            connection.flush()
        await self._own.close()
        await self._listening.wait_closed()
        for connection in tuple(self._connections.values()):
            connection.transport.abort()

    # What the store tells.

    def published(self, writes: Sequence[Write], failure: BaseException | None) -> None:
        """Tell of writes in their order: the events of one, its reply, the events of the next."""
        waiting: dict[Pipeline, None] = {}
        for write in writes:
            for event in write.events:
                for told in self.watches.trigger(event):
                    if told.connection.caller.may(READ, told.path, told.acl):
                        told.connection.send(replies.event(told.kind, told.path))
                        waiting[told.connection] = None
            self.zxid = write.zxid or self.zxid
            if isinstance(write, ServedWrite):
                self._conclude(write, failure, waiting)
        # Only now may anybody read: all of it is in the tree already.
        for pipeline in waiting:
            connection = self._connections.get(pipeline)
            if connection is not None:
                connection.go_on()

    def lost(self) -> None:
        """Hang up on everybody: to them a store that takes no writes is a store out of reach."""
        self._is_lost = True
        for connection in tuple(self._connections.values()):
            connection.pipeline.break_off("the store is lost")
            connection.flush()

    def _conclude(
        self, write: ServedWrite, failure: BaseException | None, waiting: dict[Pipeline, None]
    ) -> None:
        pipeline = write.pipeline
        if pipeline is not None:
            waiting[pipeline] = None
        if failure is not None and pipeline is not None:
            # Nobody knows how it went: a client that lost its connection asks again.
            pipeline.break_off("the disk refused its write")
        elif isinstance(write, StartOfSession):
            if pipeline is not None:
                self._begin(pipeline, write.session, write.xid == 1)
        elif pipeline is not None:
            pipeline.concluded(write, self.zxid)
        if isinstance(write, EndOfSession):
            self._end(write.session, waiting)
        elif failure is not None and isinstance(write, StartOfSession) and pipeline is not None:
            self._sessions.remove(write.session)

    def _begin(self, pipeline: Pipeline, session: Session, says_read_only: bool) -> None:
        if pipeline.is_closed:
            return
        password = self._sessions.password(session.id)
        self._sessions.touch(session, self._now_ms)
        frame = replies.connected(
            session.timeout_ms, session.id, password, says_read_only=says_read_only
        )
        pipeline.begin(session, frame)

    def _end(self, session: Session, waiting: dict[Pipeline, None]) -> None:
        self._sessions.remove(session)
        left = session.connection
        if left is not None:
            left.close()
            waiting[left] = None

    # What connections ask for.

    def connect(self, pipeline: Pipeline, request: Connect) -> None:
        """Give a connection its session, or none."""
        if self._is_lost:
            pipeline.break_off("the store is lost")
        elif request.seen_zxid > self.zxid:
            pipeline.break_off("it has seen transactions that this store never had")
        elif request.session == 0:
            self._open(pipeline, request)
        else:
            self._take_up(pipeline, request)

    def _open(self, pipeline: Pipeline, request: Connect) -> None:
        if len(self._sessions.by_id) >= _SESSIONS_MAX and not self._make_room():
            pipeline.break_off(f"there are {_SESSIONS_MAX} sessions already")
            return
        timeout_ms = self._sessions.granted_ms(request.timeout_ms)
        session = self._sessions.add(self._store.new_session_id(), timeout_ms, self._now_ms)
        # In the place of an xid: whether the answer has one byte more.
        self.submit(StartOfSession(session, pipeline, int(request.says_read_only)))

    def _take_up(self, pipeline: Pipeline, request: Connect) -> None:
        session = self._sessions.claimed(request.session, request.password)
        if session is None:
            pipeline.send(replies.not_connected(says_read_only=request.says_read_only))
            pipeline.close()
            return
        before = session.connection
        if before is not None:
            before.close()
            self._connections[before].flush()
        timeout_ms = self._sessions.granted_ms(request.timeout_ms)
        if timeout_ms != session.timeout_ms:
            session.timeout_ms = timeout_ms
            self.submit(StartOfSession(session))
        self._begin(pipeline, session, request.says_read_only)

    def heard(self, session: Session) -> None:
        """Something came from a session."""
        self._sessions.touch(session, self._now_ms)

    def end_session(self, session_id: int) -> None:
        """End a session of which somebody knows that its owner has died."""
        session = self._sessions.by_id.get(session_id)
        if session is not None and not session.is_closing:
            self._expire(session)

    def submit(self, write: Write) -> None:
        self._store.enqueue(write)

    def authenticate(self, pipeline: Pipeline, request: Auth) -> bool:
        """Let a caller be somebody more; False where that is nobody."""
        caller = pipeline.caller
        if request.scheme != "digest" or len(caller.digests) >= _DIGESTS_MAX:
            return False
        shown = digest.digest_id(request.data)
        if shown not in caller.digests:
            caller = replace(caller, digests=(*caller.digests, shown))
        if shown == self._digest_id:
            caller = replace(caller, may_write=True, hidden=())
            if pipeline.session is not None:
                pipeline.session.is_trusted = True
        pipeline.caller = caller
        return True

    # What sockets ask for.

    def newcomer(self, address: str) -> Caller:
        return self._door.newcomer(address)

    def arrived(self, connection: Connection) -> bool:
        """Take one more connection, in the place of a stranger's where there is no room."""
        room = len(self._connections) < self._door.connections_max or self._hang_up_on_stranger()
        self._connections[connection.pipeline] = connection
        return room

    def left(self, connection: Connection) -> None:
        pipeline = connection.pipeline
        self.received_count += pipeline.received_count
        self.sent_count += pipeline.sent_count
        self._connections.pop(pipeline, None)

    def counted(self, connection: Connection, outstanding_more: int) -> bool:
        """Count requests that wait; whether those who have some are to send no more for now."""
        was_over = self._outstanding >= _OUTSTANDING_MAX
        self._outstanding += outstanding_more
        is_over = self._outstanding >= _OUTSTANDING_MAX
        if was_over and not is_over:
            self._loop.call_soon(self._read_on)
        return is_over

    def facts(self, word: bytes) -> words.ServerFacts:
        """The facts that a four-letter word may tell of."""
        tree, now_ms = self.tree, self._now_ms
        due: dict[int, list[int]] = {}
        for session in self._sessions.all:
            due.setdefault(session.due_ms - now_ms, []).append(session.id)
        connected = [each for each in self._connections.values() if each.pipeline.session]
        everyone = [each.pipeline for each in self._connections.values()]
        return words.ServerFacts(
            zxid=self.zxid,
            received=self.received_count + sum(each.received_count for each in everyone),
            sent=self.sent_count + sum(each.sent_count for each in everyone),
            outstanding=self._outstanding,
            nodes=len(tree.entries),
            data_bytes=self._data_bytes() if word == b"mntr" else 0,
            watches=self.watches.count,
            watched_paths=self.watches.paths_count if word == b"wchs" else 0,
            watching=self.watches.connections_count,
            uptime_ms=int((self._loop.time() - self._began_s) * 1000),
            open_files=_open_files() if word == b"mntr" else 0,
            open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            settings=self._settings(),
            environment={
                "host.name": platform.node(),
                "os.name": platform.system(),
                "os.arch": platform.machine(),
                "os.version": platform.release(),
                "python.version": platform.python_version(),
            },
            connections=[_connection_facts(each) for each in connected],
            due=due,
            ephemerals={owner: tuple(tree.owned_by(owner)) for owner in tree.owners},
        )

    def _settings(self) -> dict[str, object]:
        tick_ms = self._door.tick_ms
        return {
            "clientPort": self.port,
            "tickTime": tick_ms,
            "maxClientCnxns": self._door.connections_max,
            "minSessionTimeout": TIMEOUT_TICKS_MIN * tick_ms,
            "maxSessionTimeout": TIMEOUT_TICKS_MAX * tick_ms,
            "serverId": 0,
        }

    def _data_bytes(self) -> int:
        """The size of all nodes; looked up now and then, for it takes a walk."""
        at_s, size = self._sized
        now_s = self._loop.time()
        if not at_s or now_s - at_s > _SIZE_EVERY_S:
            entries = self.tree.entries.items()
            size = sum(len(path) + len(entry.data or b"") for path, entry in entries)
            self._sized = (now_s, size)
        return size

    def _hang_up_on_stranger(self) -> bool:
        """Make room for a connection; where everybody may write, nobody is a stranger."""
        if self._door.anyone_may_write:
            return False
        for connection in self._connections.values():
            pipeline = connection.pipeline
            if self._digest_id not in pipeline.caller.digests and not pipeline.is_closed:
                pipeline.break_off("it made room for others, having shown no digest")
                connection.flush()
                connection.transport.abort()
                return True
        return False

    def _make_room(self) -> bool:
        """Have a stranger's session end for a new one."""
        session = None if self._door.anyone_may_write else self._sessions.least_missed()
        if session is None:
            return False
        self._expire(session)
        return True

    def _read_on(self) -> None:
        for connection in tuple(self._connections.values()):
            if connection.is_held:
                connection.flush()

    # What time brings.

    @property
    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _tick(self) -> None:
        """End the sessions that are due; ticks come at multiples of their length."""
        now_ms, tick_ms = self._now_ms, self._door.tick_ms
        for session in self._sessions.tick(now_ms):
            self._expire(session)
        due_ms = (now_ms // tick_ms + 1) * tick_ms
        self._ticking = self._loop.call_at(due_ms / 1000, self._tick)

    def _expire(self, session: Session) -> None:
        session.is_closing = True
        self.submit(EndOfSession(session))

    def _sweep(self) -> None:
        """Remove containers whose last child has gone."""
        for path in tuple(self.tree.containers):
            entry = self.tree.entries[path]
            if entry.children_made and not entry.children_count:
                done = self._store.submit(self._own, [Delete(path, entry.stat.version)])
                done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._sweeping = self._loop.call_later(_SWEEP_EVERY_S, self._sweep)


def _connection_facts(connection: Connection) -> words.ConnectionFacts:
    pipeline = connection.pipeline
    session = pipeline.session
    return words.ConnectionFacts(
        address=connection.peer,
        queued=pipeline.outstanding,
        received=pipeline.received_count,
        sent=pipeline.sent_count,
        session=session.id if session else 0,
        timeout_ms=session.timeout_ms if session else 0,
        last_operation=codes.NAMES.get(pipeline.last_op, ""),
    )


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _fault(door: ServedDoor, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {door.port}, on which the store is to be served, is taken; choose another with "
            "--zookeeper-port (klamm.store.serve.port), or 0 for a free one"
        )
    return f"the store cannot be served on {door.host}:{door.port}: {error.strerror or error}"
