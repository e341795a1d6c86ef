"""What is said before the first request, held against a broker's half that verifies it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from doors import PASSWORD, TOKEN, USER, Judge, judge_of, scram_judge
from klamm.client.conversation import Conversation
from klamm.client.errors import Answered, Distrusted, VersionMismatch
from klamm.client.opening import Steps, advance, lost, negotiate, sign_in
from klamm.client.security import Security
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey, Versions
from klamm.protocol.codec import decode_request, encode_response
from klamm.protocol.messages import api_versions, sasl_authenticate, sasl_handshake

SASL = {
    ApiKey.SASL_HANDSHAKE: Versions(0, 1),
    ApiKey.SASL_AUTHENTICATE: Versions(0, 2),
}


def _talk(versions: dict[ApiKey, Versions] | None = None) -> Conversation[None]:
    talk: Conversation[None] = Conversation(("h", 1), None)
    talk.versions = dict(versions or {})
    return talk


def _login(mechanism: str, **more: Any) -> Security:
    given: dict[str, Any] = {"username": USER, "password": PASSWORD, "token": lambda: TOKEN}
    return Security(protocol="SASL_SSL", mechanism=mechanism, **{**given, **more})


def _perform(steps: Steps[Any], judge: Judge, *, offered: str, lifetime_ms: int = 0) -> Any:
    """Takes the steps with a broker that offers one mechanism."""
    step, found = advance(steps, None)
    while step is not None:
        key, version, body = step
        request = decode_request(key, version, body)
        answer: Any
        if key == ApiKey.SASL_HANDSHAKE:
            known = request.mechanism == offered
            code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            answer = sasl_handshake.Response(code, [offered])
        else:
            told = judge(bytes(request.auth_bytes))
            failed = ErrorCode.SASL_AUTHENTICATION_FAILED
            answer = sasl_authenticate.Response(
                0 if told else failed, None, told[0] if told else b"", lifetime_ms
            )
        step, found = advance(steps, memoryview(encode_response(key, version, answer)))
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_broker_is_convinced_by_each_mechanism(mechanism: str) -> None:
    steps = sign_in(_talk(SASL), _login(mechanism))
    assert _perform(steps, judge_of(mechanism), offered=mechanism) is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_broker_is_not_convinced_by_a_wrong_secret(mechanism: str) -> None:
    wrong = _login(mechanism, password="guessed", token=lambda: "another.token")
    says = "invalid_token" if mechanism == "OAUTHBEARER" else "the user or the password is wrong"
    with pytest.raises(Distrusted, match=f"^h:1 refused to let us in: .*{says}"):
        _perform(sign_in(_talk(SASL), wrong), judge_of(mechanism), offered=mechanism)


def test_a_session_is_renewed_before_it_ends() -> None:
    steps = sign_in(_talk(SASL), _login("PLAIN"))
    again_s = _perform(steps, judge_of("PLAIN"), offered="PLAIN", lifetime_ms=60_000)
    assert 30 < again_s < 60


def test_a_mechanism_that_is_not_offered_is_answered_with_what_is() -> None:
    steps = sign_in(_talk(SASL), _login("SCRAM-SHA-256"))
    with pytest.raises(Distrusted, match=r"does not know SASL SCRAM-SHA-256, but PLAIN$"):
        _perform(steps, judge_of("PLAIN"), offered="PLAIN")


def test_a_broker_without_a_door() -> None:
    with pytest.raises(Distrusted, match=r"nobody can sign in at h:1: .* to SSL$"):
        advance(sign_in(_talk(), _login("PLAIN")), None)


def test_a_broker_that_knows_only_what_it_heard_is_left() -> None:
    """It can repeat a nonce and a salt, but not sign with a password that it does not know."""
    honest = scram_judge("sha256")

    def impostor(token: bytes) -> tuple[bytes, bool] | None:
        told = honest(token)
        assert told is not None
        return (b"v=" + b"A" * 43 + b"=", True) if told[1] else told

    steps = sign_in(_talk(SASL), _login("SCRAM-SHA-256"))
    with pytest.raises(Distrusted, match="has not proven"):
        _perform(steps, impostor, offered="SCRAM-SHA-256")


def test_versions_are_asked_for_in_the_oldest_form_where_the_newest_is_not_known() -> None:
    talk = _talk()
    steps = negotiate(talk)
    step, _ = advance(steps, None)
    assert step is not None
    assert step[:2] == (ApiKey.API_VERSIONS, 3)
    refusal = encode_response(ApiKey.API_VERSIONS, 0, api_versions.Response(35))
    step, _ = advance(steps, memoryview(refusal))
    assert step is not None
    assert step[:2] == (ApiKey.API_VERSIONS, 0)
    told = api_versions.Response(0, [api_versions.ApiVersion(ApiKey.METADATA, 1, 5)])
    answer = encode_response(ApiKey.API_VERSIONS, 0, told)
    assert advance(steps, memoryview(answer)) == (None, None)
    assert talk.versions == {ApiKey.METADATA: Versions(1, 5)}


def test_a_broker_that_does_not_say_what_it_speaks() -> None:
    steps = negotiate(_talk())
    refusal = memoryview(encode_response(ApiKey.API_VERSIONS, 0, api_versions.Response(35)))
    advance(steps, None)
    advance(steps, refusal)
    with pytest.raises(VersionMismatch, match="does not say which versions"):
        advance(steps, refusal)
    steps = negotiate(_talk())
    advance(steps, None)
    body = encode_response(ApiKey.API_VERSIONS, 3, api_versions.Response(31))
    with pytest.raises(Answered, match="CLUSTER_AUTHORIZATION_FAILED"):
        advance(steps, memoryview(body))


@pytest.mark.parametrize(
    ("key", "versions", "security", "says"),
    [
        (ApiKey.API_VERSIONS, None, Security(), "wants TLS"),
        (ApiKey.API_VERSIONS, None, Security(protocol="SSL"), "asks for a certificate"),
        (ApiKey.METADATA, SASL, Security(), "wants SASL"),
        (ApiKey.METADATA, SASL, Security(protocol="SASL_SSL"), "closed the connection$"),
        (ApiKey.METADATA, None, Security(), "closed the connection$"),
    ],
)
def test_a_broker_that_hangs_up_at_once_has_a_reason(
    key: ApiKey, versions: dict[ApiKey, Versions] | None, security: Security, says: str
) -> None:
    talk = _talk(versions)
    talk.ask(key, 0, (b"",), None)
    for fault in (None, ConnectionResetError(104, "reset")):
        assert re.search(says, str(lost(talk, security, fault)))
