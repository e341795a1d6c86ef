"""SCRAM credentials of users: one call to look, one to change.

A password never leaves this process: what is sent is salted and hashed many times over.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from klamm.client.aio.cluster import Client
from klamm.client.errors import code_of
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.scram import ScramMechanism, salted_password
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import alter_user_scram_credentials, describe_user_scram_credentials
from klamm.security.credentials.scram import MECHANISM_CODES

ROUNDS: Final = 8192
_SALT_SIZE: Final = 24
_CODES: Final = {mechanism: code for code, mechanism in MECHANISM_CODES.items()}

Change = alter_user_scram_credentials.Request


class UserCredentials(NamedTuple):
    """One user: the rounds by mechanism, or why there are none."""

    user: str
    rounds: Mapping[ScramMechanism, int]
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


async def describe(client: Client, users: Sequence[str] | None = None) -> list[UserCredentials]:
    """These users, or all that have credentials."""
    named = (
        None
        if users is None
        else [describe_user_scram_credentials.UserName(user) for user in users]
    )
    response: describe_user_scram_credentials.Response = await client.anywhere(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, describe_user_scram_credentials.Request(named)
    )
    if response.error_code:
        raise RequestRefused(code_of(response.error_code), response.error_message)
    return [
        UserCredentials(
            result.user,
            {
                MECHANISM_CODES[info.mechanism]: info.iterations
                for info in result.credential_infos
                if info.mechanism in MECHANISM_CODES
            },
            code_of(result.error_code),
            result.error_message,
        )
        for result in response.results
    ]


async def set_password(
    client: Client,
    user: str,
    password: str,
    mechanisms: Iterable[ScramMechanism] = tuple(ScramMechanism),
    *,
    rounds: int = ROUNDS,
) -> None:
    """Makes a user, or changes the password of one."""
    upsertions = [await upsertion(user, password, one, rounds=rounds) for one in mechanisms]
    await alter(client, Change([], upsertions))


async def remove(client: Client, user: str, mechanisms: Iterable[ScramMechanism]) -> None:
    """Removes credentials of a user."""
    await alter(client, Change([deletion(user, mechanism) for mechanism in mechanisms], []))


async def upsertion(
    user: str, password: str, mechanism: ScramMechanism, *, rounds: int
) -> alter_user_scram_credentials.ScramCredentialUpsertion:
    """The part of a change that sets one credential."""
    salt = secrets.token_bytes(_SALT_SIZE)
    salted = await asyncio.to_thread(salted_password, mechanism, password, salt, rounds)
    return alter_user_scram_credentials.ScramCredentialUpsertion(
        user, _CODES[mechanism], rounds, salt, salted
    )


def deletion(
    user: str, mechanism: ScramMechanism
) -> alter_user_scram_credentials.ScramCredentialDeletion:
    """The part of a change that removes one credential."""
    return alter_user_scram_credentials.ScramCredentialDeletion(user, _CODES[mechanism])


async def alter(client: Client, change: Change) -> None:
    """Has the controller change credentials; RequestRefused with its words where it does not."""
    response: alter_user_scram_credentials.Response = await client.at_controller(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, change
    )
    for result in response.results:
        if result.error_code:
            raise RequestRefused(code_of(result.error_code), result.error_message)
