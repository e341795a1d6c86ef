"""Decides whether a controller is obeyed.

What an old controller says is refused, and so is what one says whose epoch the store does not know:
an epoch that was made up would fence the real controllers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from klamm.broker.ground import Ground
from klamm.model.errors import ErrorCode, ProtocolError, StoreUnavailable
from klamm.model.names import NO_EPOCH
from klamm.store import layout
from klamm.store.port import ANY_VERSION, Check, Session

log = logging.getLogger(__name__)

WITHIN_S: Final = 2.0  # a controller's word must not wait long for the store


class Obedience:
    """The newest controller that a broker has heard of."""

    def __init__(self, ground: Ground) -> None:
        self.epoch = -1  # the highest that has ordered anything
        self._ground = ground

    async def refusal(self, broker_epoch: int, controller_epoch: int) -> ErrorCode:
        """The error for a controller that is not obeyed; NONE for one that is."""
        # An epoch above our own is one we have registered but not been told of yet.
        if broker_epoch != NO_EPOCH and broker_epoch < self._ground.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if controller_epoch > self.epoch:
            if not await self._is_elected(controller_epoch):
                log.error(
                    "a controller that nobody elected is not obeyed",
                    extra={"claimed": controller_epoch, "known": self.epoch},
                )
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            self.epoch = controller_epoch
        return ErrorCode.NONE

    async def _is_elected(self, epoch: int) -> bool:
        session = self._ground.session
        try:
            async with asyncio.timeout(WITHIN_S):
                if await _epoch_stored(session) >= epoch:
                    return True
                # The store may have answered from the past; not after a write of our own.
                await session.multi([Check(layout.CONTROLLER_EPOCH, ANY_VERSION)])
                return await _epoch_stored(session) >= epoch
        except (StoreUnavailable, TimeoutError):
            # Without an answer the controller asks again, and the store may be back by then.
            raise ProtocolError(
                "the store is away, and nobody else knows who was elected"
            ) from None


async def _epoch_stored(session: Session) -> int:
    node = await session.get(layout.CONTROLLER_EPOCH)
    epoch = layout.decode_controller_epoch(node.data) if node is not None else None
    return -1 if epoch is None else epoch
