"""DeleteGroups (key 42), versions 0-2: remove groups without members, with their offsets."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import delete_groups as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.DELETE_GROUPS, "group")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    return messages.Response(
        results=[
            messages.DeletableGroupResult(
                group_id=group_id, error_code=await _delete(parts, context, group_id)
            )
            for group_id in dict.fromkeys(request.groups_names)  # named twice, told once
        ]
    )


async def _delete(parts: Parts, context: RequestContext, group_id: str) -> ErrorCode:
    denied = parts.access.refusal(context, _GROUP, group_id)
    return denied or await parts.groups.offsets.delete_group(group_id)


def failure(request: messages.Request, code: ErrorCode, _: str | None) -> messages.Response:
    return messages.Response(
        results=[messages.DeletableGroupResult(name, code) for name in request.groups_names]
    )
