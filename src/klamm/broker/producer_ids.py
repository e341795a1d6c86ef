"""Producer ids, unique in the cluster: the controller gives out blocks, a broker hands out ids.

A block that was claimed and not used up is lost when the broker stops; there are enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from klamm.broker.controller_channel import ControllerChannel, ControllerUnreachable
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.allocate_producer_ids import Request, Response

_VERSION: Final = 0
_TRIES: Final = 20
_PAUSE_S: Final = 0.1


class ProducerIds:
    """The ids one broker may hand out."""

    def __init__(
        self, channel: ControllerChannel, broker: BrokerId, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._broker = broker
        self._broker_epoch = broker_epoch
        self._lock = asyncio.Lock()
        self._next = self._end = 0

    async def take(self) -> int | ErrorCode:
        """A producer id nobody has or had, or why there is none now."""
        async with self._lock:
            if self._next == self._end:
                code = await self._claim()
                if code is not ErrorCode.NONE:
                    return code
            self._next += 1
            return self._next - 1

    async def _claim(self) -> ErrorCode:
        request = Request(self._broker, self._broker_epoch())
        for _ in range(_TRIES):
            try:
                answer = await self._channel.request(
                    ApiKey.ALLOCATE_PRODUCER_IDS, _VERSION, request
                )
            except ControllerUnreachable:
                await asyncio.sleep(_PAUSE_S)
                continue
            assert isinstance(answer, Response)
            if not answer.error_code:
                self._next = answer.producer_id_start
                self._end = self._next + answer.producer_id_len
                return ErrorCode.NONE
            request = Request(self._broker, self._broker_epoch())
            await asyncio.sleep(_PAUSE_S)
        # A client takes this as "try again".
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
