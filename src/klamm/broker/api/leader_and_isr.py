"""LeaderAndIsr (4), versions 0-7: the controller makes this broker lead or follow partitions."""

from __future__ import annotations

import uuid
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrTopicError,
    Request,
    Response,
)

BROKERS_ONLY: Final = True


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    code, results = await parts.replicas.obey(request)
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
