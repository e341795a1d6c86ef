"""Fetch responses as replies: bytes around ranges of files."""

from __future__ import annotations

import asyncio

from klamm.broker.net.context import RequestContext
from klamm.broker.net.replies import Reply
from klamm.broker.quotas.charging import charge_time
from klamm.broker.quotas.quotas import CONSUMER_BYTE_RATE, QuotaClient
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.leaders import endpoints_of
from klamm.protocol.fetch import FetchResponse, encode_response, size_of
from klamm.protocol.frames import response_head


def reply(
    hosting: Hosting, context: RequestContext, response: FetchResponse, *, is_follower: bool = False
) -> Reply:
    """The reply that carries this response; its records may still be in files."""
    leaders = [
        data.current_leader
        for topic in response.topics
        for data in topic.partitions
        if data.current_leader is not None
    ]
    if leaders:
        response.node_endpoints = endpoints_of(hosting, context.listener, leaders)
    sent = sum(size_of(data) for topic in response.topics for data in topic.partitions)
    if is_follower:
        hosting.metrics.replication_bytes_out += sent
    else:
        if hosting.quotas.is_active:
            response, sent = _limited(hosting, context, response, sent)
        hosting.metrics.bytes_out += sent
    parts, size = encode_response(context.version, response)
    head = response_head(context.header, size)
    return Reply([head, *parts], mute_ms=response.throttle_time_ms)  # type: ignore[list-item]


async def large_reply(
    hosting: Hosting, context: RequestContext, response: FetchResponse, sent: int
) -> Reply:
    """The same to a consumer of very many partitions: a worker makes its bytes."""
    if hosting.quotas.is_active:
        response, sent = _limited(hosting, context, response, sent)
    hosting.metrics.bytes_out += sent
    parts, size = await asyncio.to_thread(encode_response, context.version, response)
    head = response_head(context.header, size)
    return Reply([head, *parts], mute_ms=response.throttle_time_ms)  # type: ignore[list-item]


def _limited(
    hosting: Hosting, context: RequestContext, response: FetchResponse, size: int
) -> tuple[FetchResponse, int]:
    """The response for a consumer with quotas, and the bytes of records in it.

    One over its limit gets nothing for now, and is told when to come back (KIP-219).
    """
    client = QuotaClient.of(context.principal, context.client_id)
    offer = hosting.quotas.offer(CONSUMER_BYTE_RATE, client, size, hosting.settings)
    if not offer.is_taken:
        response, size = FetchResponse(), 0
    response.throttle_time_ms = max(offer.wait_ms, charge_time(hosting, context))
    return response, size
