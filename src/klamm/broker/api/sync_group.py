"""SyncGroup (key 14), versions 0-5: the leader brings the assignment, everybody gets a share of it.

Waits until the assignment is durable.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.groups.classic.requests import Sync
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import sync_group as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.SYNC_GROUP, "group")

_NAMES_PROTOCOLS: Final = 5  # the version from which on a member must say what it agreed to


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    parts.access.demand(context, _GROUP, request.group_id)
    if context.version >= _NAMES_PROTOCOLS and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return messages.Response(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    answer = await parts.groups.sync(
        request.group_id,
        Sync(
            token=parts.groups.next_token(),
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments={a.member_id: bytes(a.assignment) for a in request.assignments},
        ),
    )
    return messages.Response(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
