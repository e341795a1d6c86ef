"""Tokens of OAUTHBEARER: unsecured and signed ones, and everything that is wrong with them."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from klamm.model.errors import Refused
from klamm.security.principals import Principal
from klamm.security.sasl.exchange import Accepted, Challenge, Denied
from klamm.security.sasl.oauthbearer import OAuthExchange, TokenAccepted, TokenRefused
from klamm.security.sasl.tokens import (
    KeySet,
    SignedTokens,
    TokenRules,
    UnsecuredTokens,
    key_set,
    unknown_key_id,
)

NOW_S = 1_700_000_000
NOW = NOW_S * 1000
GOOD: dict[str, Any] = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwks(**more: str) -> str:
    one = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key()))
    two = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key()))
    strange = {"kty": "RSA", "n": "?", "e": 3, "kid": "strange"}
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    return json.dumps({"keys": [one | {"kid": "r"} | more, two | {"kid": "e"}, strange, shared, 5]})


def keys(text: str | None = None) -> KeySet:
    read = key_set(text or jwks())
    assert isinstance(read, KeySet), read
    return read


def signed(claims: dict[str, Any], key: Any = RSA_KEY, alg: str = "RS256", kid: str = "r") -> str:
    return jwt.encode(claims, key, algorithm=alg, headers={"kid": kid})


def check(token: str, **rules: Any) -> TokenAccepted | TokenRefused:
    return SignedTokens(keys(), TokenRules(**rules))(token, NOW)


def unsecured(claims: Any, alg: str = "none", **rules: Any) -> TokenAccepted | TokenRefused:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    validator = UnsecuredTokens(TokenRules(skew_ms=0, **rules))
    return validator(f"{part({'alg': alg})}.{part(claims)}.", NOW)


def why(told: TokenAccepted | TokenRefused) -> str:
    assert isinstance(told, TokenRefused), told
    assert told.told == '{"status":"invalid_token"}'
    return told.why


def test_signed_token_by_any_key_of_the_set() -> None:
    assert check(signed(GOOD)) == TokenAccepted("alice", (NOW_S + 60) * 1000)
    for alg in ("RS512", "PS256"):
        assert isinstance(check(signed(GOOD, alg=alg)), TokenAccepted)
    assert isinstance(check(signed(GOOD, EC_KEY, "ES256", "e")), TokenAccepted)
    no_kid = jwt.encode(GOOD, RSA_KEY, algorithm="RS256")
    assert isinstance(check(no_kid), TokenAccepted)


def test_token_chooses_neither_key_nor_algorithm() -> None:
    assert "signature does not fit" in why(check(signed(GOOD, OTHER_KEY)))
    assert "no key of the JWKS fits" in why(check(signed(GOOD, kid="z")))
    assert "no key of the JWKS fits" in why(check(signed(GOOD, EC_KEY, "ES256", "r")))
    assert "is not taken" in why(check(jwt.encode(GOOD, None, algorithm="none")))
    forged = jwt.encode(GOOD, "s" * 32, algorithm="HS256", headers={"kid": "shared"})
    assert "is not taken" in why(check(forged))
    only = SignedTokens(keys(jwks(alg="RS512")), TokenRules())
    assert isinstance(only(signed(GOOD), NOW), TokenRefused)
    assert isinstance(only(signed(GOOD, alg="RS512"), NOW), TokenAccepted)
    header, _, signature = signed(GOOD).split(".")
    other = base64.urlsafe_b64encode(json.dumps(GOOD | {"sub": "root"}).encode()).decode()
    assert "signature" in why(check(f"{header}.{other.rstrip('=')}.{signature}"))


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": NOW_S - 31}, "has expired"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": None}, "exp is no time"),
        ({"exp": "soon"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": 10**400}, "exp is no time"),
        ({"iat": None}, "iat is no time"),
        ({"iat": NOW_S + 31}, "issued in the future"),
        ({"nbf": NOW_S + 31}, "does not hold yet"),
        ({"sub": " "}, "names nobody"),
        ({"sub": 5}, "names nobody"),
        ({"aud": "kafka"}, "none is expected"),
        ({"scope": [""]}, "no list of scopes"),
        ({"scope": 5}, "no list of scopes"),
    ],
)
def test_claims_are_checked(claims: dict[str, Any], words: str) -> None:
    token = jwt.api_jws.encode(
        json.dumps({k: v for k, v in (GOOD | claims).items() if v is not None}).encode(),
        RSA_KEY,
        "RS256",
        headers={"kid": "r"},
    )
    assert words in why(check(token))


def test_clock_skew_is_allowed_for() -> None:
    late = GOOD | {"exp": NOW_S - 29, "iat": NOW_S - 100, "nbf": NOW_S + 30}
    assert isinstance(check(signed(late)), TokenAccepted)


def test_issuer_and_audience() -> None:
    ours = GOOD | {"aud": ["x", "kafka"], "iss": "https://us"}
    rules: dict[str, Any] = {"audiences": ("kafka",), "issuer": "https://us"}
    assert isinstance(check(signed(ours), **rules), TokenAccepted)
    assert "another issuer" in why(check(signed(ours | {"iss": "https://us/"}), **rules))
    assert "another audience" in why(check(signed(ours | {"aud": "y"}), **rules))
    assert "another audience" in why(check(signed(GOOD | {"iss": "https://us"}), **rules))


def test_missing_scope_is_named() -> None:
    told = check(signed(GOOD | {"scope": "a b"}), required_scopes=("b", "c"))
    assert isinstance(told, TokenRefused)
    assert told.told == '{"status":"insufficient_scope", "scope":"b c"}'
    assert isinstance(
        check(signed(GOOD | {"scp": ["a"]}), required_scopes=("a",), scope_claim="scp"),
        TokenAccepted,
    )


def test_unsecured_tokens_for_development() -> None:
    assert unsecured(GOOD) == TokenAccepted("alice", (NOW_S + 60) * 1000)
    assert isinstance(unsecured({"sub": "a", "exp": NOW_S + 1, "aud": "x"}), TokenAccepted)
    assert "expired" in why(unsecured(GOOD | {"exp": NOW_S}))
    assert "future" in why(unsecured(GOOD | {"iat": NOW_S + 1}))
    assert "before it was issued" in why(
        UnsecuredTokens(TokenRules(skew_ms=10**6))(
            jwt.encode(GOOD | {"iat": NOW_S, "exp": NOW_S - 1}, None, algorithm="none"), NOW
        )
    )
    assert "algorithm" in why(unsecured(GOOD, alg="RS256"))
    assert "no JSON" in why(unsecured([1]))
    for token in ("", "a.b", "a.b.c", "..", "a..", "x" * 100_000):
        assert isinstance(UnsecuredTokens(TokenRules())(token, NOW), TokenRefused)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys":5}', '{"keys":[]}', "[" * 9999])
def test_key_set_that_is_none(text: str) -> None:
    assert isinstance(key_set(text), Refused)


def test_unknown_key_id_is_a_reason_to_fetch() -> None:
    assert unknown_key_id(keys(), signed(GOOD, kid="new")) == "new"
    assert unknown_key_id(keys(), signed(GOOD)) is None
    assert unknown_key_id(keys(), signed(GOOD, kid="k" * 1001)) is None
    assert unknown_key_id(keys(), "nonsense") is None


def accept(token: str, now_ms: int) -> TokenAccepted | TokenRefused:
    return TokenAccepted("alice", 9) if token == "good" else TokenRefused("because")


def test_exchange_accepts() -> None:
    for text in (
        "n,,\x01auth=Bearer good\x01\x01",
        "n,a=alice,\x01auth=bEARER good\x01k=v w\x01\x01",
    ):
        told = OAuthExchange(accept).step(text.encode(), 0)
        assert told == Accepted(principal=Principal("User", "alice"), ends_ms=9)
    other = OAuthExchange(accept).step(b"n,a=root,\x01auth=Bearer good\x01\x01", 0)
    assert isinstance(other, Denied)
    assert other.told is not None


def test_refusal_is_told_heard_and_only_then_final() -> None:
    one = OAuthExchange(accept)
    told = one.step(b"n,,\x01auth=Bearer bad\x01\x01", 0)
    assert told == Challenge(b'{"status":"invalid_token"}', refused="because")
    assert one.step(b"\x01", 0) == Denied("because", '{"status":"invalid_token"}')
    stubborn = OAuthExchange(accept)
    stubborn.step(b"n,,\x01auth=Bearer bad\x01\x01", 0)
    again = stubborn.step(b"n,,\x01auth=Bearer good\x01\x01", 0)
    assert isinstance(again, Denied)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n,,", b"n,,\x01auth=Basic good\x01\x01", b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01", b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer good\x01k1=v\x01\x01", b"n,,\x01auth=Bearer good\x01k=\x02\x01\x01",
        b"\xff",
    ],
)  # fmt: skip
def test_message_that_makes_no_sense(message: bytes) -> None:
    told = OAuthExchange(accept).step(message, 0)
    assert isinstance(told, Denied)
    assert told.told is None
