"""The introduction of a broker that has just started: what it must have heard before it speaks.

A controller tells a new broker who is there first, and what is where some moments later. Between
the two the broker's metadata has no topics, and a client that asks takes that for the truth. So a
broker counts as introduced when it has heard of itself and of every topic that the store shows,
but for those that no controller tells of: topics on their way out, and topics nobody ever led.
"""

from __future__ import annotations

import asyncio
from typing import Final

from klamm.broker.ground import Ground
from klamm.model.errors import StoreUnavailable
from klamm.store import layout

_LOOK_AGAIN_MS: Final = 500  # at the store, for topics that nobody tells of
_READ_MAX: Final = 1_000  # topics at a look; of more some are about to be told of


async def introduce(ground: Ground) -> None:
    """Return when the broker knows the cluster, and have its metadata say so."""
    await ground.metadata.wait_for(lambda snapshot: ground.id in snapshot.brokers)
    untold: frozenset[str] | None = None
    while untold is None or not await _are_told(ground, untold):
        try:
            untold = await _untold(ground, untold)
        except StoreUnavailable:
            await asyncio.sleep(_LOOK_AGAIN_MS / 1000)
    ground.metadata.introduce()


async def _are_told(ground: Ground, topics: frozenset[str]) -> bool:
    """Wait a little for these topics."""
    return await ground.metadata.wait_for(
        lambda snapshot: topics <= snapshot.topics.keys(), _LOOK_AGAIN_MS
    )


async def _untold(ground: Ground, before: frozenset[str] | None) -> frozenset[str]:
    """The topics that this broker has not heard of though somebody will tell; of those before.

    Only topics that were there at the first look count: others may come all the time.
    """
    session = ground.session
    stored = frozenset(await session.children(layout.TOPICS) or ())
    counted = stored if before is None else stored & before
    untold = counted - ground.metadata.snapshot.topics.keys()
    if untold:
        untold -= frozenset(await session.children(layout.DELETE_TOPICS) or ())
    if before is None or len(untold) > _READ_MAX:
        return untold  # most are on their way
    led = [name for name in untold if await session.children(layout.partitions_path(name))]
    return frozenset(led)
