"""DescribeUserScramCredentials (50), version 0: which users have SCRAM credentials, of what kind.

Any broker answers. Neither salts nor keys are told.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.admin.scram_users import stored_credentials
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of
from klamm.security.credentials.scram import Described, describe

_CLUSTER: Final = need_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    parts.access.demand(context, _CLUSTER)
    users = None if request.users is None else [user.name for user in request.users]
    known = await stored_credentials(parts.session)
    return Response(results=[_result(described) for described in describe(known, users)])


def _result(described: Described) -> DescribeUserScramCredentialsResult:
    refused = described.refused
    if refused is not None:
        return DescribeUserScramCredentialsResult(described.user, refused.code, refused.why)
    infos = [CredentialInfo(mechanism, rounds) for mechanism, rounds in described.rounds]
    return DescribeUserScramCredentialsResult(described.user, credential_infos=infos)
