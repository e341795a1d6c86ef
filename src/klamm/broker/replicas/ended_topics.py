"""Finds topics that have ended without this broker being told.

The controller before may have ended a topic and died before all brokers had heard of it. Its
successor never knew that topic, so nobody else would tell. Nor is a broker told what ended while it
was fenced.
"""

from __future__ import annotations

import asyncio
from typing import Final

from klamm.broker.ground import Ground
from klamm.broker.replicas.authority import WITHIN_S
from klamm.model.errors import StoreUnavailable
from klamm.model.names import TopicPartition
from klamm.store import layout
from klamm.store.port import ANY_VERSION, Check

_SILENCE_MS: Final = 5_000  # after which a broker may have missed something


class EndedTopics:
    """The topics of a broker's metadata that the store does not have any more."""

    def __init__(self, ground: Ground) -> None:
        self.found: frozenset[str] = frozenset()  # to forget with the next metadata
        self._compared_epoch = -1  # the controller whose topics were compared with the store's
        self._heard_ms = 0  # when a controller last told of the cluster
        self._ground = ground

    async def look(self, controller_epoch: int) -> None:
        """Compares with the store, when a controller speaks anew or after a silence."""
        known = self._ground.metadata.snapshot.topics.keys()
        now_ms = self._ground.clock.elapsed_ms()
        silent_ms, self._heard_ms = now_ms - self._heard_ms, now_ms
        if not known or (controller_epoch == self._compared_epoch and silent_ms < _SILENCE_MS):
            return
        try:
            async with asyncio.timeout(WITHIN_S):
                ended = known - await self._topics_stored()
                if ended:
                    # The store may have answered from the past; not after a write of our own.
                    await self._ground.session.multi([Check(layout.TOPICS, ANY_VERSION)])
                    ended = known - await self._topics_stored()
        except (StoreUnavailable, TimeoutError):
            return  # the next request is another occasion
        self._compared_epoch = controller_epoch
        self.found = frozenset(ended)

    def forget(self) -> frozenset[TopicPartition]:
        """Takes what was found out of the metadata; the partitions that are gone with it."""
        ended, self.found = self.found, frozenset()
        return self._ground.metadata.forget(ended)

    async def _topics_stored(self) -> set[str]:
        return set(await self._ground.session.children(layout.TOPICS) or ())
