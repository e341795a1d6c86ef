"""One broker's process, as its parent sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Final

from klamm.app import views
from klamm.app.conversation import Details, HungUp, ParentTalk
from klamm.app.nursery import Nursery
from klamm.app.one_broker import BrokerPlan
from klamm.app.running import Gate
from klamm.app.supervised import CUT_SHORT, STOPPED_BY_ITSELF
from klamm.model.brokers import Endpoint
from klamm.model.errors import KlammError, UsageError
from klamm.view import BrokerView

_STOPPED_STATES: Final = ("T", "t")
_SIGNALLED_WITHIN_S: Final = 0.2


class ProcessState(StrEnum):
    """The state of a broker of a local cluster."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"  # in order
    KILLED = "killed"  # by a signal
    FAILED = "failed"  # by itself


class BrokerProcess:
    """A process from its birth to its end."""

    def __init__(self, plan: BrokerPlan, gate: Gate, progress: Callable[[str], None]) -> None:
        self.plan = plan
        self.pid = 0
        self.ports: dict[str, int] = {}  # by listener
        self.endpoints: tuple[Endpoint, ...] = ()  # where clients are sent, one a listener
        self.metrics_url = ""
        self._inter_broker = ""  # the listener between brokers
        self.is_controller = False  # as it was told last
        self.is_expected_to_end = False
        self._was_paused = False  # by us
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._gate = gate
        self._progress = progress
        self._talk: ParentTalk
        self._talking: asyncio.Task[None]
        self._number = 0  # of the view it told last
        self._view = BrokerView(views.NOTHING)

    @property
    def id(self) -> int:
        assert self.plan.id is not None, "the brokers of a local cluster are numbered"
        return self.plan.id

    @property
    def endpoint(self) -> Endpoint:
        """The address at which other brokers reach it."""
        return next(each for each in self.endpoints if each.listener == self._inter_broker)

    async def bear(self, nursery: Nursery) -> None:
        """Have the process forked."""
        ours, its = socket.socketpair()
        with its:
            self.pid = await nursery.bear(its)
        self._talk = await ParentTalk.over(ours, serve=self._serve, hear=self._hear)
        self._talking = asyncio.create_task(self._talk.run(), name=f"broker-{self.id}-talk")

    async def start(self) -> None:
        """Return when it serves clients; the error it met where it cannot."""
        try:
            told = await self._talk.ask("start", plan=asdict(self.plan))
        except HungUp:
            status = await self.ended
            raise KlammError(f"broker {self.id} {end_of(status)} while it started") from None
        self.ports, self.metrics_url = told["ports"], told["metrics"]
        self.endpoints = tuple(Endpoint(*each) for each in told["endpoints"])
        self._inter_broker = told["inter_broker"]

    async def rest(self) -> None:
        """Have it be no controller any more, and nobody take that for a loss."""
        await self._talk.ask("rest")

    async def stop(self, *, hand_over: bool) -> None:
        """Have it go down in order."""
        self.is_expected_to_end = True
        if self.is_paused:
            self.resume()
        self._talk.tell("stop", hand_over=hand_over)
        await asyncio.shield(self.ended)

    async def kill(self) -> None:
        """kill -9."""
        self.is_expected_to_end = True
        self._signal(signal.SIGKILL)
        await asyncio.shield(self.ended)

    @property
    def is_paused(self) -> bool:
        """Whether it is there and does nothing, at our word or at somebody else's kill -STOP."""
        state = _state_of(self.pid)
        return self._was_paused if state is None else state in _STOPPED_STATES

    def pause(self) -> None:
        """SIGSTOP: it is there and does nothing."""
        self._signal(signal.SIGSTOP)
        self._was_paused = True
        self._await(is_paused=True)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self._was_paused = False
        self._await(is_paused=False)

    def _await(self, *, is_paused: bool) -> None:
        """A signal takes a moment to arrive."""
        deadline = time.monotonic() + _SIGNALLED_WITHIN_S
        while self.is_paused is not is_paused and time.monotonic() < deadline:
            time.sleep(0.001)

    async def view(self, *, newer: bool = False) -> BrokerView:
        """The metadata it has now, or with `newer` as soon as it is not what it told last."""
        told = await self._talk.ask("view", unlike=self._number if newer else -1)
        if told["number"] != self._number:
            self._number, self._view = told["number"], BrokerView(views.unpacked(told))
        self.is_controller = bool(told["is_controller"])
        return self._view

    async def hang_up(self) -> None:
        """Talk no more to it; it takes that for its parent's death."""
        self._talking.cancel()
        await asyncio.gather(self._talking, return_exceptions=True)
        await self._talk.closed()

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended.done():
            os.kill(self.pid, number)

    async def _serve(self, what: str, details: Details) -> object:
        if what != "may-elect":
            raise UsageError(f"the parent of a broker cannot {what}")
        await self._gate()
        return None

    def _hear(self, what: str, details: Details) -> None:
        if what == "progress":
            self._progress(f"broker {self.id}: {details['line']}")


def _state_of(pid: int) -> str | None:
    """The letter by which Linux tells what a process is doing; None where there is none."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name before it may hold anything.
    return told.rpartition(")")[2].split()[0]


_WORDS: Final[dict[int, str]] = {
    0: "stopped",
    CUT_SHORT: "stopped at a second SIGTERM",
    STOPPED_BY_ITSELF: "stopped by itself, mostly because its disks failed",
}


def end_of(status: int) -> str:
    """The end of a process in words; the status is that of `os.waitpid`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"was killed by {signal.Signals(number).name}"
    code = os.waitstatus_to_exitcode(status)
    return _WORDS.get(code, f"failed with exit code {code}")


def state_after(status: int) -> ProcessState:
    """The state of a broker whose process has ended like this."""
    if os.WIFSIGNALED(status):
        return ProcessState.KILLED
    return (
        ProcessState.STOPPED
        if os.waitstatus_to_exitcode(status) in (0, CUT_SHORT)
        else ProcessState.FAILED
    )


def is_own_failure(status: int) -> bool:
    """Whether it ended by itself, and not because somebody sent it a signal."""
    return state_after(status) is ProcessState.FAILED
