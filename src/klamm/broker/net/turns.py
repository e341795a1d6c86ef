"""Large pieces of work on a loop that everybody shares.

All brokers of a process are served by one loop, and whoever works on it keeps all others waiting.
So what may take longer is cut into slices of a few milliseconds, and in each turn of the loop one
slice of one such piece of work is done, however many there are: a client with a small request waits
for one slice, not for one of each.

    async for topic in in_turns(request.topics):
        ...
    body = await finished(codec.encode_response_in_steps(...))

What is read and answered takes many times the memory of its bytes. `Places` lets only so much of it
in at a time; the others keep to their bytes until it is their turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from klamm.protocol.bounds import RequestKind, kind_of

_SLICE_S: Final = 0.004
# Requests of up to this size are read in one go: they cannot hold enough to keep others waiting.
LARGE: Final = 8 * 1024
# So many bytes of large requests are read, worked on and answered at a time, and what is larger
# than that alone. A byte can become an item of a hundred.
_PLACES_BYTES: Final = 512 * 1024

_ASKED_AT_ONCE: Final = 1_000

_T = TypeVar("_T")


class _Queue:
    """Those that wait for their next slice, of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_calling = False

    async def wait(self) -> None:
        """Come back when it is one's turn, in the next turn of the loop at the earliest."""
        future = self._loop.create_future()
        self._waiting.append(future)
        if not self._is_calling:
            self._is_calling = True
            self._loop.call_soon(self._call)
        await future

    def _call(self) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                break
        self._is_calling = bool(self._waiting)
        if self._is_calling:
            self._loop.call_soon(self._call)


class Places:
    """So much of large requests as may be in the works at a time. First come, first served."""

    def __init__(self, capacity: int = _PLACES_BYTES) -> None:
        self._capacity = capacity
        self._taken = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def weight(self, size: int) -> int:
        """For how much a request of this size counts."""
        return min(size, self._capacity)

    async def enter(self, weight: int) -> None:
        if not self._waiting and self._taken + weight <= self._capacity:
            self._taken += weight
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((future, weight))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave(weight)
            raise

    def leave(self, weight: int) -> None:
        self._taken -= weight
        while self._waiting:
            future, wanted = self._waiting[0]
            if not future.done():
                if self._taken + wanted > self._capacity:
                    return
                self._taken += wanted
                future.set_result(None)
            self._waiting.popleft()


_queues: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue]] = WeakKeyDictionary()
_places: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Places]] = WeakKeyDictionary()


def _queue() -> _Queue:
    loop = asyncio.get_running_loop()
    found = _queues.get(loop)
    if found is None:
        found = _queues[loop] = _Queue(loop)
    return found


def places() -> Places:
    """The places of all brokers of this loop."""
    loop = asyncio.get_running_loop()
    found = _places.get(loop)
    if found is None:
        found = _places[loop] = Places()
    return found


class Place:
    """A place among the large requests in the works."""

    def __init__(self, weight: int) -> None:
        self._weight = weight
        self._is_in = False

    async def enter(self) -> None:
        if self._weight:
            await places().enter(self._weight)
            self._is_in = True

    def leave(self) -> None:
        """Make room for the next, as soon as what is left to do is to wait for others."""
        if self._is_in:
            self._is_in = False
            places().leave(self._weight)


@asynccontextmanager
async def place_for(key: int, size: int) -> AsyncIterator[Place]:
    """A place for a request of this size, when there is one. Brokers need none."""
    # Whoever has a place may wait for brokers: were these to wait for a place, nobody would go on.
    place = Place(0 if kind_of(key) is RequestKind.BROKERS else places().weight(size))
    await place.enter()
    try:
        yield place
    finally:
        place.leave()


class Turn:
    """One's time on the loop. It begins when it is made, and again after each pause."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + _SLICE_S

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._until

    async def next(self) -> None:
        """Let others in, and come back when it is one's turn again."""
        await _queue().wait()
        self._until = perf_counter() + _SLICE_S


def in_parts(items: Sequence[_T] | None) -> Iterator[tuple[_T, ...] | None]:
    """The same for the controller, which does one thing at a time: so many of them in one question.

    There is always a question. None, for all there are, is one.
    """
    if items is None:
        yield None
        return
    for at in range(0, max(len(items), 1), _ASKED_AT_ONCE):
        yield tuple(items[at : at + _ASKED_AT_ONCE])


async def in_turns(items: Iterable[_T]) -> AsyncIterator[_T]:
    """The same items, with pauses between them as often as others need them."""
    turn = Turn()
    for item in items:
        if turn.is_over:
            await turn.next()
        yield item


async def finished(steps: Generator[None, None, _T]) -> _T:
    """The result of work in steps, with pauses between them as often as others need them."""
    turn = Turn()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: _T = end.value
            return made
        if turn.is_over:
            await turn.next()
