"""DescribeDelegationToken (41), versions 0-3: the tokens that the caller may see.

Any broker serves it. Owners and renewers see theirs, others those that they have a right to, and
nothing tells of the rest. As in Kafka the answer has the HMAC: whoever sees a token can use it.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.access.requesters import requester_of
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import Refused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of
from klamm.security.credentials.tokens import DelegationToken, describe
from klamm.security.principals import Principal

_TOKEN: Final = need_of(ApiKey.DESCRIBE_DELEGATION_TOKEN, "token")
_OWNER: Final = need_of(ApiKey.DESCRIBE_DELEGATION_TOKEN, "owner")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    requester, access = requester_of(context, parts.seat.listeners), parts.access

    def may_see(token: DelegationToken) -> bool:
        is_known = access.permits(context, _TOKEN, token.id)
        return is_known or access.permits(context, _OWNER, token.owner.text)

    owners = None
    if request.owners is not None:
        owners = [Principal(o.principal_type, o.principal_name) for o in request.owners]
    found = describe(requester, await parts.tokens.current(), owners, may_see)
    if isinstance(found, Refused):
        return Response(error_code=found.code)
    hides = parts.settings.bool("klamm.delegation.token.hide.hmac")

    def hmac(token: DelegationToken) -> bytes:
        is_ours = requester.principal in (token.owner, *token.renewers)
        return b"" if hides and not is_ours else parts.tokens.hmac(token)

    return Response(tokens=[_described(token, hmac(token)) for token in found])


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=hmac,
        renewers=[DescribedDelegationTokenRenewer(r.type, r.name) for r in token.renewers],
    )
