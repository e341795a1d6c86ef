"""Credentials as logins look them up, and the tokens in the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.identity.credentials import Credentials
from klamm.broker.identity.token_follower import TokenFollower
from klamm.client.security import Security, sasl
from klamm.model.scram import ScramMechanism
from klamm.security.credentials.scram import encode_credential, from_password
from klamm.security.credentials.tokens import DelegationToken, token_hmac, token_password
from klamm.security.principals import Principal
from klamm.security.sasl.exchange import Accepted, Challenge
from klamm.security.sasl.scram import ScramExchange
from klamm.security.secret import Secret
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, Delete, Session, SetData
from unit.broker.brokers import until

ALICE = Principal("User", "alice")
SECRET = Secret("shared")


def a_token(id: str, expires_ms: int = 10_000) -> DelegationToken:
    return DelegationToken(
        id=id, owner=ALICE, requester=ALICE, issued_ms=0, max_ms=20_000, expires_ms=expires_ms
    )


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_a_token_logs_in_as_its_owner_until_it_ends(mechanism: ScramMechanism) -> None:
    credentials = Credentials(SECRET)
    credentials.set_token("tok", a_token("tok"))
    security = Security(
        mechanism=mechanism.value,
        username="tok",
        password=token_password(token_hmac(SECRET, "tok")),
        is_delegated=True,
    )

    def logged_in(now_ms: int) -> Any:
        exchange = ScramExchange(mechanism, credentials, "n" * 26, b"decoy")
        steps = sasl.start(security)
        challenge = exchange.step(next(steps), now_ms)
        assert isinstance(challenge, Challenge)
        return exchange.step(steps.send(challenge.token), now_ms)

    accepted = logged_in(0)
    assert isinstance(accepted, Accepted)
    assert (accepted.principal, accepted.principal.by_token) == (ALICE, True)
    assert accepted.ends_ms == 10_000
    assert not isinstance(logged_in(10_000), Accepted), "at its end"
    credentials.set_token("tok", None)
    assert not isinstance(logged_in(0), Accepted), "once it is gone"


def test_without_a_secret_there_are_no_tokens() -> None:
    credentials = Credentials(None)
    credentials.set_token("tok", a_token("tok"))
    assert credentials.token(ScramMechanism.SHA_256, "tok") is None
    assert not credentials.has_tokens


def test_users_come_change_and_go() -> None:
    credentials = Credentials(None)
    sha = ScramMechanism.SHA_256
    made = from_password(sha, "pw", b"salt")
    credentials.set_user("a", {sha.value: encode_credential(made), "producer_byte_rate": "1"})
    assert credentials.user(sha, "a") == made
    assert credentials.user(ScramMechanism.SHA_512, "a") is None
    credentials.set_user("a", {sha.value: "nonsense"})
    assert credentials.user(sha, "a") is None
    credentials.set_user("a", {sha.value: encode_credential(made)})
    credentials.keep_only_users(frozenset({"b"}))
    assert credentials.user(sha, "a") is None


class Host:
    def __init__(self, session: Session) -> None:
        self.session = session


async def change(session: Session, id: str) -> None:
    data = layout.encode_token_change(id)
    await session.multi([Create(layout.TOKEN_CHANGE_PREFIX, data, sequential=True)])


async def test_tokens_in_the_store_are_followed() -> None:
    store = EmbeddedStore.open(None)
    session = await store.connect()
    roots = layout.with_parents(list(layout.TOKEN_ROOTS))
    await session.multis([Create(path)] for path in roots)
    await session.multi([Create(layout.token_path("one"), layout.encode_token(a_token("one")))])
    credentials = Credentials(SECRET)
    follower = TokenFollower(Host(session), credentials)
    await follower.load()
    assert set(credentials.tokens) == {"one"}
    follower.follow()
    await session.multi([Create(layout.token_path("two"), layout.encode_token(a_token("two")))])
    await change(session, "two")
    await until(lambda: "two" in credentials.tokens, "it is told of the new one")
    renewed = replace(a_token("two"), expires_ms=15_000)
    await session.multi([SetData(layout.token_path("two"), layout.encode_token(renewed))])
    await session.multi([Delete(layout.token_path("one"))])
    await asyncio.gather(change(session, "one"), change(session, "two"))
    await until(lambda: "one" not in credentials.tokens, "it is told of the end")
    await until(lambda: credentials.tokens["two"].expires_ms == 15_000, "and of the renewal")
    await session.multi([SetData(layout.token_path("two"), b"nonsense")])
    await change(session, "two")
    await until(lambda: not credentials.tokens, "what makes no sense is none")
    await follower.stop()
    await store.close()
