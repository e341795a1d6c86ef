"""LeaderAndIsr (4), versions 0-7: the controller makes this broker lead or follow partitions."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.broker.replicas.orders import Order, orders_of
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrTopicError,
    Request,
    Response,
)

BROKERS_ONLY: Final = True


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    return _response(*await parts.replicas.obey(request))


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The whole request fails, and so does each partition of it."""
    return _response(code, ((order, code) for order in orders_of(request)))


def _response(code: ErrorCode, results: Iterable[tuple[Order, ErrorCode]]) -> Response:
    topics: dict[uuid.UUID, list[LeaderAndIsrPartitionError]] = {}
    flat: list[LeaderAndIsrPartitionError] = []
    for order, partition_code in results:
        topic, index = order.topic_partition
        error = LeaderAndIsrPartitionError(topic, index, partition_code)
        flat.append(error)
        topics.setdefault(order.topic_id, []).append(error)
    return Response(
        error_code=code,
        partition_errors=flat,
        topics=[LeaderAndIsrTopicError(topic_id, errors) for topic_id, errors in topics.items()],
    )
