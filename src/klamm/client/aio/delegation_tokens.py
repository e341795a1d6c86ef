"""Delegation tokens: passwords that act for somebody for a while.

A token's HMAC is the password: who has it can log in by SCRAM as the owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from klamm.client.aio.cluster import Client
from klamm.client.errors import code_of
from klamm.model.errors import RequestRefused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from klamm.security.principals import Principal

BY_THE_BROKERS: Final = -1  # a period that the brokers' settings say


class DelegationToken(NamedTuple):
    """One token; times are in ms since 1970."""

    id: str
    hmac: bytes
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    def __repr__(self) -> str:
        return f"DelegationToken({self.id}, of {self.owner})"


async def create(
    client: Client,
    *,
    owner: Principal | None = None,
    renewers: Iterable[Principal] = (),
    life_ms: int = BY_THE_BROKERS,
) -> DelegationToken:
    """Makes a token for the caller, or for another owner."""
    allowed = list(renewers)
    answer: create_delegation_token.Response = _unless_refused(
        await client.anywhere(
            ApiKey.CREATE_DELEGATION_TOKEN,
            create_delegation_token.Request(
                None if owner is None else owner.type,
                None if owner is None else owner.name,
                [create_delegation_token.CreatableRenewers(one.type, one.name) for one in allowed],
                life_ms,
            ),
        )
    )
    return DelegationToken(
        answer.token_id,
        bytes(answer.hmac),
        Principal(answer.principal_type, answer.principal_name),
        Principal(answer.token_requester_principal_type, answer.token_requester_principal_name),
        tuple(allowed),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


async def renew(client: Client, hmac: bytes, period_ms: int = BY_THE_BROKERS) -> int:
    """Lets a token live longer; until when."""
    request = renew_delegation_token.Request(hmac, period_ms)
    answer = _unless_refused(await client.anywhere(ApiKey.RENEW_DELEGATION_TOKEN, request))
    ends: int = answer.expiry_timestamp_ms
    return ends


async def expire(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Ends a token after a while, or with -1 at once; when."""
    request = expire_delegation_token.Request(hmac, period_ms)
    answer = _unless_refused(await client.anywhere(ApiKey.EXPIRE_DELEGATION_TOKEN, request))
    ends: int = answer.expiry_timestamp_ms
    return ends


async def describe(
    client: Client, owners: Iterable[Principal] | None = None
) -> list[DelegationToken]:
    """The tokens of these owners, or all that the caller may see."""
    named = None
    if owners is not None:
        named = [
            describe_delegation_token.DescribeDelegationTokenOwner(one.type, one.name)
            for one in owners
        ]
    answer: describe_delegation_token.Response = _unless_refused(
        await client.anywhere(
            ApiKey.DESCRIBE_DELEGATION_TOKEN, describe_delegation_token.Request(named)
        )
    )
    return [
        DelegationToken(
            found.token_id,
            bytes(found.hmac),
            Principal(found.principal_type, found.principal_name),
            Principal(found.token_requester_principal_type, found.token_requester_principal_name),
            tuple(Principal(one.principal_type, one.principal_name) for one in found.renewers),
            found.issue_timestamp,
            found.expiry_timestamp,
            found.max_timestamp,
        )
        for found in answer.tokens
    ]


def _unless_refused(answer: Any) -> Any:
    if answer.error_code:
        raise RequestRefused(code_of(answer.error_code))
    return answer
