"""Delegation tokens (KIP-48): who may have, renew and end one, and what it is.

A token lets somebody act as its owner for a while without the owner's password: its id is a user
name and its HMAC the password of a login by SCRAM. The HMAC comes of the id and a secret that all
brokers share, so it is kept nowhere. Whoever logged in by a token can do nothing to tokens.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from klamm.model.errors import ErrorCode, Refused
from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.principals import ANONYMOUS, USER, Principal, parse_principal
from klamm.security.secret import Secret

ID_SIZE: Final = 16
# A token has to fit into one node of the store.
RENEWERS_MAX: Final = 100
PRINCIPAL_SIZE_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """One token, without its HMAC."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...] = ()
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_of(self, principal: Principal) -> bool:
        """Whether somebody owns it or may renew it."""
        return principal == self.owner or principal in self.renewers


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """The settings about tokens; without a secret there are none."""

    secret: Secret | None = None
    max_lifetime_ms: int = 604_800_000
    expiry_ms: int = 86_400_000


@dataclass(frozen=True, slots=True)
class Requester:
    """The caller of a token request, and the kind of listener it came through."""

    principal: Principal
    protocol: SecurityProtocol

    @property
    def fault(self) -> Refused | None:
        """The reason why this caller may not ask about tokens."""
        plain = self.protocol is SecurityProtocol.PLAINTEXT
        nobody = self.protocol is SecurityProtocol.SSL and self.principal == ANONYMOUS
        if plain or nobody or self.principal.by_token:
            return Refused(
                "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and "
                "on delegation token authenticated channels.",
                ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            )
        return None


def token_id(entropy: bytes) -> str:
    """The id of a new token, of 16 random bytes."""
    assert len(entropy) == ID_SIZE, "a token's id has 16 random bytes"
    return base64.urlsafe_b64encode(entropy).decode().rstrip("=")


def token_hmac(secret: Secret, id: str) -> bytes:
    """The password of a token: whoever knows it can log in."""
    return hmac.digest(secret.reveal().encode(), id.encode(), hashlib.sha512)


def token_password(hmac_bytes: bytes) -> str:
    """The HMAC as the password of a login by SCRAM."""
    return base64.b64encode(hmac_bytes).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken:
    """The request for a token; `max_lifetime_ms` of 0 or less asks for the longest."""

    owner: Principal | None
    renewers: tuple[Principal, ...] = ()
    max_lifetime_ms: int = -1


# Whether the requester may have tokens of somebody else: CREATE_TOKENS on that user.
MayCreateFor = Callable[[Principal], bool]


def create(
    requester: Requester,
    request: CreateToken,
    settings: TokenSettings,
    may_create_for: MayCreateFor,
    *,
    entropy: bytes,
    now_ms: int,
) -> DelegationToken | Refused:
    """A new token, or why there is none, in Kafka's order of checks."""
    if requester.fault:
        return requester.fault
    owner = request.owner or requester.principal
    if owner != requester.principal and not may_create_for(owner):
        return Refused(
            f"{requester.principal} may not create tokens for {owner}",
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        )
    if len(request.renewers) > RENEWERS_MAX:
        return Refused(f"a token has up to {RENEWERS_MAX} renewers", ErrorCode.INVALID_REQUEST)
    if not all(_is_named(one) for one in (owner, *request.renewers)):
        return Refused("a principal has a type and a name", ErrorCode.INVALID_PRINCIPAL_TYPE)
    if any(renewer.type != USER for renewer in request.renewers):
        return Refused("a renewer is of type User", ErrorCode.INVALID_PRINCIPAL_TYPE)
    if settings.secret is None:
        return _DISABLED
    wanted = request.max_lifetime_ms
    lifetime = settings.max_lifetime_ms
    if wanted > 0:
        lifetime = min(wanted, lifetime)
    max_ms = now_ms + lifetime
    return DelegationToken(
        id=token_id(entropy),
        owner=owner,
        requester=requester.principal,
        renewers=request.renewers,
        issued_ms=now_ms,
        max_ms=max_ms,
        expires_ms=min(max_ms, now_ms + settings.expiry_ms),
    )


