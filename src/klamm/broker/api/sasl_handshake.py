"""SaslHandshake (17), versions 0-1, where nobody logs in by SASL: refused, as in Kafka.

On a listener with SASL, the gate before the router answers (`identity/login.py`).
"""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.sasl_handshake import Request, Response


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    return Response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
