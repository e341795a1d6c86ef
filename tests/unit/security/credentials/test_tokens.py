"""Delegation tokens: who may have, renew, end and see one."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from klamm.model.errors import Refused
from klamm.security.credentials.tokens import (
    Changed,
    CreateToken,
    DelegationToken,
    Fate,
    Requester,
    TokenSettings,
    TokenStore,
    create,
    describe,
    expire,
    renew,
    token_hmac,
    token_id,
    token_password,
)
from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.principals import ANONYMOUS, Principal
from klamm.security.secret import Secret

ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
ON = TokenSettings(secret=Secret("s3cret"), max_lifetime_ms=1000, expiry_ms=100)
OFF = TokenSettings()
NOW = 10_000


def by(who: Principal, protocol: SecurityProtocol = SecurityProtocol.SASL_SSL) -> Requester:
    return Requester(who, protocol)


def made(
    who: Requester | None = None,
    settings: TokenSettings = ON,
    may: bool = False,
    owner: Principal | None = None,
    renewers: tuple[Principal, ...] = (BOB,),
    max_ms: int = -1,
) -> DelegationToken | Refused:
    request = CreateToken(owner=owner, renewers=renewers, max_lifetime_ms=max_ms)
    entropy = bytes(range(16))
    return create(
        who or by(ALICE), request, settings, lambda owner: may, entropy=entropy, now_ms=NOW
    )


def code(told: object) -> int:
    assert isinstance(told, Refused), told
    return told.code


def token() -> DelegationToken:
    one = made()
    assert isinstance(one, DelegationToken)
    return one


STORE = TokenStore(ON.secret, {token().id: token()})
HMAC = token_hmac(Secret("s3cret"), token().id)


def test_token_is_kafkas() -> None:
    one = token()
    assert one.id == "AAECAwQFBgcICQoLDA0ODw"
    assert len(token_id(bytes(16))) == 22
    assert hmac.new(b"s3cret", one.id.encode(), hashlib.sha512).digest() == HMAC
    assert token_password(HMAC) == base64.b64encode(HMAC).decode()
    assert (one.owner, one.requester, one.renewers) == (ALICE, ALICE, (BOB,))
    assert (one.issued_ms, one.max_ms, one.expires_ms) == (NOW, NOW + 1000, NOW + 100)


def test_lifetime_is_bounded_by_the_server() -> None:
    for wanted, lifetime in ((50, 50), (5000, 1000), (0, 1000), (-1, 1000)):
        one = made(max_ms=wanted)
        assert isinstance(one, DelegationToken)
        assert one.max_ms == NOW + lifetime
        assert one.expires_ms == NOW + min(lifetime, 100)


@pytest.mark.parametrize(
    "requester",
    [
        by(ALICE, SecurityProtocol.PLAINTEXT),
        by(ANONYMOUS, SecurityProtocol.SSL),
        by(Principal("User", "alice", by_token=True)),
    ],
)
def test_nothing_for_whom_nobody_knows_or_a_token_speaks(requester: Requester) -> None:
    assert code(made(requester)) == 64
    assert code(renew(requester, STORE, ON, HMAC, 1, NOW)) == 64
    assert code(expire(requester, STORE, ON, HMAC, -1, NOW)) == 64
    assert code(describe(requester, STORE, None, lambda one: True)) == 64


def test_certificate_is_enough() -> None:
    assert isinstance(made(by(ALICE, SecurityProtocol.SSL)), DelegationToken)


def test_without_a_secret_there_are_none() -> None:
    off = TokenStore(None)
    assert code(made(settings=OFF)) == 61
    assert code(renew(by(ALICE), off, OFF, HMAC, 1, NOW)) == 61
    assert code(expire(by(ALICE), off, OFF, HMAC, 1, NOW)) == 61
    assert code(describe(by(ALICE), off, None, lambda one: True)) == 61


def test_token_of_somebody_else_needs_a_right() -> None:
    assert code(made(owner=BOB)) == 65
    one = made(owner=BOB, may=True)
    assert isinstance(one, DelegationToken)
    assert (one.owner, one.requester) == (BOB, ALICE)
    # The order of the checks: 64, 65, 67, 61.
    group = (Principal("Group", "g"),)
    assert code(made(renewers=group)) == 67
    assert code(made(owner=BOB, renewers=group, settings=OFF)) == 65
    assert code(made(renewers=group, settings=OFF)) == 67


def test_renewing_ends_at_the_longest_life() -> None:
    for who in (ALICE, BOB):
        told = renew(by(who), STORE, ON, HMAC, 500, NOW + 50)
        assert isinstance(told, Changed)
        assert (told.fate, told.expires_ms) == (Fate.WRITTEN, NOW + 550)
        assert told.token.expires_ms == NOW + 550
    far = renew(by(ALICE), STORE, ON, HMAC, 10**9, NOW)
    assert isinstance(far, Changed)
    assert far.expires_ms == NOW + 1000
    usual = renew(by(ALICE), STORE, ON, HMAC, -1, NOW + 30)
    assert isinstance(usual, Changed)
    assert usual.expires_ms == NOW + 130


def test_renewing_is_for_owner_and_renewers_in_time() -> None:
    assert code(renew(by(EVE), STORE, ON, HMAC, 1, NOW)) == 63
    assert code(renew(by(ALICE), STORE, ON, b"?", 1, NOW)) == 62
    assert code(renew(by(ALICE), STORE, ON, HMAC, 1, NOW + 101)) == 66


def test_expiring() -> None:
    now = NOW + 500
    gone = expire(by(BOB), STORE, ON, HMAC, -1, now)
    assert gone == Changed(token(), Fate.REMOVED, now)
    assert code(expire(by(BOB), STORE, ON, HMAC, 5, now)) == 66
    soon = expire(by(ALICE), STORE, ON, HMAC, 5, NOW)
    assert isinstance(soon, Changed)
    assert (soon.fate, soon.expires_ms) == (Fate.WRITTEN, NOW + 5)
    assert code(expire(by(EVE), STORE, ON, HMAC, -1, NOW)) == 63


def test_seeing_tokens() -> None:
    def seen(who: Principal, owners: list[Principal] | None, may: bool = False) -> int:
        told = describe(by(who), STORE, owners, lambda one: may)
        assert isinstance(told, list)
        return len(told)

    assert seen(ALICE, None) == seen(BOB, None) == 1
    assert seen(EVE, None) == 0
    assert seen(EVE, None, may=True) == 1
    assert seen(ALICE, []) == 0
    assert seen(ALICE, [BOB]) == 1
    assert seen(ALICE, [EVE]) == 0


def test_clean_up_finds_the_expired() -> None:
    assert STORE.expired(NOW + 100) == []
    assert STORE.expired(NOW + 101) == [token()]
