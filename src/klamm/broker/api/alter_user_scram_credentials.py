"""AlterUserScramCredentials (51), version 0: set and remove SCRAM credentials of users.

Only the controller answers. Passwords come salted; what is kept is what a login is checked with.
The changes of one user are all made or none, in one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.broker.admin.scram_users import alter_user
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResult,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of
from klamm.security.credentials.scram import Deletion, Upsertion

_CLUSTER: Final = need_of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    if not parts.is_controller:
        return failure(request, ErrorCode.NOT_CONTROLLER, None)
    parts.access.demand(context, _CLUSTER)
    return Response(
        results=[
            await _alter(parts, user, *changes) async for user, changes in in_turns(_users(request))
        ]
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every user of a request."""
    users = [user for user, _ in _users(request)]
    return Response(results=[AlterUserScramCredentialsResult(u, code, message) for u in users])


_Changes = tuple[list[Deletion], list[Upsertion]]


def _users(request: Request) -> Iterable[tuple[str, _Changes]]:
    """The users of a request in its order, each with all that is asked for it."""
    users: dict[str, _Changes] = {}
    for gone in request.deletions:
        users.setdefault(gone.name, ([], []))[0].append(Deletion(gone.name, gone.mechanism))
    for come in request.upsertions:
        wanted = Upsertion(
            come.name, come.mechanism, come.iterations, come.salt, come.salted_password
        )
        users.setdefault(come.name, ([], []))[1].append(wanted)
    return users.items()


async def _alter(
    parts: Parts, user: str, deletions: list[Deletion], upsertions: list[Upsertion]
) -> AlterUserScramCredentialsResult:
    refused = await alter_user(parts.session, user, deletions, upsertions)
    if refused is None:
        return AlterUserScramCredentialsResult(user)
    return AlterUserScramCredentialsResult(user, refused.code, refused.why or None)
