"""Keeps which brokers of the cluster are not klamm's.

A registration says whether its broker can prove itself: klamm's can, Apache Kafka's cannot. The
store is read again when its list of brokers may have changed and somebody asks; while it is away
the last answer holds.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from klamm.broker.clock import Clock
from klamm.model.errors import StoreUnavailable
from klamm.model.names import BrokerId
from klamm.store import layout
from klamm.store.port import Session, Unwatch

_LOOK_S: Final = 2.0  # nobody waits longer for the store
_PAUSE_MS: Final = 5_000  # after a look that came to nothing


class Host(Protocol):
    """The services this needs of its broker."""

    @property
    def session(self) -> Session: ...


class Foreigners:
    """The live brokers that are not klamm's, as one broker knows them."""

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._known: frozenset[BrokerId] = frozenset()
        self._is_stale = True
        self._not_before_ms = 0
        self._session: Session | None = None  # the one that is watched
        self._unwatch: Unwatch | None = None
        self._lock = asyncio.Lock()

    async def found(self) -> frozenset[BrokerId]:
        """The ids of those that are registered now."""
        if self._session is not self._host.session:
            self._watch(self._host.session)
        if self._is_stale:
            async with self._lock:
                if self._is_stale and self._clock.elapsed_ms() >= self._not_before_ms:
                    await self._look()
        return self._known

    def _watch(self, session: Session) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._session = session
        self._unwatch = session.watch_children(layout.BROKER_IDS, self._hinted)
        self._is_stale = True

    def _hinted(self) -> None:
        self._is_stale = True

    async def _look(self) -> None:
        # Before the look: what changes meanwhile is a reason for another one.
        self._is_stale = False
        session = self._host.session
        try:
            async with asyncio.timeout(_LOOK_S):
                names = await session.children(layout.BROKER_IDS) or ()
                ids = [BrokerId(int(name)) for name in names if name.isdecimal()]
                nodes = await session.get_many([layout.broker_path(each) for each in ids])
        except (StoreUnavailable, TimeoutError):
            self._is_stale = True
            self._not_before_ms = self._clock.elapsed_ms() + _PAUSE_MS
            return
        known = {
            each: layout.decode_broker(each, node.data, node.stat.czxid)
            for each, node in zip(ids, nodes, strict=True)
            if node is not None
        }
        self._known = frozenset(
            each for each, broker in known.items() if broker is None or not broker.can_prove
        )
