"""Story (private, key 1000): what this broker decided while it was the controller.

Asked with `{"topic": name or null, "limit": how many of the latest}`; answers `entries`, oldest
first. Any broker answers for itself: who wants the whole story asks all of them and merges by
(controller_epoch, sequence).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from klamm.model.errors import ErrorCode

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext
    from klamm.broker.server import Broker

_LIMIT: Final = 10_000


async def handle(
    broker: Broker, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    topic = request.get("topic")
    limit = min(int(request.get("limit") or _LIMIT), _LIMIT)

    def latest() -> list[dict[str, object]]:
        return list(deque(broker.controller.story(topic), maxlen=limit))

    return {
        "error_code": ErrorCode.NONE,
        "broker": broker.id,
        "entries": await broker.in_worker(latest),
    }
