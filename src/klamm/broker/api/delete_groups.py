"""DeleteGroups (key 42), versions 0-2: remove groups without members, with their offsets."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.messages import delete_groups as messages


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    return messages.Response(
        results=[
            messages.DeletableGroupResult(
                group_id=group_id, error_code=await parts.groups.offsets.delete_group(group_id)
            )
            for group_id in request.groups_names
        ]
    )
