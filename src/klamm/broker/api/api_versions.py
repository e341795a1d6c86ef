"""ApiVersions (18), versions 0-4: what this broker speaks.

Only APIs that have a handler are listed. No features are: that keeps clients of Kafka 4 on the
transaction protocol served here. The APIs of the new group protocol are listed where
`group.coordinator.rebalance.protocols` has it: clients use it only when they are told to. Private
APIs are shown to those who say that they are klamm. A version above 4 is answered by the router.
"""

from __future__ import annotations

import re
from typing import Final

from klamm.broker import api as registry
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol import private
from klamm.protocol.apis import ApiKey, advertised
from klamm.protocol.messages.api_versions import ApiVersion, Request, Response

_NEW_GROUPS: Final = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if context.version >= 3:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.match(name) for name in software):
            return Response(error_code=ErrorCode.INVALID_REQUEST)
        context.peer.software = request.client_software_name
    has_new_groups = "consumer" in parts.settings.list("group.coordinator.rebalance.protocols")
    listed = [
        ApiVersion(key, low, high)
        for key, (low, high) in advertised(registry.SERVED)
        if has_new_groups or key not in _NEW_GROUPS
    ]
    if context.peer.software == private.SOFTWARE_NAME:
        listed += [ApiVersion(key, private.VERSION, private.VERSION) for key in registry.PRIVATE]
    return Response(api_keys=listed)
