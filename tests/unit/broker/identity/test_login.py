"""The gate: whatever a stranger sends, nothing but ApiVersions gets past it before a login."""

from __future__ import annotations

import inspect
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.clock import SystemClock
from klamm.broker.identity.counts import FAILED, LoginCounts
from klamm.broker.identity.login import Desk, Failures, Login
from klamm.broker.net.peer import Answer
from klamm.broker.net.replies import Reply
from klamm.protocol import codec
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import encode_request_frame
from klamm.protocol.messages import sasl_authenticate, sasl_handshake
from klamm.security.sasl.oauthbearer import OAuthExchange, TokenRefused
from klamm.security.sasl.plain import PlainExchange
from klamm.security.sasl.server import Maker, SaslConfig
from klamm.security.secret import Secret


class Clock(SystemClock):
    """Time that only goes on when it is told to."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def elapsed_ms(self) -> int:
        return self.ms


class Stranger:
    """All that a gate needs of a connection."""

    client_host = "10.0.0.7"

    def __init__(self) -> None:
        self.principal = ""

    def identified(self, principal: str, *, by_token: bool) -> None:
        self.principal = principal

    def close(self) -> None:
        pass


class House:
    """A gate, and the router behind it."""

    def __init__(self, reauth_ms: int = 0) -> None:
        self.clock = Clock()
        self.counts = LoginCounts()
        self.reached: list[int] = []
        mechanisms: dict[str, Maker] = {
            "PLAIN": lambda _: PlainExchange({"alice": Secret("a")}),
            "OAUTHBEARER": lambda _: OAuthExchange(lambda *_: TokenRefused("too old")),
        }
        config = SaslConfig(mechanisms, 1000, {"PLAIN": reauth_ms})
        desk = Desk(
            listener="X",
            config=config,
            clock=self.clock,
            failures=Failures(self.clock, 100, 600_000),
            counts=self.counts,
            refuse=lambda *_: None,
        )
        self.stranger: Any = Stranger()
        self.login = Login(desk, self._route)

    def _route(self, peer: object, frame: memoryview) -> Answer:
        self.reached.append(int.from_bytes(frame[:2], "big", signed=True))
        return b"served"

    def tell(self, frame: bytes) -> Answer:
        answer = self.login.route(self.stranger, memoryview(frame))
        if inspect.iscoroutine(answer):
            answer.close()  # nobody waits for a delayed refusal here
        return answer


def framed(key: int, version: int, message: Any) -> bytes:
    body = codec.encode_request(key, version, message)
    return encode_request_frame(key, version, 1, "c", body)[4:]


HELLO = framed(ApiKey.SASL_HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
RAW_HELLO = framed(ApiKey.SASL_HANDSHAKE, 0, sasl_handshake.Request("PLAIN"))
PASSWORD = framed(ApiKey.SASL_AUTHENTICATE, 2, sasl_authenticate.Request(b"\0alice\0a"))
METADATA = struct.pack(">hhi", ApiKey.METADATA, 1, 1) + b"\0\0\0\0\0\0"
_keys = st.integers(-2, 90)
_frames = st.one_of(
    st.binary(max_size=80),
    st.builds(
        lambda key, version, rest: struct.pack(">hhi", key, version, 1) + rest,
        _keys,
        st.integers(-1, 6),
        st.binary(max_size=40),
    ),
    st.sampled_from([HELLO, RAW_HELLO]),
)


@given(st.lists(_frames, max_size=6))
def test_nothing_but_api_versions_passes_a_closed_gate(frames: list[bytes]) -> None:
    house = House()
    for frame in frames:
        answer = house.tell(frame)
        assert house.stranger.principal == ""
        assert set(house.reached) <= {ApiKey.API_VERSIONS}
        if inspect.iscoroutine(answer) or (isinstance(answer, Reply) and answer.then_close):
            break  # the connection is at its end


async def test_who_has_logged_in_is_served() -> None:
    house = House()
    house.tell(HELLO)
    house.tell(PASSWORD)
    assert house.login.is_open
    assert house.stranger.principal == "User:alice"
    assert house.tell(METADATA) == b"served"


async def test_an_ended_session_reaches_nobody() -> None:
    house = House(reauth_ms=500)
    house.tell(HELLO)
    house.tell(PASSWORD)
    house.clock.ms = 500
    assert house.tell(METADATA) == b"served"
    house.clock.ms = 501
    answer = house.tell(METADATA)
    assert isinstance(answer, Reply)
    assert answer.then_close
    assert not answer.parts, "nothing is said"
    assert house.reached == [ApiKey.METADATA]
    house.login.close()


def test_failures_cost_more_each_time_and_are_forgiven() -> None:
    clock = Clock()
    failures = Failures(clock, 100, 600_000)
    delays = [failures.delay_s("a") for _ in range(8)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2]
    assert failures.delay_s("b") == 0.1
    clock.ms += 60_001
    assert failures.delay_s("a") == 0.1
    failures.delay_s("a")
    failures.forgive("a")
    assert failures.delay_s("a") == 0.1


def test_a_frame_that_is_none_is_put_off_and_counted() -> None:
    house = House()
    assert house.login.refused("too long") == 0.1
    assert house.counts.total(FAILED) == 1


def test_a_refused_token_counts_once_though_the_client_leaves_or_stays() -> None:
    house = House()
    house.tell(framed(ApiKey.SASL_HANDSHAKE, 1, sasl_handshake.Request("OAUTHBEARER")))
    token = sasl_authenticate.Request(b"n,,\x01auth=Bearer a.b.c\x01\x01")
    answer = house.tell(framed(ApiKey.SASL_AUTHENTICATE, 2, token))
    assert isinstance(answer, Reply)
    assert not answer.then_close
    assert house.counts.total(FAILED) == 1
    last = house.tell(framed(ApiKey.SASL_AUTHENTICATE, 2, sasl_authenticate.Request(b"\x01")))
    assert inspect.iscoroutine(last), "the verdict is put off"
    assert house.counts.total(FAILED) == 1
