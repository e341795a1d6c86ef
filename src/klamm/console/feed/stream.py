"""The stream: what is on a page is pushed to it.

A wish is the address of a view's JSON. All viewers with one wish share a watch: its values are made
once after a change, and only the difference goes out. A viewer holds no queue, only the number of
the last difference it was sent; one that fell too far behind gets the whole again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from klamm.console.feed.differing import SAME, difference
from klamm.console.problems import Problem

log = logging.getLogger(__name__)

STREAMS_MAX: Final = 200
STREAMS_A_SESSION: Final = 16
STREAMS_NAMELESS: Final = 150  # of those who have not signed in: the rest is for who has
WISHES_MAX: Final = 20
_HISTORY: Final = 30
_SMALL: Final = 4_096  # changes of so many bytes are sent without a look at the whole
_PACE_S: Final = 0.2  # a viewer gets a frame so often at most
_PULSE_S: Final = 5.0
_COST: Final = 40  # a view is made anew so rarely that it takes a fortieth of a core at most

Build = Callable[[], Any]


@dataclass(slots=True)
class Watch:
    """One wish, shared by all who have it."""

    wish: str
    build: Build
    rev: int = 0
    seen: int = -1  # the revision of the picture that it was made from
    value: Any = None
    encoded: tuple[int, bytes] = (0, b"")  # the last whole that somebody needed
    steps: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    users: int = 0
    due: float = 0.0

    def renew(self, picture_rev: int, now: float) -> bool:
        """Makes the values anew where the picture changed and the time has come."""
        if self.seen == picture_rev or now < self.due:
            return False
        began = time.perf_counter()
        self.seen = picture_rev
        try:
            value = self.build()
        except Problem as problem:
            value = {"problem": problem.body()}
        except Exception:
            # One view that cannot be made must not end the stream of all the others.
            log.exception("a view cannot be made", extra={"view": self.wish})
            value = {"problem": Problem(500, "this view cannot be made; see the log").body()}
        change = SAME if self.rev == 0 else difference(self.value, value)
        took = time.perf_counter() - began
        if self.rev and change is SAME:
            self.due = now + took * _COST  # nothing went out, so only the work counts
            return False
        self.due = now + max(_PACE_S, took * _COST)
        self.rev += 1
        self.value = value
        if self.rev > 1:
            body = {"want": self.wish, "rev": self.rev, "change": change}
            self.steps.append((self.rev, _frame("view", body)))
        return True

    def since(self, rev: int) -> bytes:
        """The frames that bring a viewer from one revision to the last."""
        if rev == self.rev:
            return b""
        steps = [frame for number, frame in self.steps if number > rev]
        if rev == 0 or len(steps) < self.rev - rev:
            return self.whole
        changes = b"".join(steps)
        if len(changes) <= _SMALL:
            return changes
        return min(changes, self.whole, key=len)

    @property
    def whole(self) -> bytes:
        """All values in one frame, for whoever comes or has fallen behind."""
        if self.encoded[0] != self.rev:
            body = {"want": self.wish, "rev": self.rev, "whole": self.value}
            self.encoded = (self.rev, _frame("view", body))
        return self.encoded[1]


class Hub:
    """All watches and all viewers."""

    def __init__(self, picture_rev: Callable[[], int]) -> None:
        self._picture_rev = picture_rev
        self._watches: dict[tuple[str, object], Watch] = {}
        self._wakes: set[asyncio.Event] = set()
        self._news = asyncio.Event()
        self.streams = 0

    def changed(self) -> None:
        """The picture changed."""
        self._news.set()

    async def run(self) -> None:
        """Renews what somebody watches, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            now = time.monotonic()
            rev = self._picture_rev()
            watches = list(self._watches.values())
            for watch in watches:
                watch.renew(rev, now)
            self.stir()
            late = [watch.due for watch in watches if watch.seen != rev]
            if late:
                await asyncio.sleep(max(0.02, min(late) - time.monotonic()))
                self._news.set()

    def stir(self) -> None:
        """Has every viewer look for something to be sent."""
        for wake in self._wakes:
            wake.set()

    def watch(self, wish: str, key: object, build: Build) -> Watch:
        """The watch of a wish; `key` tells viewers apart who may see different things."""
        found = self._watches.get((wish, key))
        if found is None:
            found = self._watches[wish, key] = Watch(wish, build)
            found.renew(self._picture_rev(), time.monotonic())
        found.users += 1
        return found

    def unwatch(self, watch: Watch, key: object) -> None:
        """One viewer less."""
        watch.users -= 1
        if watch.users == 0:
            self._watches.pop((watch.wish, key), None)

    async def frames(
        self,
        wishes: list[tuple[str, Build]],
        key: object,
        pulse: Callable[[], tuple[Any, Any]],
        ended: asyncio.Event,
    ) -> AsyncGenerator[bytes, None]:
        """The frames of one viewer. `pulse` gives what is told of all, and what of it counts."""
        wake = asyncio.Event()
        self._wakes.add(wake)
        watches = [self.watch(wish, key, build) for wish, build in wishes]
        sent = dict.fromkeys(range(len(watches)), 0)
        told: Any = None
        told_at = 0.0
        try:
            while not ended.is_set():
                wake.clear()
                body, counts = pulse()
                frame = b""
                if counts != told or time.monotonic() - told_at >= _PULSE_S:
                    told, told_at = counts, time.monotonic()
                    frame = _frame("pulse", body)
                changes = b""
                for number, watch in enumerate(watches):
                    changes += watch.since(sent[number])
                    sent[number] = watch.rev
                if frame or changes:
                    yield frame + changes
                if changes:  # a pulse alone does not hold up what comes next
                    await asyncio.sleep(_PACE_S)
                await _either(wake, ended, _PULSE_S)
            yield _frame("bye", {"reason": "signed out"})
        finally:
            self._wakes.discard(wake)
            for watch in watches:
                self.unwatch(watch, key)


async def _either(wake: asyncio.Event, ended: asyncio.Event, timeout_s: float) -> None:
    waits = [asyncio.ensure_future(wake.wait()), asyncio.ensure_future(ended.wait())]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _frame(event: str, body: Any) -> bytes:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=True)
    return f"event: {event}\ndata: {text}\n\n".encode()
