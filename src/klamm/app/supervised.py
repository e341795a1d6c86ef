"""The life of a broker whose process is watched by a parent.

The parent says over a socket what it is to be and when to stop; the broker asks when it may elect,
and tells what it sees. It hears SIGTERM as `klamm broker` does. When the parent hangs up, there is
nothing to serve for: it ends at once, as in a crash.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import astuple
from typing import Any, Final

from klamm.app import views
from klamm.app.conversation import Details, ParentTalk
from klamm.app.one_broker import BrokerApp, BrokerPlan, buffer_less, collect_seldom
from klamm.broker.metadata_cache import MetadataSnapshot
from klamm.model.errors import UsageError

log = logging.getLogger(__name__)

# Exit codes, as those of `klamm broker`.
STOPPED: Final = 0
FAILED: Final = 1
STOPPED_BY_ITSELF: Final = 3
CUT_SHORT: Final = 130

OnBirth = Callable[[str], None]


def live(channel: socket.socket, on_birth: OnBirth) -> int:
    """Be the broker that the parent asks for; the exit code. `on_birth` is told its name."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the parent's
    collect_seldom()
    buffer_less()
    return asyncio.run(_run(channel, on_birth))


async def _run(channel: socket.socket, on_birth: OnBirth) -> int:
    life = _Life(on_birth)
    return await life.run(channel)


class _Life:
    """Serves the parent's requests, until one of both ends it."""

    def __init__(self, on_birth: OnBirth) -> None:
        self._on_birth = on_birth
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._parent: ParentTalk
        self._app: BrokerApp | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: MetadataSnapshot | None = (
            None  # what the parent was told last, or is being told
        )
        self._seen_number = 0
        self._is_stopping = False

    async def run(self, channel: socket.socket) -> int:
        self._parent = await ParentTalk.over(channel, serve=self._serve, hear=self._hear)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._terminated)
        talking = asyncio.create_task(self._parent.run(), name="parent")
        talking.add_done_callback(self._deserted)
        return await self._end

    def _deserted(self, talking: asyncio.Task[None]) -> None:
        """The parent has died, and the store with it."""
        if not self._end.done():
            os._exit(FAILED)

    async def _serve(self, what: str, details: Details) -> object:
        match what:
            case "start":
                return await self._start(details)
            case "view":
                return await self._view(int(details["unlike"]))
            case "rest":
                await self._started.rest()
                return None
        raise UsageError(f"a broker cannot {what}")

    def _hear(self, what: str, details: Details) -> None:
        if what == "stop":
            self._stop(hand_over=bool(details["hand_over"]))

    @property
    def _started(self) -> BrokerApp:
        if self._app is None:
            raise UsageError("the broker has not been started")
        return self._app

    async def _start(self, details: Details) -> dict[str, Any]:
        plan = BrokerPlan(**details["plan"])
        self._on_birth(f"broker-{plan.id}")
        app = self._app = BrokerApp(plan, lambda line: self._parent.tell("progress", line=line))

        async def gate() -> None:
            await self._parent.ask("may-elect")

        await app.start(gate)
        self._in_background(self._until_failed(app))
        broker = app.broker
        return {
            "ports": broker.listeners.ports,
            "endpoints": [astuple(endpoint) for endpoint in broker.endpoints],
            "inter_broker": broker.endpoint.listener,
            "metrics": app.metrics_url,
        }

    async def _view(self, unlike: int) -> dict[str, Any]:
        """The newest metadata, as soon as it is not what this number stands for."""
        broker = self._started.broker
        metadata = broker.parts.metadata
        if unlike == self._seen_number:
            before = self._seen
            await metadata.wait_for(lambda snapshot: snapshot is not before)
        if self._seen is not metadata.snapshot:
            self._seen = metadata.snapshot
            self._seen_number += 1
        return {
            "number": self._seen_number,
            "is_controller": broker.is_controller,
            **views.packed(metadata.snapshot),
        }

    def _terminated(self) -> None:
        """SIGTERM: the first asks for a controlled shutdown, the second does not wait for it."""
        if self._is_stopping:
            os._exit(CUT_SHORT)
        else:
            self._stop(hand_over=True)

    def _stop(self, *, hand_over: bool) -> None:
        if self._app is not None and not hand_over:
            # Whoever sends signals to a whole group of processes has sent one here first.
            self._app.forgo_hand_over()
        if not self._is_stopping:
            self._is_stopping = True
            self._in_background(self._go_down(hand_over=hand_over))

    async def _go_down(self, *, hand_over: bool) -> None:
        if self._app is not None:
            await self._app.stop(hand_over=hand_over)
        self._finish(STOPPED)

    async def _until_failed(self, app: BrokerApp) -> None:
        await app.failed()
        if not self._is_stopping:
            self._finish(STOPPED_BY_ITSELF)

    def _finish(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)

    def _in_background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("the broker failed", exc_info=error)
            self._finish(FAILED)
