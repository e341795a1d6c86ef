"""AlterUserScramCredentials (51), version 0: refused, for klamm's listeners are PLAINTEXT."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResult,
    Request,
    Response,
)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    why = "klamm's listeners are PLAINTEXT: it keeps no SCRAM credentials of users"
    return failure(request, ErrorCode.UNSUPPORTED_SASL_MECHANISM, why)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every user of a request."""
    named = [deletion.name for deletion in request.deletions]
    named += [upsertion.name for upsertion in request.upsertions]
    results = [AlterUserScramCredentialsResult(n, code, message) for n in dict.fromkeys(named)]
    return Response(results=results)
