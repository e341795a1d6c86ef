"""StopReplica (5), versions 0-4: the controller takes replicas from this broker.

The answer means that the logs have been put aside, not that their space is free yet.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.messages.stop_replica import Request, Response, StopReplicaPartitionError

BROKERS_ONLY: Final = True


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    code, results = await parts.replicas.stop(request)
    return Response(
        error_code=code,
        partition_errors=[
            StopReplicaPartitionError(*stop.topic_partition, partition_code)
            for stop, partition_code in results
        ],
    )
