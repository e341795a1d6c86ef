"""Asks other brokers for the sizes of their logs, as any client would."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from klamm.broker.net.peers import Peers
from klamm.client.requests import by_topic
from klamm.model.brokers import Endpoint
from klamm.model.errors import KlammError
from klamm.model.names import BrokerId, Replica, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_log_dirs import DescribableLogDirTopic, Request, Response

_VERSION: Final = 4
_PATIENCE_S: Final = 5.0


async def log_sizes(
    peers: Peers,
    endpoints: Mapping[BrokerId, Endpoint],
    replicas: Iterable[Replica],
    client_id: str,
) -> dict[Replica, int]:
    """The bytes of these logs; those of brokers that do not answer are left out."""
    wanted: dict[BrokerId, list[TopicPartition]] = {}
    for replica in replicas:
        wanted.setdefault(replica.broker, []).append(replica.partition)
    answers = await asyncio.gather(
        *(
            _sizes_on(peers, broker, endpoints[broker], partitions, client_id)
            for broker, partitions in wanted.items()
            if broker in endpoints
        )
    )
    return {replica: size for answer in answers for replica, size in answer.items()}


async def _sizes_on(
    peers: Peers,
    broker: BrokerId,
    endpoint: Endpoint,
    partitions: Iterable[TopicPartition],
    client_id: str,
) -> dict[Replica, int]:
    topics = [DescribableLogDirTopic(*topic) for topic in by_topic(partitions).items()]
    try:
        async with asyncio.timeout(_PATIENCE_S):
            connection = await peers.connect(broker, endpoint, client_id)
            try:
                response: Response = await connection.request(
                    ApiKey.DESCRIBE_LOG_DIRS, _VERSION, Request(topics)
                )
            finally:
                await connection.close()
    except (KlammError, OSError, TimeoutError):
        return {}
    return {
        Replica(TopicPartition(topic.name, p.partition_index), broker): p.partition_size
        for directory in response.results
        for topic in directory.topics
        for p in topic.partitions
        if not p.is_future_key
    }
