"""The facts a term begins with, kept at hand by a broker that is not the controller.

Reading and parsing every topic and every partition's state is most of what a new controller does
before it can decide anything, and where the store is ZooKeeper it is the slow part. A standby has
done it before: it read everything once, and reads again what its watch on the whole tree names.
It does so when things are calm, for nobody waits for it.

What is at hand is never older than what a new controller would read. The watch tells of a change
before this session is answered anything that comes behind it (`Session.watch_tree`), the election
is such an answer, and after it the old controller's writes fail. So whatever changed until then is
known to have changed, and is read again before the term begins. A standby that may have missed
something, because its connection broke or its reading did not end, has nothing at hand; so has one
that does not know exactly the topics that there are. Whoever was elected then reads everything.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from klamm.broker.term.observing import Observer
from klamm.model.errors import StoreUnavailable
from klamm.model.leadership import Leadership
from klamm.model.names import TopicPartition
from klamm.model.topics import StoredTopic
from klamm.store import layout
from klamm.store.port import Session, Unwatch

log = logging.getLogger(__name__)

T = TypeVar("T")

# A burst of changes is read when nothing has come for this long, or after that many times this
# long: who is busy with them is not to be slowed down.
_CALM_S: Final = 2.0
_CALM_WAITS_MAX: Final = 15
# So many nodes are read at a time, so that others have their turn.
_STEP: Final = 500


class StoredFacts(NamedTuple):
    """Every topic and every state, as of one moment."""

    topics: dict[str, StoredTopic]
    states: dict[TopicPartition, Leadership]


class Standby:
    """Follows the store for one broker, until it is elected."""

    def __init__(self, session: Session, *, calm_s: float | None = None) -> None:
        self._session = session
        self._observer = Observer(session, draw_id=uuid.uuid4, watch=lambda *_: None)
        self._calm_s = _CALM_S if calm_s is None else calm_s
        self._facts = StoredFacts({}, {})
        self._stale: dict[str, None] = {}  # paths that may have changed since they were read
        self._is_whole = False  # whether everything else is as it was read
        self._has_missed = False  # anything may have changed since the reading of all began
        self._touched = asyncio.Event()
        self._unwatch: list[Unwatch] = [
            session.watch_tree(path, self._hear) for path in (layout.TOPICS, layout.TOPIC_CONFIGS)
        ]
        self._task = asyncio.create_task(self._follow(), name="controller-standby")

    @property
    def partitions_count(self) -> int:
        """The number of partitions whose states are at hand."""
        return len(self._facts.states) if self._is_whole else 0

    @property
    def is_current(self) -> bool:
        """Whether everything is at hand, and nothing is known to have changed since."""
        return self._is_whole and not self._stale

    async def close(self) -> None:
        """Forget everything."""
        await self._pause()
        self._forget()

    def _forget(self) -> None:
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch, self._facts, self._is_whole = [], StoredFacts({}, {}), False
        self._stale.clear()

    async def catch_up(self) -> StoredFacts | None:
        """The content of the store at this moment, for a newly elected controller; None: not known.

        Nothing is awaited between the moment and the return.
        """
        await self._pause()
        stale_count = len(self._stale)
        while self._is_whole:
            while self._stale and self._is_whole:
                await self._read_some()
            present = await self._session.children(layout.TOPICS) or ()
            if self._is_whole and not self._stale:
                if self._facts.topics.keys() == set(present):
                    log.info("what changed was read again", extra={"nodes": stale_count})
                    return self._facts
                log.warning("a standby knew other topics than there are: everything is read")
                return None
        return None

    async def _pause(self) -> None:
        """Read nothing more of its own accord."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _hear(self, paths: Collection[str]) -> None:
        self._stale.update(dict.fromkeys(paths))
        if layout.TOPICS in self._stale or layout.TOPIC_CONFIGS in self._stale:
            self._is_whole, self._has_missed = False, True
        self._touched.set()

    async def _follow(self) -> None:
        try:
            while True:
                await self._until_calm()
                await self._follow_once()
                if self.is_current:
                    await self._touched.wait()
        except Exception:
            # Nobody but a new controller would miss it, and that one reads everything.
            self._forget()
            log.exception("a standby failed and has nothing at hand any more")

    async def _until_calm(self) -> None:
        for _ in range(_CALM_WAITS_MAX):
            self._touched.clear()
            await asyncio.sleep(self._calm_s)
            if not self._touched.is_set():
                return

    async def _follow_once(self) -> None:
        try:
            if not self._is_whole:
                await self._read_all()
            while self._stale and self._is_whole:
                await self._read_some()
        except StoreUnavailable:
            self._is_whole = False  # when it is back, anything may have changed

    async def _read_all(self) -> None:
        facts = self._facts = StoredFacts({}, {})
        self._stale.clear()
        self._has_missed = False
        names = await self._session.children(layout.TOPICS) or ()
        for some in _in_steps(names):
            facts.topics.update(await self._observer.topics(some))
            await asyncio.sleep(0)
        every = (TopicPartition(name, p) for name, t in facts.topics.items() for p in t.partitions)
        for partitions in _in_steps(list(every)):
            facts.states.update(await self._observer.states(partitions))
            await asyncio.sleep(0)
        self._is_whole = not self._has_missed

    async def _read_some(self) -> None:
        """Read some of what is stale. What changes meanwhile is stale again."""
        some = list(islice(self._stale, _STEP))
        for path in some:
            del self._stale[path]
        try:
            names, partitions = _by_kind(some)
            topics = await self._observer.topics(names)
            states = await self._observer.states(partitions)
        except BaseException:
            self._stale.update(dict.fromkeys(some))
            raise
        for name in names:
            self._facts.topics.pop(name, None)
        for partition in partitions:
            self._facts.states.pop(partition, None)
        self._facts.topics.update(topics)
        self._facts.states.update(states)
        await asyncio.sleep(0)


def _in_steps(things: Sequence[T]) -> Iterable[Sequence[T]]:
    return (things[at : at + _STEP] for at in range(0, len(things), _STEP))


def _by_kind(paths: Iterable[str]) -> tuple[list[str], list[TopicPartition]]:
    """The topics and the states that paths are about; what is about neither is left out."""
    topics: dict[str, None] = {}
    states: list[TopicPartition] = []
    for path in paths:
        match path.split("/"):
            case ["", "brokers", "topics", name] | ["", "config", "topics", name]:
                topics[name] = None
            case ["", "brokers", "topics", name, "partitions", index, "state"] if index.isdigit():
                states.append(TopicPartition(name, int(index)))
    return list(topics), states
