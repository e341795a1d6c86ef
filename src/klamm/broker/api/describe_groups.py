"""DescribeGroups (key 15), versions 0-5: who is in a group and what each member got.

A group that nobody knows is `Dead`, without an error, and so is one of the new protocol: that
one is described by ConsumerGroupDescribe.
"""

from __future__ import annotations

from klamm.broker.net.authorization import GROUP_OPERATIONS, NOT_ASKED
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.groups.classic.group import Group
from klamm.groups.classic.requests import GroupState
from klamm.model.errors import ErrorCode
from klamm.protocol.messages import describe_groups as messages


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    allowed = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    # One that is asked for twice is told once: its members may be many times what was asked.
    asked = dict.fromkeys(request.groups)
    return messages.Response(
        groups=[_describe(parts, group_id, allowed) async for group_id in in_turns(asked)]
    )


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
