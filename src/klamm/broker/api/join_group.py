"""JoinGroup (key 11), versions 0-9: a member asks to be part of the next generation.

Waits until the generation begins. Version 0 has no rebalance timeout: the session timeout serves.
From version 4 on a new member is first given an id to come back with (KIP-394); from 9 on a static
leader that returns is told that it need not assign (KIP-814).
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.groups.classic.requests import Join
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import join_group as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.JOIN_GROUP, "group")
_NAME_IS_NULL_SINCE: Final = 7


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    version = context.version
    denied = parts.access.refusal(context, _GROUP, request.group_id)
    if denied is not None:
        no_name = None if version >= _NAME_IS_NULL_SINCE else ""
        return messages.Response(error_code=denied, protocol_name=no_name)
    groups = parts.groups
    client_id = context.client_id or ""
    answer = await groups.join(
        request.group_id,
        Join(
            token=groups.next_token(),
            member_id=request.member_id,
            fresh_id=groups.fresh_member_id(request.group_instance_id or client_id),
            instance_id=request.group_instance_id,
            client_id=client_id,
            client_host=f"/{context.client_host}",
            rebalance_timeout_ms=(
                request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms
            ),
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((p.name, bytes(p.metadata)) for p in request.protocols),
            requires_known_id=version >= 4,
            knows_skip_assignment=version >= 9,
        ),
    )
    return messages.Response(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol if version >= _NAME_IS_NULL_SINCE else answer.protocol or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            messages.JoinGroupResponseMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )
