"""DescribeUserScramCredentials (50), version 0: there are none, for listeners are PLAINTEXT.

Kafka's kafka-configs asks for them whenever it describes users, and shows their quotas only then.
"""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResult,
    Request,
    Response,
)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    # No user, as none at all, stands for every user that has some.
    names = [user.name for user in request.users or ()]
    return Response(results=[_result(name, names.count(name)) for name in dict.fromkeys(names)])


def _result(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code, why = ErrorCode.DUPLICATE_RESOURCE, f"user {name} is named more than once"
    else:
        code, why = ErrorCode.RESOURCE_NOT_FOUND, f"user {name} has no SCRAM credentials"
    return DescribeUserScramCredentialsResult(name, code, why)
