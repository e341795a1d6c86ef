"""ZooKeeper (3.6 or later) as the store, through kazoo.

Reads of many nodes share requests, writes are pipelined and done once however often the connection
breaks, and watches are persistent ones that are set anew on each connection. While the connection
is broken, calls wait; when it stays broken for longer than a session lives, they fail until it is
back. A session that the server has expired stays expired: whoever used it connects again and reads
everything anew.

Next to what callers write there is one node of our own, hidden from them, with the tickets of each
session's writes.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from klamm.model.errors import StoreUnavailable, UsageError
from klamm.store.access import Acl
from klamm.store.browsing import Seen
from klamm.store.layout.paths import IMPORT_MARK
from klamm.store.port import Hint, Node, Op, Result, SessionState, TreeHint, Unwatch
from klamm.store.tree import ROOT, Touched, check_path
from klamm.store.watches import Watches
from klamm.store.zookeeper_bridge import Bridge, Request
from klamm.store.zookeeper_door import ZooKeeperDistrusted, ZooKeeperDoor
from klamm.store.zookeeper_nodes import ServerNodes
from klamm.store.zookeeper_tickets import TICKETS, TicketOffice
from klamm.store.zookeeper_wire import AddWatch, RemoveWatch

SESSION_TIMEOUT_MS: Final = 18_000  # Kafka's default
_PORT: Final = 2181
_PORT_MAX: Final = 65_535
_PROBE_S: Final = 1.0
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:[0-9]+)?")
_SPACE: Final = re.compile(r"\s")


class ZooKeeperStore:
    """Sessions with one ensemble, such as `zk1:2181,zk2:2181/kafka`.

    The door says what is shown on every connection, and whether new nodes are protected.
    """

    def __init__(
        self,
        connect_string: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        connection_timeout_ms: int | None = None,
        digest: str = "",
        door: ZooKeeperDoor | None = None,
    ) -> None:
        """A digest, `user:password`, makes a door by itself."""
        hosts, _, chroot = connect_string.partition("/")
        if not hosts.strip(", "):
            raise UsageError(f"{connect_string!r} names no ZooKeeper server")
        for server in hosts.split(","):
            _check_server(server.strip(), connect_string)
        _check_chroot(chroot, connect_string)
        self.hosts: Final = hosts
        self.chroot: Final = f"/{chroot.strip('/')}" if chroot.strip("/") else ""
        self.session_timeout_ms: Final = session_timeout_ms
        self.connection_timeout_ms: Final = connection_timeout_ms or session_timeout_ms
        self.door: Final = door or ZooKeeperDoor(digest=digest)
        self.pool: Final = ThreadPoolExecutor(thread_name_prefix="klamm-zookeeper")
        self.sessions: Final[set[ZooKeeperSession]] = set()
        self._closed = False

    async def reach(self) -> None:
        """Have one session for a moment; StoreUnavailable says why there is none to be had."""
        try:
            session = await self.connect()
        except ZooKeeperDistrusted:
            raise
        except StoreUnavailable as fault:
            found = await asyncio.gather(*map(_refusal, self.addresses))
            raise StoreUnavailable("; ".join(dict.fromkeys(found))) from fault
        await session.close()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each server."""
        return [_address(server.strip()) for server in self.hosts.split(",")]

    async def connect(self) -> ZooKeeperSession:
        """A new session; StoreUnavailable when no server answers in time."""
        return await self._connect(writes=True)

    async def fill(self) -> ZooKeeperSession:
        """A session for whoever imports: it is had although an import is under way."""
        return await self._connect(writes=True, fills=True)

    async def look_in(self) -> ZooKeeperSession:
        """A session that reads only: nothing is made for it, and it need not be allowed to."""
        return await self._connect(writes=False)

    async def _connect(self, *, writes: bool, fills: bool = False) -> ZooKeeperSession:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        session = ZooKeeperSession(self, writes=writes)
        await session.open()
        if writes and not fills and await session.get(IMPORT_MARK) is not None:
            await session.close()
            raise UsageError(
                f"an import into the ZooKeeper at {self.hosts}{self.chroot} has not ended: run "
                "`klamm store import` with the same file again, which goes on where it stopped"
            )
        return session

    async def close(self) -> None:
        """End the sessions; whoever holds one hears that it has expired."""
        if not self._closed:
            self._closed = True
            await asyncio.gather(*(session.leave() for session in tuple(self.sessions)))
            self.pool.shutdown()


