"""The broker's side of SASL on one connection: a state machine that is told of frames.

The shell decodes frames and says what came (an event); it is answered with a `Step`: what to send,
whether to close, whether to wait before both, and who has logged in. Between handshake and login
there is one frame at a time; a frame is no request of Kafka's after a handshake of version 0, when
tokens come bare (`expects_raw`).

A login can end (KIP-368). On a connection with an end, a new handshake begins a re-authentication:
by the same mechanism and as the same principal, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from klamm.model.errors import ErrorCode
from klamm.security.principals import Principal
from klamm.security.sasl.exchange import Accepted, Challenge, Denied, Exchange
from klamm.security.sasl.sessions import Session, session

_REAUTH_PAUSE_MS: Final = 1000
AFTER_LOGIN: Final = "SaslAuthenticate request received after successful authentication"


class State(StrEnum):
    """The message that a connection waits for."""

    HANDSHAKE_OR_VERSIONS = "handshake or versions"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    MISMATCH = "mismatch"  # another mechanism than before was chosen: the next frame ends it
    COMPLETE = "complete"
    FAILED = "failed"


class Versions(StrEnum):
    """The way ApiVersions was asked."""

    SERVED = "served"
    UNSUPPORTED = "unsupported"  # answered with 35, and the client tries another one
    INVALID = "invalid"  # answered with 42: the client's name or version make no sense


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """The answer to SaslHandshake."""

    code: ErrorCode
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuthenticateAnswer:
    """The answer to SaslAuthenticate."""

    code: ErrorCode
    token: bytes = b""
    message: str | None = None
    lifetime_ms: int = 0


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A bare token, with nothing but its size before it."""

    token: bytes


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The error answer of whatever API was asked."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class Served:
    """The request goes on to whoever serves it."""


Answer = HandshakeAnswer | AuthenticateAnswer | RawAnswer | ErrorAnswer | Served


