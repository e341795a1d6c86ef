"""StopReplica (5), versions 0-4: the controller takes replicas from this broker.

The answer means that the logs have been put aside, not that their space is free yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.broker.replicas.orders import Stop, stops_of
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.stop_replica import Request, Response, StopReplicaPartitionError

BROKERS_ONLY: Final = True


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    return _response(*await parts.replicas.stop(request))


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The whole request fails, and so does each partition of it."""
    return _response(code, ((stop, code) for stop in stops_of(request)))


def _response(code: ErrorCode, results: Iterable[tuple[Stop, ErrorCode]]) -> Response:
    return Response(
        error_code=code,
        partition_errors=[
            StopReplicaPartitionError(*stop.topic_partition, partition_code)
            for stop, partition_code in results
        ],
    )
