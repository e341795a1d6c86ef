"""ConsumerGroupDescribe (key 69), versions 0-1: a group of the new protocol and its members.

A classic group is not found here; clients then ask DescribeGroups. Version 1 says of each member
which protocol it speaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.broker.coordinators.consumer_records import grouped
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.groups.consumer.state import ConsumerGroup, Partitions
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import consumer_group_describe as messages
from klamm.security.authorization.acls import ResourceType
from klamm.security.authorization.apis import need_of
from klamm.security.authorization.rights import NOT_ASKED

_GROUP: Final = need_of(ApiKey.CONSUMER_GROUP_DESCRIBE, "group")
_TOPIC: Final = need_of(ApiKey.CONSUMER_GROUP_DESCRIBE, "topic")

_CONSUMER_PROTOCOL: Final = 1


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    # One that is asked for twice is told once: its members may be many times what was asked.
    asked = dict.fromkeys(request.group_ids)
    return messages.Response(
        groups=[_described(parts, context, group_id, request) async for group_id in in_turns(asked)]
    )


def failure(request: messages.Request, code: ErrorCode, message: str | None) -> messages.Response:
    return messages.Response(
        groups=[
            messages.DescribedGroup(group_id=group_id, error_code=code, error_message=message)
            for group_id in request.group_ids
        ]
    )


def _described(
    parts: Parts, context: RequestContext, group_id: str, request: messages.Request
) -> messages.DescribedGroup:
    denied = parts.access.refusal(context, _GROUP, group_id)
    if denied is not None:
        return messages.DescribedGroup(group_id=group_id, error_code=denied)
    allowed = NOT_ASKED
    if request.include_authorized_operations:
        allowed = parts.access.operations(context, ResourceType.GROUP, group_id)
    told = _describe(parts, group_id, allowed)
    describable = parts.access.allowed(context, _TOPIC)
    if all(topic in describable for topic in _topics(told)):
        return told
    # Later brokers of Kafka hide the group as well: its members would tell the topics' names.
    return messages.DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to "
        "describe.",
    )


def _topics(told: messages.DescribedGroup) -> Iterator[str]:
    """The topics that a description names."""
    for member in told.members:
        yield from member.subscribed_topic_names
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


def _describe(parts: Parts, group_id: str, allowed: int) -> messages.DescribedGroup:
    shard = parts.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return messages.DescribedGroup(group_id=group_id, error_code=shard)
    group = shard.consumer(group_id)
    if group is None:
        return messages.DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"{group_id} is no consumer group",
        )
    return messages.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor or parts.groups.consumers.limits.assignors[0],
        authorized_operations=allowed,
        members=[_member(parts, group, member_id) for member_id in group.members],
    )


def _member(parts: Parts, group: ConsumerGroup, member_id: str) -> messages.Member:
    member, standing = group.members[member_id], group.standing(member_id)
    return messages.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=standing.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(parts, standing.assigned),
        target_assignment=_assignment(parts, group.target(member_id)),
        member_type=_CONSUMER_PROTOCOL,
    )


def _assignment(parts: Parts, partitions: Partitions) -> messages.Assignment:
    names = parts.metadata.snapshot.topic_names
    return messages.Assignment(
        [
            messages.TopicPartitions(t.topic_id, names[t.topic_id], t.partitions)
            for t in grouped(partitions)
            if t.topic_id in names  # a topic that is gone has no name to be shown
        ]
    )
