"""Heartbeat (key 12), versions 0-4: a member lives, and hears whether it must join again."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.messages import heartbeat as messages


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    error = parts.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return messages.Response(error_code=error)
