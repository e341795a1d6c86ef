"""DescribeLogDirs (35), versions 0-4: what is on this broker's disks.

A log that moves to another directory is there twice: in the new one as a future log, whose lag is
what it has still to copy.
"""

from __future__ import annotations

import os
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.storage.logs import Logs
from klamm.log.directory import LogDirectory
from klamm.log.partition import PartitionLog
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.DESCRIBE_LOG_DIRS, "cluster", 3)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    denied = parts.access.refusal(context, _CLUSTER)
    if denied is not None:
        # Before version 3 there is no place for a code: nothing is shown.
        return Response(error_code=denied)
    wanted = (
        None
        if request.topics is None
        else {
            TopicPartition(topic.topic, index)
            async for topic in in_turns(request.topics)
            for index in topic.partitions
        }
    )
    return Response(
        results=[await _directory(d, parts.logs, wanted) for d in parts.logs.directories]
    )


async def _directory(
    directory: LogDirectory, logs: Logs, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    async for local in in_turns([*directory, *directory.futures.values()]):
        name, index = local.topic_partition
        if wanted is None or local.topic_partition in wanted:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name))
            is_future = directory.futures.get(local.topic_partition) is local
            lag = _lag(local, logs.get(local.topic_partition) if is_future else None)
            topic.partitions.append(
                DescribeLogDirsPartition(index, local.size_bytes, lag, is_future)
            )
    space = os.statvfs(directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=space.f_blocks * space.f_frsize,
        usable_bytes=space.f_bavail * space.f_frsize,
    )


def _lag(local: PartitionLog, original: PartitionLog | None) -> int:
    """The offsets a log is behind: a copy behind its original, others behind consumers."""
    if original is not None:
        return max(original.log_end_offset - local.log_end_offset, 0)
    return max(local.high_watermark - local.log_end_offset, 0)