@dataclass(frozen=True, slots=True)
class Login:
    """Somebody has said who they are."""

    principal: Principal
    mechanism: str
    session: Session
    again: bool  # a re-authentication
    can_repeat: bool  # the client's version knows of sessions
    holds: Callable[[], bool] | None = None  # whether the credential is still there


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The action of the shell for a frame."""

    answer: Answer | None = None
    close: bool = False
    delayed: bool = False  # the answer and the close wait, and nothing is read meanwhile
    login: Login | None = None
    why: str = ""  # of a close, for the log
    failed: bool = False  # counts as a failed authentication, once for a connection


# A mechanism's exchange, made of fresh random bytes.
Maker = Callable[[bytes], Exchange]


@dataclass(frozen=True, slots=True)
class SaslConfig:
    """The SASL offer of a listener."""

    mechanisms: Mapping[str, Maker]
    frame_size_max: int = 524_288
    reauth_ms: Mapping[str, int] | None = None  # by mechanism; absent: never

    def reauth(self, mechanism: str) -> int:
        """After how long a login by this mechanism has to be repeated; 0 for never."""
        return (self.reauth_ms or {}).get(mechanism, 0)


class SaslServer:
    """One connection's authentication."""

    __slots__ = (
        "_config",
        "_exchange",
        "_mechanism",
        "_other_mechanism",
        "_principal",
        "_raw",
        "_session",
        "_started_ms",
        "_state",
    )

    def __init__(self, config: SaslConfig) -> None:
        self._config = config
        self._state = State.HANDSHAKE_OR_VERSIONS
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._other_mechanism = ""  # chosen for a re-authentication, and not the one before
        self._raw = False
        self._principal: Principal | None = None
        self._session = Session(None, 0)
        self._started_ms: int | None = None  # when the last authentication began

    @property
    def state(self) -> State:
        """The message that the connection waits for."""
        return self._state

    @property
    def expects_raw(self) -> bool:
        """Whether the next frame is a bare token."""
        return self._raw and self._state is State.AUTHENTICATE

    @property
    def is_busy(self) -> bool:
        """Whether frames belong to an authentication, the first or a later one."""
        return self._state is not State.COMPLETE

    @property
    def has_login(self) -> bool:
        """Whether somebody has logged in, once at least."""
        return self._principal is not None

    def is_expired(self, now_ms: int) -> bool:
        """Whether a request comes after the end of the session: it is cut without an answer."""
        return self._session.ends_ms is not None and now_ms > self._session.ends_ms

    def size_fault(self, size: int) -> Step | None:
        """Refuses a frame before it is read."""
        if 0 <= size <= self._config.frame_size_max:
            return None
        return self._fail("Failing SASL authentication due to invalid receive size")

    def versions(self, outcome: Versions) -> Step:
        """ApiVersions: answered until it was answered well once, and before the handshake only."""
        if self._state is State.HANDSHAKE_OR_VERSIONS:
            if outcome is Versions.SERVED:
                self._state = State.HANDSHAKE
            return Step(answer=Served())
        if self._state is State.HANDSHAKE:
            return self._end("ApiVersions came a second time before SaslHandshake")
        if self._state is State.COMPLETE:
            return Step(answer=Served())
        return self.other()

    def handshake(self, mechanism: str, version: int, now_ms: int, entropy: bytes) -> Step:
        """SaslHandshake: chooses a mechanism."""
        if self._state is State.COMPLETE:
            if not self._may_start_again(now_ms):
                return Step(answer=self._handshake_answer(ErrorCode.ILLEGAL_SASL_STATE))
        elif self._state not in (State.HANDSHAKE_OR_VERSIONS, State.HANDSHAKE):
            return self.other()
        make = self._config.mechanisms.get(mechanism)
        if make is None:
            return self._fail(
                f"the client chose {mechanism!r}, which this listener does not offer",
                self._handshake_answer(ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            )
        self._started_ms = now_ms
        answer = self._handshake_answer(ErrorCode.NONE)
        if self._principal is not None and mechanism != self._mechanism:
            self._state = State.MISMATCH
            self._other_mechanism = mechanism
            return Step(answer=answer)
        self._mechanism = mechanism
        self._exchange = make(entropy)
        self._raw = version == 0
        self._state = State.AUTHENTICATE
        return Step(answer=answer)

    def authenticate(self, token: bytes, version: int, now_ms: int) -> Step:
        """SaslAuthenticate: one step of the mechanism."""
        if self._state is State.COMPLETE:
            return Step(
                answer=AuthenticateAnswer(ErrorCode.ILLEGAL_SASL_STATE, message=AFTER_LOGIN)
            )
        if self._state is State.MISMATCH:
            return self._mismatch()
        if self._state is not State.AUTHENTICATE or self._raw:
            return self._fail("SaslAuthenticate came before SaslHandshake")
        assert self._exchange is not None
        outcome = self._exchange.step(token, now_ms)
        match outcome:
            case Challenge(challenge, refused):
                answer = AuthenticateAnswer(ErrorCode.NONE, challenge)
                return Step(answer=answer, why=refused, failed=bool(refused))
            case Denied(why, told):
                return self._denied(why, told)
            case Accepted():
                if denied := self._other_principal(outcome.principal):
                    return self._denied(denied, denied)
                login = self._complete(outcome, now_ms, can_repeat=version >= 1)
                lifetime = login.session.lifetime_ms
                answer = AuthenticateAnswer(ErrorCode.NONE, outcome.token, lifetime_ms=lifetime)
                return Step(answer=answer, login=login)

    def raw_token(self, token: bytes, now_ms: int) -> Step:
        """A bare token after a handshake of version 0: failures have no answer."""
        assert self.expects_raw, f"a bare token in state {self._state}"
        assert self._exchange is not None
        outcome = self._exchange.step(token, now_ms)
        match outcome:
            case Challenge(challenge, refused):
                return Step(answer=RawAnswer(challenge), why=refused, failed=bool(refused))
            case Denied(why):
                return self._fail(why)
            case Accepted():
                if denied := self._other_principal(outcome.principal):
                    return self._fail(denied)
                login = self._complete(outcome, now_ms, can_repeat=False)
                return Step(answer=RawAnswer(outcome.token), login=login)

    def other(self) -> Step:
        """A request of another API, which has to wait until the caller is known."""
        match self._state:
            case State.COMPLETE:
                return Step(answer=Served())
            case State.MISMATCH:
                return self._mismatch()
            case State.AUTHENTICATE:
                return self._fail(
                    "another request came instead of SaslAuthenticate",
                    ErrorAnswer(ErrorCode.ILLEGAL_SASL_STATE),
                )
            case _:
                return self._fail("another request came before SaslHandshake")

    def unreadable(self) -> Step:
        """A frame that is no request, or one of a version that is not served."""
        return self._end("a frame before the end of authentication could not be read")

    def _may_start_again(self, now_ms: int) -> bool:
        if self._session.ends_ms is None:
            return False
        return self._started_ms is None or now_ms - self._started_ms >= _REAUTH_PAUSE_MS

    def _handshake_answer(self, code: ErrorCode) -> HandshakeAnswer:
        return HandshakeAnswer(code, tuple(self._config.mechanisms))

    def _other_principal(self, principal: Principal) -> str | None:
        before = self._principal
        if before is None or before == principal:
            return None
        return (
            "Cannot change principals during re-authentication from "
            f"{before.type}.{before.name}: {principal.type}.{principal.name}"
        )

    def _complete(self, accepted: Accepted, now_ms: int, *, can_repeat: bool) -> Login:
        again = self._principal is not None
        self._principal = accepted.principal
        self._session = session(accepted.ends_ms, self._config.reauth(self._mechanism), now_ms)
        self._state = State.COMPLETE
        self._exchange = None
        return Login(
            accepted.principal, self._mechanism, self._session, again, can_repeat, accepted.holds
        )

    def _denied(self, why: str, told: str | None) -> Step:
        word = "authentication" if self._principal is None else "re-authentication"
        # One text for every reason that would tell whether a user exists.
        message = told or (
            f"Authentication failed during {word} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
        return self._fail(
            why, AuthenticateAnswer(ErrorCode.SASL_AUTHENTICATION_FAILED, message=message)
        )

    def _mismatch(self) -> Step:
        return self._fail(
            f"SASL mechanism '{self._other_mechanism}' requested by client is not supported for "
            f"re-authentication of mechanism '{self._mechanism}'"
        )

    def _fail(self, why: str, answer: Answer | None = None) -> Step:
        self._state = State.FAILED
        self._exchange = None
        return Step(answer=answer, close=True, delayed=True, why=why, failed=True)

    def _end(self, why: str) -> Step:
        self._state = State.FAILED
        self._exchange = None
        return Step(close=True, why=why)
