"""ListGroups (key 16), versions 0-5: the groups this broker keeps (clients ask every broker)."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.messages import list_groups as messages


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    if parts.groups.is_loading:
        return messages.Response(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.casefold() for state in request.states_filter}
    types = {kind.casefold() for kind in request.types_filter}
    return messages.Response(
        groups=[
            messages.ListedGroup(
                group_id=group.id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for group in parts.groups.offsets.groups()
            if (not states or group.state.casefold() in states)
            and (not types or group.type in types)
        ]
    )
