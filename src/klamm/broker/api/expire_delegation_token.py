"""ExpireDelegationToken (40), versions 0-2: end a token sooner, or at once.

Any broker serves it, for the token's owner and those whom the owner named to renew it.
"""

from __future__ import annotations

from klamm.broker.access.requesters import requester_of
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.messages.expire_delegation_token import Request, Response
from klamm.security.credentials.tokens import Changed, TokenStore, expire


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    requester, tokens = requester_of(context, parts.seat.listeners), parts.tokens

    def decide(store: TokenStore) -> Changed | Refused:
        period_ms, now_ms = request.expiry_time_period_ms, tokens.now_ms()
        return expire(requester, store, tokens.settings, bytes(request.hmac), period_ms, now_ms)

    changed = await tokens.change(decide)
    if isinstance(changed, Refused):
        return failure(request, changed.code, None)
    return Response(expiry_timestamp_ms=changed.expires_ms)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """A refusal, which has no time."""
    return Response(error_code=code, expiry_timestamp_ms=-1)
