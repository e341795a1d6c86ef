"""The state machine of SASL: every state against every frame, sessions and re-authentication."""

from __future__ import annotations

import pytest

from klamm.model.errors import ErrorCode
from klamm.security.principals import Principal
from klamm.security.sasl.exchange import Accepted, Challenge, Denied
from klamm.security.sasl.plain import PlainExchange
from klamm.security.sasl.server import (
    AuthenticateAnswer,
    ErrorAnswer,
    HandshakeAnswer,
    RawAnswer,
    SaslConfig,
    SaslServer,
    Served,
    State,
    Step,
    Versions,
)
from klamm.security.sasl.sessions import Session, failure_delay_ms, session
from klamm.security.secret import Secret

ALICE = b"\0alice\0a"
BOB = b"\0bob\0b"
WRONG = b"\0alice\0x"
USERS = {"alice": Secret("a"), "bob": Secret("b")}
BOTH = ("PLAIN", "OTHER")


class Two:
    """A mechanism with a challenge, whose credential ends at 500."""

    def step(self, token: bytes, now_ms: int) -> Challenge | Accepted | Denied:
        if token == b"first":
            return Challenge(b"more")
        if token == b"second":
            return Accepted(principal=Principal("User", "two"), token=b"bye", ends_ms=500)
        return Denied("no")


def server(reauth_ms: int = 0) -> SaslServer:
    makers = {"PLAIN": lambda entropy: PlainExchange(USERS), "OTHER": lambda entropy: Two()}
    return SaslServer(SaslConfig(makers, reauth_ms={"PLAIN": reauth_ms}))


def logged_in(reauth_ms: int = 0, token: bytes = ALICE) -> SaslServer:
    one = server(reauth_ms)
    one.handshake("PLAIN", 1, 0, b"")
    assert one.authenticate(token, 2, 0).login is not None
    return one


def closed(step: Step, *, delayed: bool) -> bool:
    return step.close and step.delayed == delayed and step.failed == delayed


def test_login_with_versions_before() -> None:
    one = server()
    assert one.versions(Versions.UNSUPPORTED) == Step(answer=Served())
    assert one.versions(Versions.INVALID) == Step(answer=Served())
    assert one.versions(Versions.SERVED) == Step(answer=Served())
    assert one.state is State.HANDSHAKE
    step = one.handshake("PLAIN", 1, 0, b"")
    assert step == Step(answer=HandshakeAnswer(ErrorCode.NONE, BOTH))
    step = one.authenticate(ALICE, 2, 0)
    assert step.answer == AuthenticateAnswer(ErrorCode.NONE)
    assert step.login is not None
    assert (step.login.principal.name, step.login.again) == ("alice", False)
    assert not one.is_busy
    assert one.other() == Step(answer=Served())


def test_second_versions_closes_at_once() -> None:
    one = server()
    one.versions(Versions.SERVED)
    assert closed(one.versions(Versions.SERVED), delayed=False)
    assert one.state is State.FAILED


def test_other_request_before_the_handshake_closes_after_a_while() -> None:
    for prepare in (lambda one: None, lambda one: one.versions(Versions.SERVED)):
        one = server()
        prepare(one)
        step = one.other()
        assert closed(step, delayed=True)
        assert step.answer is None
    assert closed(server().authenticate(ALICE, 1, 0), delayed=True)


def test_other_request_instead_of_a_token_is_told_so() -> None:
    for event in (
        lambda one: one.other(),
        lambda one: one.versions(Versions.SERVED),
        lambda one: one.handshake("PLAIN", 1, 0, b""),
    ):
        one = server()
        one.handshake("PLAIN", 1, 0, b"")
        step = event(one)
        assert closed(step, delayed=True)
        assert step.answer == ErrorAnswer(ErrorCode.ILLEGAL_SASL_STATE)


def test_unknown_mechanism_gets_the_list() -> None:
    for name in ("GSSAPI", "plain", ""):
        step = server().handshake(name, 1, 0, b"")
        assert closed(step, delayed=True)
        assert step.answer == HandshakeAnswer(ErrorCode.UNSUPPORTED_SASL_MECHANISM, BOTH)


def test_wrong_password_is_told_and_waits() -> None:
    one = server()
    one.handshake("PLAIN", 1, 0, b"")
    step = one.authenticate(WRONG, 1, 0)
    assert closed(step, delayed=True)
    assert step.answer == AuthenticateAnswer(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        message="Authentication failed: Invalid username or password",
    )


def test_denial_without_words_has_the_words_that_tell_nothing() -> None:
    one = server()
    one.handshake("OTHER", 1, 0, b"")
    answer = one.authenticate(b"?", 1, 0).answer
    assert isinstance(answer, AuthenticateAnswer)
    assert answer.message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism OTHER"
    )


def test_bare_tokens_after_the_old_handshake() -> None:
    one = server()
    one.handshake("OTHER", 0, 0, b"")
    assert one.expects_raw
    assert one.raw_token(b"first", 0) == Step(answer=RawAnswer(b"more"))
    step = one.raw_token(b"second", 0)
    assert step.answer == RawAnswer(b"bye")
    assert step.login is not None
    assert not step.login.can_repeat
    assert not one.expects_raw
    bad = server()
    bad.handshake("PLAIN", 0, 0, b"")
    step = bad.raw_token(WRONG, 0)
    assert closed(step, delayed=True)
    assert step.answer is None


