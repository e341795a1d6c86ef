"""ListGroups (key 16), versions 0-5: the groups this broker keeps (clients ask every broker)."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import list_groups as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.LIST_GROUPS, "group")


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    if parts.groups.is_loading:
        return messages.Response(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    shown: Container[str] = parts.access.allowed(context, _GROUP)
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
            if group.id in shown
            and (not states or group.state.casefold() in states)
            and (not types or group.type in types)
        ]
    )
