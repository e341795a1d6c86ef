"""LeaveGroup (key 13), versions 0-5: members go; from version 3 on several at once."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import leave_group as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.LEAVE_GROUP, "group")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    parts.access.demand(context, _GROUP, request.group_id)
    if context.version < 3:
        error, errors = parts.groups.leave(request.group_id, [(request.member_id, None)])
        first = errors[0] if errors else ErrorCode.NONE
        return messages.Response(error_code=error if error is not ErrorCode.NONE else first)
    leaving = [(m.member_id, m.group_instance_id) for m in request.members]
    error, errors = parts.groups.leave(request.group_id, leaving)
    return messages.Response(
        error_code=error,
        members=[
            messages.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=each,
            )
            for member, each in zip(request.members, errors, strict=False)
        ],
    )