def _check_server(server: str, connect_string: str) -> None:
    _, colon, port = server.rpartition("]")[2].rpartition(":")
    is_port = port.isascii() and port.isdecimal() and 0 < int(port) <= _PORT_MAX
    if not _SERVER.fullmatch(server) or (colon and not is_port):
        where = "" if server == connect_string else f" in {connect_string!r}"
        raise UsageError(f"{server!r}{where} is not the address of a ZooKeeper, such as zk1:2181")


def _check_chroot(chroot: str, connect_string: str) -> None:
    """Refuse what is no path, before a ZooKeeper is asked to make it."""
    if "," in chroot:
        raise UsageError(
            f"{connect_string!r} names servers behind a path: the path comes once, behind the last "
            "server, as in zk1:2181,zk2:2181/kafka"
        )
    names = chroot.rstrip("/").split("/")
    if chroot.strip("/") and not all(
        name.isprintable() and name.strip(".") and not _SPACE.search(name) for name in names
    ):
        raise UsageError(
            f"/{chroot} in {connect_string!r} is no path of a ZooKeeper, such as /kafka"
        )


def _address(server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, str(_PORT)
    return host.strip("[]"), int(port)


async def _refusal(address: tuple[str, int]) -> str:
    """The reason why there is no session with a server."""
    host, port = address
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"{host}:{port} does not answer"
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno:  # asyncio words a refusal with the address in it
            why = os.strerror(error.errno) if error.errno > 0 else why
        return f"{host}:{port}: {why}"
    writer.close()
    return f"{host}:{port} takes connections, but no session: is it a ZooKeeper?"


class ZooKeeperSession:
    """One session with ZooKeeper."""

    is_near = False

    def __init__(self, store: ZooKeeperStore, *, writes: bool = True) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._bridge = Bridge(
            store.hosts,
            session_timeout_ms=store.session_timeout_ms,
            door=store.door,
            on_state=self._on_state,
            on_touched=self._on_touched,
        )
        self._nodes = ServerNodes(self._bridge, store.chroot, sets_acl=store.door.sets_acl)
        self._watches = Watches()
        self._listeners: list[Callable[[SessionState], None]] = []
        self._patience: asyncio.TimerHandle | None = None
        self._closing = False
        self._ended = asyncio.Event()
        self._id = 0
        self._is_writing = writes
        self._writes: TicketOffice

    @property
    def id(self) -> int:
        return self._id

    async def open(self) -> None:
        """Connect, and make what the session needs for itself."""
        self._store.sessions.add(self)
        try:
            timeout_ms = self._store.connection_timeout_ms
            self._id = await self._in_thread(self._bridge.start, timeout_ms)
            self._writes = TicketOffice(self._nodes, self._id)
            if self._is_writing:
                await self._writes.open()
        except BaseException:
            self._closing = True
            self._end("the session never began")
            self._store.pool.submit(self._bridge.close)
            raise

    async def get(self, path: str) -> Node | None:
        (node,) = await self.get_many((path,))
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        self._check()
        return await self._nodes.get_many(paths)

    async def children(self, path: str) -> tuple[str, ...] | None:
        self._check()
        names = await self._nodes.children(path)
        if names and path == ROOT:
            return tuple(name for name in names if f"/{name}" != TICKETS)
        return names

    async def look(self, paths: Sequence[str], *, acls: bool = False) -> list[Seen | None]:
        """Nodes with all that the server tells of them; makes this session a `Browser`."""
        self._check()
        return await self._nodes.look(paths, acls=acls)

    async def set_acl(self, path: str, acl: Acl) -> bool:
        """Replace a node's grants; False where there is no such node any more."""
        self._check()
        return await self._nodes.set_acl(path, acl)

    async def multi(self, ops: Sequence[Op]) -> tuple[Result, ...]:
        self._check()
        assert self._is_writing or not ops, "the session is for reading"
        for op in ops:
            check_path(op)
        return await self._writes.multi(ops) if ops else ()

    async def multis(self, groups: Iterable[Sequence[Op]]) -> list[tuple[Result, ...]]:
        self._check()
        groups = tuple(groups)
        assert self._is_writing or not groups, "the session is for reading"
        for ops in groups:
            for op in ops:
                check_path(op)
        return await self._writes.multis(groups)

    def watch_node(self, path: str, hint: Hint) -> Unwatch:
        self._check()
        return self._watching(path, self._watches.add_node(self._id, path, hint))

    def watch_children(self, path: str, hint: Hint) -> Unwatch:
        self._check()
        return self._watching(path, self._watches.add_children(self._id, path, hint))

    def watch_tree(self, path: str, hint: TreeHint) -> Unwatch:
        self._check()
        return self._watching(path, self._watches.add_tree(self._id, path, hint))

    def watch_state(self, hear: Callable[[SessionState], None]) -> Unwatch:
        self._listeners.append(hear)
        return lambda: self._listeners.remove(hear) if hear in self._listeners else None

    async def close(self) -> None:
        """Do what is under way, then end; the ephemeral nodes go at once."""
        if not self._closing:
            self._closing = True
            await self._writes.all_done()
            await self._in_thread(self._bridge.close)
            self._end("the session was closed")
        await self._ended.wait()

    async def leave(self) -> None:
        """Ends a session whose store is closed."""
        if not self._closing:
            await self.close()
            self._tell(SessionState.EXPIRED)

    async def kill(self) -> None:
        """As if the process had died: the server finds out when the session times out."""
        if not self._closing:
            self._closing = True
            self._end("the session was killed")
            await self._in_thread(self._bridge.drop)

    async def expire(self) -> None:
        """Have the server end the session, as it does after hearing nothing for too long."""
        if not self._closing:
            await self._in_thread(self._bridge.expire)
            await self._ended.wait()

    def _on_state(self, state: SessionState) -> None:
        if self._closing:
            return
        match state:
            case SessionState.CONNECTED:
                self._connected()
            case SessionState.SUSPENDED:
                self._patience = self._loop.call_later(
                    self._store.session_timeout_ms / 1000, self._give_up
                )
            case SessionState.EXPIRED:
                self._closing = True
                self._end("the session has expired")
                # kazoo would go on with a new session, which is nothing to us.
                self._store.pool.submit(self._bridge.close)
        self._tell(state)

    def _connected(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._bridge.resume()
        # A broken connection takes its watches along, and nobody knows what went by unseen. Reads
        # that follow a hint are sent behind the new watch, so nothing can slip in between.
        paths = dict.fromkeys(self._watches.paths)
        for path in paths:
            self._set_watch(path)
        self._hint(Touched(nodes=paths, parents=paths))

    def _give_up(self) -> None:
        self._bridge.refuse(f"ZooKeeper was away for {self._store.session_timeout_ms} ms")
        self._tell(SessionState.LAPSED)

    def _end(self, why: str) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._watches.remove_session(self._id)
        self._store.sessions.discard(self)
        self._bridge.refuse(why)
        self._ended.set()

    def _on_touched(self, on_server: Touched) -> None:
        nodes = dict.fromkeys(map(self._below_chroot, on_server.nodes))
        parents = dict.fromkeys(map(self._below_chroot, on_server.parents))
        # Where a whole tree is watched, the server tells of a child and not of its parent.
        parents |= dict.fromkeys(path.rpartition("/")[0] or ROOT for path in nodes)
        self._hint(Touched(nodes, parents))

    def _below_chroot(self, path: str) -> str:
        return path.removeprefix(self._store.chroot) or ROOT

    def _hint(self, touched: Touched) -> None:
        self._watches.tell_trees(touched.nodes)
        for hint in self._watches.hints(touched):
            self._loop.call_soon(hint)

    def _tell(self, state: SessionState) -> None:
        for hear in tuple(self._listeners):
            hear(state)

    def _watching(self, path: str, forget: Unwatch) -> Unwatch:
        self._set_watch(path)

        def unwatch() -> None:
            if self._watches.watched(path):
                was_tree = self._watches.is_tree(path)
                forget()
                if self._closing:
                    return
                if not self._watches.watched(path):
                    self._send_and_forget(RemoveWatch(path, self._store.chroot))
                elif was_tree and not self._watches.is_tree(path):
                    self._set_watch(path)

        return unwatch

    def _set_watch(self, path: str) -> None:
        """The server keeps one watch a path, of the kind that was set last."""
        kind = AddWatch(path, self._store.chroot, is_recursive=self._watches.is_tree(path))
        self._send_and_forget(kind)

    def _send_and_forget(self, request: Request) -> None:
        # A lost one is made good when the connection is back.
        self._bridge.call(request).add_done_callback(lambda sent: sent.exception())

    async def _in_thread(self, call: Callable[..., Any], *arguments: object) -> Any:
        return await self._loop.run_in_executor(self._store.pool, call, *arguments)

    def _check(self) -> None:
        if self._closing:
            raise StoreUnavailable("the session has ended")
