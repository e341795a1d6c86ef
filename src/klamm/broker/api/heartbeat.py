"""Heartbeat (key 12), versions 0-4: a member lives, and hears whether it must join again."""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import heartbeat as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.HEARTBEAT, "group")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    parts.access.demand(context, _GROUP, request.group_id)
    error = parts.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return messages.Response(error_code=error)
