"""The socket in a data directory by which a running cluster is operated.

Whoever may write to the directory may ask: the socket is its owner's alone. `ControlServer` answers
for a cluster that runs here, `ask` asks one that runs elsewhere on the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from klamm.app.conversation import LINE_BYTES_MAX, Details, HungUp, ParentTalk
from klamm.datadir import LOCK_NAME
from klamm.model.errors import KlammError, UsageError
from klamm.view import ClusterView, Predicate, all_are_in_sync, lagging

SOCKET_NAME: Final = "klamm.control"
_MODE: Final = 0o600
_PATH_MAX: Final = 100  # of the 108 bytes that the system takes
_TIMEOUT_S_MAX: Final = 24 * 3600.0
_HEARD_WITHIN_S: Final = 15.0


class Operated(Protocol):
    """A cluster, as far as it is operated."""

    @property
    def data(self) -> Path: ...
    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def zookeeper_address(self) -> str: ...
    @property
    def ids(self) -> range: ...
    def state(self, at: int) -> str: ...
    def pid(self, at: int) -> int | None: ...
    def address(self, at: int) -> str: ...
    def pause_broker(self, at: int) -> None: ...
    def resume_broker(self, at: int) -> None: ...
    async def start_broker(self, at: int) -> None: ...
    async def stop_broker(self, at: int) -> None: ...
    async def kill_broker(self, at: int) -> None: ...
    async def start_brokers(self) -> None: ...
    async def stop_brokers(self) -> None: ...
    async def look(self) -> ClusterView: ...
    async def wait_until(self, predicate: Predicate, timeout_s: float) -> ClusterView: ...


class ControlServer:
    """Answers those who operate a cluster."""

    def __init__(self, cluster: Operated) -> None:
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self._verbs: dict[str, Callable[[int], Awaitable[None]]] = {
            "start": cluster.start_broker,
            "stop": cluster.stop_broker,
            "kill": cluster.kill_broker,
            "pause": self._pause,
            "resume": self._resume,
        }

    async def start(self) -> None:
        """Listen in the data directory."""
        self._path = self._cluster.data / SOCKET_NAME
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()  # of a process that was killed: the directory is ours
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _reachable(self._path.with_name(f"{SOCKET_NAME}.new")) as name:
                door.bind(name)
            # Nobody connects before it is its owner's alone: it does not listen yet.
            os.chmod(self._path.with_name(f"{SOCKET_NAME}.new"), _MODE)
            os.rename(self._path.with_name(f"{SOCKET_NAME}.new"), self._path)
            self._server = await asyncio.start_unix_server(
                self._accept, sock=door, limit=LINE_BYTES_MAX
            )
        except BaseException:
            door.close()
            raise

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for talk in self._talks:
                talk.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.create_task(ParentTalk(reader, writer, serve=self._serve).run())
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _serve(self, what: str, details: Details) -> object:
        match what:
            case "hello":
                return os.getpid()
            case "status":
                return await self._status()
            case "in-sync":
                await self._wait_for_sync(min(float(details["timeout_s"]), _TIMEOUT_S_MAX))
            case "start-all":
                await self._cluster.start_brokers()
            case "stop-all":
                await self._cluster.stop_brokers()
            case "down":
                # As Ctrl-C: the command that runs the cluster knows what to do.
                os.kill(os.getpid(), signal.SIGTERM)
            case _ if what in self._verbs:
                await self._verbs[what](int(details["broker"]))
            case _:
                raise UsageError(f"this cluster cannot {what}: it is of another version of klamm")
        return None

    async def _pause(self, at: int) -> None:
        self._cluster.pause_broker(at)

    async def _resume(self, at: int) -> None:
        self._cluster.resume_broker(at)

    async def _wait_for_sync(self, timeout_s: float) -> None:
        cluster = self._cluster
        try:
            await cluster.wait_until(all_are_in_sync(), timeout_s)
        except TimeoutError:
            away = [f"broker {at} is {cluster.state(at)}" for at in cluster.ids]
            down = ", ".join(each for each in away if not each.endswith(" running"))
            back = "bring it back with `klamm cluster start` or `resume`, or " if down else ""
            raise TimeoutError(
                f"not all replicas are in sync after {timeout_s:g} s{down and f' ({down})'}: {back}"
                "wait for longer with --timeout"
            ) from None

    async def _status(self) -> dict[str, Any]:
        cluster = self._cluster
        view = await cluster.look()
        seen = view.brokers.get(view.controller_id) or next(iter(view.brokers.values()), None)
        return {
            "pid": os.getpid(),
            "data": str(cluster.data),
            "bootstrap": cluster.bootstrap_servers,
            "zookeeper": cluster.zookeeper_address,
            "out_of_sync": lagging(seen) if seen else None,
            "brokers": [
                {
                    "id": at,
                    "state": cluster.state(at),
                    "pid": cluster.pid(at),
                    "address": cluster.address(at),
                    "controller": at == view.controller_id,
                }
                for at in cluster.ids
            ],
        }


async def ask(data: Path, what: str, **details: Any) -> Any:
    """Ask the cluster that runs on this data directory; UsageError where none does."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _reachable(data / SOCKET_NAME) as name:
            door.connect(name)
    except OSError as error:
        door.close()
        raise UsageError(
            f"no cluster runs on {data}: start one with `klamm up --data {data}`, or name another "
            f"directory with --data ({error.strerror})"
        ) from error
    talk = await ParentTalk.over(door)
    running = asyncio.create_task(talk.run())
    try:
        await _be_heard(talk, data)
        return await talk.ask(what, **details)
    except HungUp:
        if what == "down":
            return None
        raise KlammError("the cluster ended before it answered") from None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await talk.closed()


async def _be_heard(talk: ParentTalk, data: Path) -> None:
    """Makes sure that somebody is there: what is asked later may take its time, this may not."""
    try:
        await asyncio.wait_for(talk.ask("hello"), _HEARD_WITHIN_S)
    except TimeoutError:
        raise KlammError(
            f"the process of the cluster on {data} does not answer: it may be stopped (kill -CONT "
            f"lets it go on) or far too busy; {data / LOCK_NAME} has its number"
        ) from None


@contextlib.contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """A name of the path that is short enough for a socket's."""
    if len(os.fsencode(path)) <= _PATH_MAX:
        yield str(path)
        return
    above = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{above}/{path.name}"
    finally:
        os.close(above)
