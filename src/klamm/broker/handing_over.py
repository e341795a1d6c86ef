"""The first step of a controlled shutdown: others take this broker's leaderships over.

As patient as Kafka's settings say, but asking again sooner: most of what is in the way is gone
within milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from typing import Final

from klamm.broker.controller_channel import ControllerUnreachable
from klamm.broker.parts import Parts
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import controlled_shutdown

log = logging.getLogger(__name__)

OnLeft = Callable[[int], None]  # told how many leaderships are left to hand over

_VERSION: Final = 3
_FIRST_PAUSE_S: Final = 0.05


class HandOver:
    """Asks the controller to move leaderships, as far as others can take them."""

    def __init__(self, on_left: OnLeft | None) -> None:
        self._on_left = on_left
        self._is_forgone = asyncio.Event()

    def forgo(self) -> None:
        """Wait for nobody: there is none left to take anything."""
        self._is_forgone.set()

    async def run(self, parts: Parts) -> None:
        """Return when others have taken what they can, or patience is over."""
        settings = parts.settings
        if not settings.bool("controlled.shutdown.enable"):
            return
        pause_s = settings.int("controlled.shutdown.retry.backoff.ms") / 1000
        patience_s = pause_s * settings.int("controlled.shutdown.max.retries")
        deadline_ms = parts.clock.elapsed_ms() + patience_s * 1000
        next_pause_s = min(_FIRST_PAUSE_S, pause_s)
        while parts.metadata.snapshot.brokers.keys() - {parts.id} and not self._is_forgone.is_set():
            left = await _left(parts)
            if left is not None and self._on_left is not None:
                self._on_left(left)
            if left == 0 or parts.clock.elapsed_ms() > deadline_ms:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(next_pause_s):
                    await self._is_forgone.wait()
            next_pause_s = min(2 * next_pause_s, pause_s)


async def _left(parts: Parts) -> int | None:
    """The number of leaderships that others can still take; None where no controller answers."""
    request = controlled_shutdown.Request(parts.id, parts.epoch)
    try:
        answer = await parts.channel.request(ApiKey.CONTROLLED_SHUTDOWN, _VERSION, request)
    except ControllerUnreachable as fault:
        log.info("controlled shutdown found no controller", extra={"why": str(fault)})
        return None
    left = [TopicPartition(*astuple(p)) for p in answer.remaining_partitions]
    log.info("controlled shutdown", extra={"code": answer.error_code, "remaining": len(left)})
    if answer.error_code:
        return None
    return sum(_may_be_taken_over(parts, each) for each in left)


def _may_be_taken_over(parts: Parts, partition: TopicPartition) -> bool:
    """Whether another replica is there, which may be in sync in a moment."""
    snapshot = parts.metadata.snapshot
    found = snapshot.partition(partition)
    others = snapshot.brokers.keys() - {parts.id}
    return found is not None and not others.isdisjoint(found.replicas)
