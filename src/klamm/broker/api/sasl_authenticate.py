"""SaslAuthenticate (36), versions 0-2, where nobody logs in by SASL: refused, as in Kafka.

On a listener with SASL, the gate before the router answers (`identity/login.py`).
"""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.sasl_authenticate import Request, Response
from klamm.security.sasl.server import AFTER_LOGIN


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    return Response(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=AFTER_LOGIN)
