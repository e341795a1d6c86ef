"""Fetch responses as replies: bytes around ranges of files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from klamm.broker.net.context import RequestContext
from klamm.broker.net.replies import Reply
from klamm.broker.quotas.quotas import CONSUMER_BYTE_RATE, Client, charge_time
from klamm.broker.replicas.leaders import endpoints_of
from klamm.protocol.fetch import FetchResponse, PartitionData, encode_response
from klamm.protocol.frames import response_head

if TYPE_CHECKING:
    from klamm.broker.server import Broker


def size_of(data: PartitionData) -> int:
    """How many bytes of records there are."""
    records = data.records
    return len(records) if isinstance(records, bytes | memoryview) else records.size


def reply(
    broker: Broker, context: RequestContext, response: FetchResponse, *, is_follower: bool = False
) -> Reply:
    """The reply that carries this response; its records may still be in files."""
    leaders = [
        data.current_leader
        for topic in response.topics
        for data in topic.partitions
        if data.current_leader is not None
    ]
    if leaders:
        response.node_endpoints = endpoints_of(broker, context.listener, leaders)
    sent = sum(size_of(data) for topic in response.topics for data in topic.partitions)
    if is_follower:
        broker.metrics.replication_bytes_out += sent
    else:
        if broker.quotas.is_active:
            response, sent = _limited(broker, context, response, sent)
        broker.metrics.bytes_out += sent
    parts, size = encode_response(context.version, response)
    head = response_head(context.header, size)
    return Reply([head, *parts], mute_ms=response.throttle_time_ms)  # type: ignore[list-item]


async def large_reply(
    broker: Broker, context: RequestContext, response: FetchResponse, sent: int
) -> Reply:
    """The same to a consumer of very many partitions: a worker makes its bytes."""
    if broker.quotas.is_active:
        response, sent = _limited(broker, context, response, sent)
    broker.metrics.bytes_out += sent
    parts, size = await asyncio.to_thread(encode_response, context.version, response)
    head = response_head(context.header, size)
    return Reply([head, *parts], mute_ms=response.throttle_time_ms)  # type: ignore[list-item]


def _limited(
    broker: Broker, context: RequestContext, response: FetchResponse, size: int
) -> tuple[FetchResponse, int]:
    """What a consumer gets that has quotas, and how many bytes of records are in it.

    One over its limit gets nothing for now, and is told when to come back (KIP-219).
    """
    client = Client.of(context.principal, context.client_id)
    offer = broker.quotas.offer(CONSUMER_BYTE_RATE, client, size, broker.settings)
    if not offer.is_taken:
        response, size = FetchResponse(), 0
    response.throttle_time_ms = max(offer.wait_ms, charge_time(broker, context))
    return response, size
