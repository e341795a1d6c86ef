"""ApiVersions (18), versions 0-4: what this broker speaks.

Only APIs that have a handler are listed. No features are: that keeps clients of Kafka 4 on the
transaction protocol served here. The APIs of the new group protocol are listed where
`group.coordinator.rebalance.protocols` has it: clients use it only when they are told to. While a
broker lives that is not klamm's they are not, for it may come to coordinate a group, and an Apache
Kafka with ZooKeeper cannot. Private APIs are shown to those who say that they are klamm. A version
above 4 is answered by the router.
"""

from __future__ import annotations

from typing import Final

from klamm.broker import api as registry
from klamm.broker.net.context import RequestContext
from klamm.broker.net.software import NAMED_SINCE, is_named_well
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol import private
from klamm.protocol.apis import ApiKey, advertised
from klamm.protocol.messages.api_versions import ApiVersion, Request, Response

_NEW_GROUPS: Final = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if not is_named_well(context.version, request):
        return Response(error_code=ErrorCode.INVALID_REQUEST)
    if context.version >= NAMED_SINCE:
        context.peer.software = request.client_software_name
    has_new_groups = "consumer" in parts.settings.list("group.coordinator.rebalance.protocols")
    has_new_groups = has_new_groups and not await parts.foreigners.found()
    listed = [
        ApiVersion(key, low, high)
        for key, (low, high) in advertised(registry.SERVED)
        if has_new_groups or key not in _NEW_GROUPS
    ]
    if context.peer.software == private.SOFTWARE_NAME:
        listed += [ApiVersion(key, private.VERSION, private.VERSION) for key in registry.PRIVATE]
    return Response(api_keys=listed)
