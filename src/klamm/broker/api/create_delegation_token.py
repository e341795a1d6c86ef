"""CreateDelegationToken (38), versions 0-3: a password that acts for somebody for a while.

Any broker serves it. Not over PLAINTEXT, nor for who did not log in or logged in by a token.
"""

from __future__ import annotations

import secrets
from typing import Final

from klamm.broker.access.requesters import requester_of
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.create_delegation_token import Request, Response
from klamm.security.authorization.apis import need_of
from klamm.security.credentials.tokens import ID_SIZE, CreateToken, create
from klamm.security.principals import Principal

_OWNER: Final = need_of(ApiKey.CREATE_DELEGATION_TOKEN, "owner")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    requester = requester_of(context, parts.seat.listeners)

    def may_create_for(owner: Principal) -> bool:
        return parts.access.permits(context, _OWNER, owner.text)

    token = create(
        requester,
        CreateToken(
            owner=_owner(request),
            renewers=tuple(Principal(r.principal_type, r.principal_name) for r in request.renewers),
            max_lifetime_ms=request.max_lifetime_ms,
        ),
        parts.tokens.settings,
        may_create_for,
        entropy=secrets.token_bytes(ID_SIZE),
        now_ms=parts.tokens.now_ms(),
    )
    if isinstance(token, Refused):
        return _refused(request, token.code, requester.principal)
    await parts.tokens.add(token)
    return Response(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.id,
        hmac=parts.tokens.hmac(token),
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """A refusal, which has no times."""
    return Response(
        error_code=code, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
    )


def _refused(request: Request, code: ErrorCode, requester: Principal) -> Response:
    """A refusal that repeats who asked, and for whom."""
    owner = _owner(request) or requester
    refused = failure(request, code, None)
    refused.principal_type, refused.principal_name = owner.type, owner.name
    refused.token_requester_principal_type = requester.type
    refused.token_requester_principal_name = requester.name
    return refused


def _owner(request: Request) -> Principal | None:
    if not request.owner_principal_name:
        return None
    return Principal(request.owner_principal_type or "", request.owner_principal_name)
