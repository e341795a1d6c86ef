"""The gate of one connection: SASL before the router, and the end of a session after it.

Frames are decoded here and told to `SaslServer`, which says what to answer. Until somebody has
logged in, nothing but ApiVersions reaches the router. Failures are answered late, and later with
each failure from the same address, so that guessing takes time and costs nobody else any.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from klamm.broker.clock import Clock
from klamm.broker.identity.counts import LoginCounts
from klamm.broker.net.peer import Answer, Peer, Route
from klamm.broker.net.replies import Reply
from klamm.broker.net.software import is_named_well
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.protocol import codec
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import (
    RequestHeader,
    encode_response_frame,
    is_served,
    parse_request_header,
)
from klamm.protocol.messages import sasl_authenticate, sasl_handshake
from klamm.repeats import limited
from klamm.security.sasl import server as sasl
from klamm.security.sasl.server import SaslConfig, SaslServer, Versions
from klamm.security.sasl.sessions import failure_delay_ms

log = limited(logging.getLogger(__name__))

_ENTROPY: Final = 24
_ADDRESSES_MAX: Final = 10_000
_FORGIVEN_MS: Final = 60_000
# A client that renews its session at the last moment is not cut for the time its request takes.
_GRACE_S: Final = 1.0
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE).to_bytes(2, "big")

# The answer of an API, as a whole, to a request that is refused; None where it has no such answer.
Refuse = Callable[[RequestHeader, memoryview, ErrorCode], Reply | None]


class Failures:
    """The failed logins of late, by address."""

    def __init__(self, clock: Clock, base_ms: int, idle_ms: int) -> None:
        self._clock = clock
        self._base_ms = base_ms
        self._idle_ms = idle_ms
        self._by_address: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def delay_s(self, address: str) -> float:
        """Count one more; returns for how long its answer is put off."""
        now_ms = self._clock.elapsed_ms()
        count, last_ms = self._by_address.pop(address, (0, now_ms))
        count = 1 if now_ms - last_ms > _FORGIVEN_MS else count + 1
        self._by_address[address] = (count, now_ms)
        if len(self._by_address) > _ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        return failure_delay_ms(self._base_ms, count, self._idle_ms) / 1000

    def forgive(self, address: str) -> None:
        """Somebody there has logged in."""
        self._by_address.pop(address, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The desk at which the callers of a listener log in: all that its gates share."""

    listener: str
    config: SaslConfig
    clock: Clock
    failures: Failures
    counts: LoginCounts
    refuse: Refuse
    cuts_revoked: Callable[[], bool] = lambda: False  # who logged in with what is gone by now


