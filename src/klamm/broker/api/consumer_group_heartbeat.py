"""ConsumerGroupHeartbeat (key 68), versions 0-1: a member of the new protocol reports (KIP-848).

The one request by which a member joins (epoch 0), stays, changes its wishes, lets partitions go and
leaves (epoch -1, or -2 for a static member that will be back). In version 0 the coordinator gives a
new member its id; from 1 on members bring their own (KIP-1082) and may name topics by a pattern.
"""

from __future__ import annotations

import uuid
from typing import Final

from klamm.broker.coordinators.consumer_records import grouped
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.groups.consumer.events import Answer, Heartbeat
from klamm.groups.consumer.patterns import TopicPattern, parse
from klamm.groups.consumer.state import Partitions, TopicIdPartition
from klamm.model.errors import ErrorCode, Refused, RequestRefused
from klamm.model.names import id_text
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import consumer_group_heartbeat as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.CONSUMER_GROUP_HEARTBEAT, "group")
_TOPIC: Final = need_of(ApiKey.CONSUMER_GROUP_HEARTBEAT, "topic")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    if "consumer" not in parts.settings.list("group.coordinator.rebalance.protocols"):
        return messages.Response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    parts.access.demand(context, _GROUP, request.group_id)
    describable = parts.access.allowed(context, _TOPIC)
    if any(topic not in describable for topic in request.subscribed_topic_names or ()):
        raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    consumers = parts.groups.consumers
    if request.subscribed_topic_regex:
        await _compare(parts, request.subscribed_topic_regex)
    answer = await consumers.heartbeat(request.group_id, _heartbeat(context, request))
    match answer:
        case Refused(why, code):
            return messages.Response(
                error_code=code, error_message=why or None, member_id=request.member_id
            )
        case Answer():
            return messages.Response(
                member_id=answer.member_id,
                member_epoch=answer.epoch,
                heartbeat_interval_ms=consumers.limits.heartbeat_interval_ms,
                assignment=_assignment(answer.assignment),
            )


async def _compare(parts: Parts, text: str) -> None:
    """Ask a pattern about every topic, so that it knows the answers when the group asks."""
    pattern = parse(text)
    if isinstance(pattern, TopicPattern):
        async for name in in_turns(list(parts.metadata.snapshot.topics)):
            pattern.matches(name)


def _heartbeat(context: RequestContext, request: messages.Request) -> Heartbeat:
    member_id = request.member_id
    if context.version == 0 and request.member_epoch == 0 and not member_id:
        member_id = id_text(uuid.uuid4())
    names = request.subscribed_topic_names
    return Heartbeat(
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=_owned(request),
    )


def _owned(request: messages.Request) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return frozenset(
        TopicIdPartition(topic.topic_id, number)
        for topic in request.topic_partitions
        for number in topic.partitions
    )


def _assignment(partitions: Partitions | None) -> messages.Assignment | None:
    if partitions is None:
        return None
    return messages.Assignment(
        [messages.TopicPartitionsResponse(t.topic_id, t.partitions) for t in grouped(partitions)]
    )