def test_frame_that_is_too_large_is_not_read() -> None:
    assert server().size_fault(524_288) is None
    for size in (524_289, -1):
        step = server().size_fault(size)
        assert step is not None
        assert closed(step, delayed=True)


def test_frame_that_cannot_be_read_closes_at_once() -> None:
    assert closed(server().unreadable(), delayed=False)


def test_credential_that_ends_is_told_without_any_setting() -> None:
    one = server()
    one.handshake("OTHER", 1, 0, b"")
    assert one.authenticate(b"first", 2, 100).answer == AuthenticateAnswer(ErrorCode.NONE, b"more")
    answer = one.authenticate(b"second", 2, 100).answer
    assert answer == AuthenticateAnswer(ErrorCode.NONE, b"bye", lifetime_ms=400)
    assert not one.is_expired(500)
    assert one.is_expired(501)


@pytest.mark.parametrize(
    ("ends", "reauth", "told"),
    [
        (None, 0, Session(None, 0)),
        (700, 0, Session(700, 600)),
        (None, 50, Session(150, 50)),
        (700, 50, Session(150, 50)),
        (120, 50, Session(120, 20)),
        (20, 0, Session(100, 0)),
    ],
)
def test_session_is_the_nearest_end(ends: int | None, reauth: int, told: Session) -> None:
    assert session(ends, reauth, 100) == told


def test_handshake_again_without_a_session_end_is_illegal_and_harmless() -> None:
    one = logged_in()
    answer = HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, BOTH)
    assert one.handshake("PLAIN", 1, 9999, b"") == Step(answer=answer)
    late = one.authenticate(ALICE, 1, 9999).answer
    assert late == AuthenticateAnswer(
        ErrorCode.ILLEGAL_SASL_STATE,
        message="SaslAuthenticate request received after successful authentication",
    )
    assert one.other() == Step(answer=Served())


def test_reauthentication() -> None:
    one = logged_in(reauth_ms=10_000)
    early = one.handshake("PLAIN", 1, 999, b"")
    assert early == Step(answer=HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, BOTH))
    # Also after the end of the session, as long as nothing else has come.
    assert one.is_expired(10_001)
    assert one.handshake("PLAIN", 1, 10_001, b"").answer == HandshakeAnswer(ErrorCode.NONE, BOTH)
    assert one.is_busy
    step = one.authenticate(ALICE, 1, 10_002)
    assert step.login is not None
    assert step.login.again
    assert step.answer == AuthenticateAnswer(ErrorCode.NONE, lifetime_ms=10_000)
    assert not one.is_expired(20_002)


def test_reauthentication_as_somebody_else_fails() -> None:
    one = logged_in(reauth_ms=10_000)
    one.handshake("PLAIN", 1, 5000, b"")
    step = one.authenticate(BOB, 1, 5000)
    assert closed(step, delayed=True)
    assert step.answer == AuthenticateAnswer(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        message="Cannot change principals during re-authentication from User.alice: User.bob",
    )


def test_reauthentication_by_another_mechanism_closes_at_the_next_frame() -> None:
    for event in (lambda one: one.authenticate(b"first", 1, 5001), lambda one: one.other()):
        one = logged_in(reauth_ms=10_000)
        assert one.handshake("OTHER", 1, 5000, b"").answer == HandshakeAnswer(ErrorCode.NONE, BOTH)
        step = event(one)
        assert closed(step, delayed=True)
        assert step.answer is None
        assert step.why == (
            "SASL mechanism 'OTHER' requested by client is not supported for re-authentication of "
            "mechanism 'PLAIN'"
        )


def test_request_in_the_middle_of_a_reauthentication_is_illegal() -> None:
    one = logged_in(reauth_ms=10_000)
    one.handshake("PLAIN", 1, 5000, b"")
    step = one.other()
    assert step.answer == ErrorAnswer(ErrorCode.ILLEGAL_SASL_STATE)
    assert closed(step, delayed=True)


def test_failed_reauthentication_is_called_so() -> None:
    one = server()
    one.handshake("OTHER", 1, 0, b"")
    one.authenticate(b"second", 1, 0)
    one.handshake("OTHER", 1, 1000, b"")
    answer = one.authenticate(b"?", 1, 1000).answer
    assert isinstance(answer, AuthenticateAnswer)
    assert answer.message is not None
    assert "during re-authentication due" in answer.message


def test_failures_wait_longer_each_time_and_never_for_ever() -> None:
    delays = [failure_delay_ms(100, count, 600_000) for count in range(9)]
    assert delays == [100, 100, 200, 400, 800, 1600, 3200, 3200, 3200]
    assert failure_delay_ms(100, 9, 1000) == 500
    assert failure_delay_ms(0, 9, 1000) == 0
    assert failure_delay_ms(100, 3, -1) == 400
