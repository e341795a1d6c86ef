"""DescribeGroups (key 15), versions 0-5: who is in a group and what each member got.

A group that nobody knows is `Dead`, without an error, and so is one of the new protocol: that
one is described by ConsumerGroupDescribe.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.groups.classic.group import Group
from klamm.groups.classic.requests import GroupState
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import describe_groups as messages
from klamm.security.authorization.acls import ResourceType
from klamm.security.authorization.apis import need_of
from klamm.security.authorization.rights import NOT_ASKED

_GROUP: Final = need_of(ApiKey.DESCRIBE_GROUPS, "group")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    # One that is asked for twice is told once: its members may be many times what was asked.
    asked = dict.fromkeys(request.groups)
    return messages.Response(
        groups=[_described(parts, context, group_id, request) async for group_id in in_turns(asked)]
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
    return _describe(parts, group_id, allowed)


def _describe(parts: Parts, group_id: str, allowed: int) -> messages.DescribedGroup:
    shard = parts.groups.shard(group_id, nameless=True)
    if isinstance(shard, ErrorCode):
        return messages.DescribedGroup(group_id=group_id, error_code=shard)
    group = shard.groups.get(group_id)
    if shard.consumer(group_id) is not None:
        return messages.DescribedGroup(
            group_id=group_id, group_state=GroupState.DEAD.value, authorized_operations=allowed
        )
    if group is None:
        offsets = shard.offsets.get(group_id)
        known = offsets is not None and not offsets.is_empty
        state = GroupState.EMPTY if known else GroupState.DEAD
        return messages.DescribedGroup(
            group_id=group_id, group_state=state.value, authorized_operations=allowed
        )
    return messages.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=_protocol(group),
        authorized_operations=allowed,
        members=[
            messages.DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(_protocol(group)),
                member_assignment=(member.assignment if group.state is GroupState.STABLE else b""),
            )
            for member in group.members
        ],
    )


def _protocol(group: Group) -> str:
    # Between two generations the old choice says nothing about the members of the next one.
    return group.protocol or "" if group.state is GroupState.STABLE else ""


def failure(request: messages.Request, code: ErrorCode, _: str | None) -> messages.Response:
    return messages.Response(
        groups=[messages.DescribedGroup(group_id=name, error_code=code) for name in request.groups]
    )
