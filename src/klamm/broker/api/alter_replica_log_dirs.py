"""AlterReplicaLogDirs (key 34), versions 0-2: in which of its directories a broker keeps a log.

The answer says that a move has begun, not that it is over: DescribeLogDirs shows the copy as a
future log with its lag, for as long as there is one. Where the replica is not here yet the answer
is REPLICA_NOT_AVAILABLE, and the wish is remembered until the replica is made.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.log.partition import StorageTrouble
from klamm.model.errors import ErrorCode, StoreUnavailable
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.ALTER_REPLICA_LOG_DIRS, "cluster")
_PATIENCE_S: Final = 1.0


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    parts.access.demand(context, _CLUSTER)
    # A limit that was set before the move holds for it from its first byte.
    with suppress(TimeoutError, StoreUnavailable):
        async with asyncio.timeout(_PATIENCE_S):
            await parts.dynamic_config.caught_up()
    return _answer(
        {partition: _alter(parts, partition, path) for partition, path in _wanted(request).items()}
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """Every partition asked for fails alike."""
    return _answer(dict.fromkeys(_wanted(request), code))


def _alter(parts: Parts, partition: TopicPartition, path: str) -> ErrorCode:
    try:
        return parts.relocations.alter(partition, path)
    except StorageTrouble as trouble:
        parts.storage_trouble(trouble)
        return ErrorCode.KAFKA_STORAGE_ERROR


def _wanted(request: Request) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _answer(codes: dict[TopicPartition, ErrorCode]) -> Response:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), code in codes.items():
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(index, code))
    return Response(results=list(topics.values()))
