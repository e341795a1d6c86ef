"""ApiVersions (18), versions 0-4: what this broker speaks.

Only APIs that have a handler are listed. No features are: that keeps clients of Kafka 4 on the
protocol served here. Private APIs are shown to those who say that they are klamm.
A version above 4 is answered by the router.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from klamm.broker import api as registry
from klamm.broker.context import RequestContext
from klamm.model.errors import ErrorCode
from klamm.protocol import private
from klamm.protocol.apis import advertised
from klamm.protocol.messages.api_versions import ApiVersion, Request, Response

if TYPE_CHECKING:
    from klamm.broker.server import Broker

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


async def handle(broker: Broker, context: RequestContext, request: Request) -> Response:
    if context.version >= 3:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.match(name) for name in software):
            return Response(error_code=ErrorCode.INVALID_REQUEST)
        context.peer.software = request.client_software_name
    listed = [ApiVersion(key, low, high) for key, (low, high) in advertised(registry.SERVED)]
    if context.peer.software == private.SOFTWARE_NAME:
        listed += [ApiVersion(key, private.VERSION, private.VERSION) for key in registry.PRIVATE]
    return Response(api_keys=listed)