class Login:
    """One connection's login."""

    def __init__(self, desk: Desk, route: Route) -> None:
        self._desk = desk
        self._behind = route
        self._sasl = SaslServer(desk.config)
        self._address = "?"
        self._ending: asyncio.TimerHandle | None = None
        self._holds: Callable[[], bool] | None = None
        # The wait of a login that has failed. A refused token is told before the login ends, and
        # counts though the client leaves without another word.
        self._owed_s: float | None = None

    @property
    def frame_size_max(self) -> int:
        return self._desk.config.frame_size_max

    @property
    def is_open(self) -> bool:
        return self._sasl.has_login

    def route(self, peer: Peer, frame: memoryview) -> Answer:
        state = self._sasl
        if state.is_busy or frame[:2] in (_HANDSHAKE, _AUTHENTICATE):
            return self._log_in(peer, frame)
        if state.is_expired(self._desk.clock.now_ms()):
            return self._expire()
        if self._holds is not None and self._desk.cuts_revoked() and not self._holds():
            self._tell("the credential or token of this connection was removed")
            return self._expire()
        return self._behind(peer, frame)

    def refused(self, why: str) -> float:
        """A frame was too long, or none."""
        return self._failed(why)

    def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()

    def _log_in(self, connection: Peer, frame: memoryview) -> Answer:
        self._address = connection.client_host
        now_ms = self._desk.clock.now_ms()
        if self._sasl.expects_raw:
            return self._taken(connection, frame, None, self._sasl.raw_token(bytes(frame), now_ms))
        try:
            header = parse_request_header(frame)
            step = self._step(header, frame, now_ms)
        except ProtocolError:
            return self._taken(connection, frame, None, self._sasl.unreadable())
        return self._taken(connection, frame, header, step)

    def _step(self, header: RequestHeader, frame: memoryview, now_ms: int) -> sasl.Step:
        key, version, body = header.api_key, header.api_version, frame[header.body_offset :]
        if key == ApiKey.API_VERSIONS:
            return self._sasl.versions(_versions(header, body))
        if key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return self._sasl.other()
        if not is_served(key, version):
            return self._sasl.unreadable()
        request = codec.decode_request(key, version, body)
        if isinstance(request, sasl_handshake.Request):
            entropy = secrets.token_bytes(_ENTROPY)
            return self._sasl.handshake(request.mechanism, version, now_ms, entropy)
        return self._sasl.authenticate(bytes(request.auth_bytes), version, now_ms)

    def _taken(
        self,
        connection: Peer,
        frame: memoryview,
        header: RequestHeader | None,
        step: sasl.Step,
    ) -> Answer:
        """The answer to a frame that took this step."""
        if isinstance(step.answer, sasl.Served):
            return self._behind(connection, frame)
        if step.login is not None:
            self._logged_in(connection, step.login)
        reply = self._reply(header, frame, step.answer)
        if step.failed and self._owed_s is None:
            self._owed_s = self._failed(step.why)
        if not step.close:
            return reply
        reply.then_close = True
        if step.failed:
            assert self._owed_s is not None, "whoever fails waits"
            return _later(self._owed_s, reply)
        self._tell(step.why)
        return reply

    def _reply(
        self, header: RequestHeader | None, frame: memoryview, answer: sasl.Answer | None
    ) -> Reply:
        match answer:
            case None:
                return Reply()
            case sasl.RawAnswer(token):
                return Reply((len(token).to_bytes(4, "big") + token,))
            case sasl.HandshakeAnswer(code, mechanisms):
                assert header is not None, "only a request has such an answer"
                told: Any = sasl_handshake.Response(int(code), list(mechanisms))
                return _encoded(header, told)
            case sasl.AuthenticateAnswer(code, token, message, lifetime_ms):
                assert header is not None, "only a request has such an answer"
                told = sasl_authenticate.Response(int(code), message, token, lifetime_ms)
                return _encoded(header, told)
            case sasl.ErrorAnswer(code):
                assert header is not None, "only a request has such an answer"
                body = frame[header.body_offset :]
                return self._desk.refuse(header, body, code) or Reply()
            case _:
                raise AssertionError(f"{answer} is served by the router")

    def _logged_in(self, connection: Peer, login: sasl.Login) -> None:
        desk = self._desk
        desk.failures.forgive(connection.client_host)
        desk.counts.logged_in(desk.listener, again=login.again, can_repeat=login.can_repeat)
        connection.identified(login.principal.text, by_token=login.principal.by_token)
        self._holds = login.holds
        self.close()
        ends_ms = login.session.ends_ms
        if ends_ms is not None:
            left_s = max(ends_ms - desk.clock.now_ms(), 0) / 1000 + _GRACE_S
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(left_s, self._end, connection)

    def _end(self, connection: Peer) -> None:
        """Close a connection whose session has ended, and that nobody has asked anything since."""
        if not self._sasl.is_busy and self._sasl.is_expired(self._desk.clock.now_ms()):
            self._desk.counts.expired(self._desk.listener)
            connection.close()

    def _expire(self) -> Reply:
        self._desk.counts.expired(self._desk.listener)
        return Reply(then_close=True)

    def _failed(self, why: str) -> float:
        self._desk.counts.failed(self._desk.listener)
        self._tell(why)
        return self._desk.failures.delay_s(self._address)

    def _tell(self, why: str) -> None:
        log.warning(
            "somebody could not log in",
            extra={"client": self._address, "listener": self._desk.listener, "why": why},
        )


def _versions(header: RequestHeader, body: memoryview) -> Versions:
    key, version = header.api_key, header.api_version
    if not is_served(key, version):
        return Versions.UNSUPPORTED
    asked = codec.decode_request(key, version, body)
    return Versions.SERVED if is_named_well(version, asked) else Versions.INVALID


def _encoded(header: RequestHeader, response: Any) -> Reply:
    body = codec.encode_response(header.api_key, header.api_version, response)
    return Reply((encode_response_frame(header, body),))


async def _later(delay_s: float, reply: Reply) -> Reply:
    await asyncio.sleep(delay_s)
    return reply
