"""The controller's queue: what has happened and waits for its turn.

A broker's failure is dealt with before anything else, then brokers that want to leave, then ISR
changes and answers, then what clients and operators want, and timers last; within one rank the
order is that of arrival. The same hint is queued once, however often it came: it says nothing that
the reading of the facts would not show.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from typing import Final, NamedTuple

from klamm.broker.term.observing import BrokersHint, Hint, IsrChangesHint
from klamm.controller import events


class Rank(IntEnum):
    """Whose turn comes first."""

    BROKER = 0
    SHUTDOWN = 1
    ISR = 2
    ADMIN = 3
    TIMER = 4


_RANKS: Final[dict[type, Rank]] = {
    BrokersHint: Rank.BROKER,
    events.BrokersChanged: Rank.BROKER,
    events.BrokerUnreachable: Rank.BROKER,
    events.BrokerReached: Rank.BROKER,
    events.ShutdownAsked: Rank.SHUTDOWN,
    events.IsrChangesAsked: Rank.ISR,
    IsrChangesHint: Rank.ISR,
    events.LeaderAndIsrAnswered: Rank.ISR,
    events.RebalanceDue: Rank.TIMER,
    events.RetryDue: Rank.TIMER,
}


class Letter(NamedTuple):
    """One thing to deal with, and who waits for the answer."""

    content: Hint | events.Event
    answer: asyncio.Future[object] | None = None
    put_s: float = 0.0  # when it came, by the clock that only runs forward
    by: str = ""  # who asked for it, where somebody did


class Inbox:
    """A queue with ranks."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, Letter]] = []
        self._hints: set[Hint] = set()
        self._order: Iterator[int] = count()
        self._arrived = asyncio.Event()
        self.is_over = False  # nobody looks at what comes any more

    def __len__(self) -> int:
        return len(self._heap)

    def put(
        self,
        content: Hint | events.Event,
        answer: asyncio.Future[object] | None = None,
        by: str = "",
    ) -> None:
        """Queue something, perhaps because somebody asked for it."""
        if isinstance(content, Hint):
            if content in self._hints:
                return
            self._hints.add(content)
        rank = _RANKS.get(type(content), Rank.ADMIN)
        letter = Letter(content, answer, time.perf_counter(), by)
        heapq.heappush(self._heap, (rank, next(self._order), letter))
        self._arrived.set()

    def sizes(self) -> Counter[str]:
        """The number of waiting events of each kind; counted when asked, for few wait."""
        return Counter(type(letter.content).__name__ for _, _, letter in self._heap)

    async def get(self) -> Letter:
        """The next letter; waits until there is one."""
        while not self._heap:
            self._arrived.clear()
            await self._arrived.wait()
        return self._pop()

    def _pop(self) -> Letter:
        _, _, letter = heapq.heappop(self._heap)
        if isinstance(letter.content, Hint):
            self._hints.discard(letter.content)
        return letter

    def take_urgent(self) -> Letter | None:
        """The letter that must not wait for the rest of a long piece of work, if there is one."""
        if not self._heap or self._heap[0][0] > Rank.SHUTDOWN:
            return None
        return self._pop()

    def drain(self) -> list[Letter]:
        """Everything that will not be dealt with any more; the queue is over with it."""
        self.is_over = True
        letters = [letter for _, _, letter in self._heap]
        self._heap.clear()
        self._hints.clear()
        return letters
