"""DescribeLogDirs (35), versions 1-4: what is on this broker's disks.

Left out: logs that move between directories, so `is_future_key` is never set.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from klamm.broker.context import RequestContext
from klamm.log.directory import LogDirectory
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    Request,
    Response,
)

if TYPE_CHECKING:
    from klamm.broker.server import Broker


async def handle(broker: Broker, context: RequestContext, request: Request) -> Response:
    wanted = (
        None
        if request.topics is None
        else {
            TopicPartition(topic.topic, index)
            for topic in request.topics
            for index in topic.partitions
        }
    )
    return Response(results=[_directory(d, wanted) for d in broker.logs.directories])


def _directory(
    directory: LogDirectory, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for local in directory:
        name, index = local.topic_partition
        if wanted is None or local.topic_partition in wanted:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name))
            lag = max(local.high_watermark - local.log_end_offset, 0)
            topic.partitions.append(DescribeLogDirsPartition(index, local.size_bytes, lag))
    space = os.statvfs(directory.path)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=space.f_blocks * space.f_frsize,
        usable_bytes=space.f_bavail * space.f_frsize,
    )