def _is_named(principal: Principal) -> bool:
    """Whether a principal can be written down and read again."""
    is_short = len(principal.text) <= PRINCIPAL_SIZE_MAX
    return is_short and parse_principal(principal.text) == principal


_DISABLED: Final = Refused(
    "Delegation Token feature is not enabled. Set delegation.token.secret.key on every broker.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
)


class Fate(StrEnum):
    """The fate of a token's node."""

    WRITTEN = "written"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Changed:
    """A token that was renewed or ended, and the time that the answer has."""

    token: DelegationToken
    fate: Fate
    expires_ms: int


@dataclass(frozen=True, slots=True)
class TokenStore:
    """The tokens of the cluster at one moment, found by id and by HMAC."""

    secret: Secret | None
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    _by_hmac: Mapping[bytes, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        secret = self.secret
        found = {} if secret is None else {token_hmac(secret, id): id for id in self.tokens}
        object.__setattr__(self, "_by_hmac", found)

    def by_hmac(self, given: bytes) -> DelegationToken | None:
        """The token that was shown."""
        id = self._by_hmac.get(given)
        return None if id is None else self.tokens[id]

    def expired(self, now_ms: int) -> list[DelegationToken]:
        """The tokens that a clean-up removes."""
        return [
            one for one in self.tokens.values() if now_ms > one.max_ms or now_ms > one.expires_ms
        ]


def renew(
    requester: Requester,
    store: TokenStore,
    settings: TokenSettings,
    given: bytes,
    period_ms: int,
    now_ms: int,
) -> Changed | Refused:
    """Makes a token live longer, never beyond its longest life."""
    token = _found(requester, store, given)
    if isinstance(token, Refused):
        return token
    return _prolonged(token, settings, period_ms, now_ms)


def expire(
    requester: Requester,
    store: TokenStore,
    settings: TokenSettings,
    given: bytes,
    period_ms: int,
    now_ms: int,
) -> Changed | Refused:
    """Ends a token: at once where the period is negative, also one that has expired."""
    token = _found(requester, store, given)
    if isinstance(token, Refused):
        return token
    if period_ms < 0:
        return Changed(token, Fate.REMOVED, now_ms)
    return _prolonged(token, settings, period_ms, now_ms)


def _found(requester: Requester, store: TokenStore, given: bytes) -> DelegationToken | Refused:
    if requester.fault:
        return requester.fault
    if store.secret is None:
        return _DISABLED
    token = store.by_hmac(given)
    if token is None:
        return Refused("no token has this HMAC", ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if not token.is_of(requester.principal):
        return Refused(
            f"{requester.principal} neither owns the token nor may renew it",
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        )
    return token


def _prolonged(
    token: DelegationToken, settings: TokenSettings, period_ms: int, now_ms: int
) -> Changed | Refused:
    if now_ms > token.max_ms or now_ms > token.expires_ms:
        return Refused("the token has expired", ErrorCode.DELEGATION_TOKEN_EXPIRED)
    period = settings.expiry_ms if period_ms < 0 else period_ms
    expires_ms = min(token.max_ms, now_ms + period)
    return Changed(replace(token, expires_ms=expires_ms), Fate.WRITTEN, expires_ms)


def describe(
    requester: Requester,
    store: TokenStore,
    owners: Sequence[Principal] | None,
    may_see: Callable[[DelegationToken], bool],
) -> list[DelegationToken] | Refused:
    """The tokens that the requester may see, of these owners; None asks for everybody's.

    `may_see` is DESCRIBE on the token or DESCRIBE_TOKENS on its owner.
    """
    if requester.fault:
        return requester.fault
    if store.secret is None:
        return _DISABLED
    return [
        token
        for token in sorted(store.tokens.values(), key=lambda one: one.id)
        if _is_asked_for(token, owners) and (token.is_of(requester.principal) or may_see(token))
    ]


def _is_asked_for(token: DelegationToken, owners: Iterable[Principal] | None) -> bool:
    return owners is None or any(token.is_of(owner) for owner in owners)
