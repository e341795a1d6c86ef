"""Frames, correlation and versions, without a socket."""

from __future__ import annotations

import struct

import pytest

from klamm.client.conversation import RESPONSE_SIZE_MAX, Conversation
from klamm.client.errors import Distrusted, VersionMismatch
from klamm.model.errors import ProtocolError
from klamm.protocol.apis import APIS, ApiKey, Versions
from klamm.protocol.frames import parse_request_header

PEER = ("::1", 9092)


def _talk() -> Conversation[str]:
    return Conversation(PEER, "me")


def _answer(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">i", correlation_id) + body


def test_answers_go_to_whom_they_are_due_in_order() -> None:
    talk = _talk()
    sent = [b"".join(talk.ask(ApiKey.HEARTBEAT, 3, (b"x",), name)) for name in ("a", "b")]
    assert [parse_request_header(frame[4:]).correlation_id for frame in sent] == [0, 1]
    assert (talk.in_flight, talk.due_key) == (2, ApiKey.HEARTBEAT)
    assert talk.hear(_answer(0, b"one")) == ("a", b"one")
    assert talk.hear(bytearray(_answer(1, b"two"))) == ("b", b"two")
    assert (talk.in_flight, talk.due_key) == (0, None)


def test_a_request_in_pieces_is_one_frame() -> None:
    talk = _talk()
    pieces = talk.ask(ApiKey.HEARTBEAT, 3, (b"abc", memoryview(b"defg")), "a")
    frame = b"".join(pieces)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    assert frame.endswith(b"abcdefg")
    assert b"".join(_talk().ask(ApiKey.HEARTBEAT, 3, (b"abcdefg",), "a")) == frame


def test_what_is_not_answered_takes_a_number_and_no_place() -> None:
    talk = _talk()
    talk.tell(ApiKey.PRODUCE, 7, (b"",))
    talk.ask(ApiKey.HEARTBEAT, 3, (b"",), "a")
    assert talk.hear(_answer(1)) == ("a", b"")


def test_an_answer_that_is_not_due_is_no_answer() -> None:
    talk = _talk()
    with pytest.raises(ProtocolError, match=r"^\[::1\]:9092 answered what nobody asked"):
        talk.hear(_answer(0))
    talk.ask(ApiKey.HEARTBEAT, 3, (b"",), "a")
    for noise in (_answer(7), b"\0\0"):
        with pytest.raises(ProtocolError):
            talk.hear(noise)
        assert list(talk.forget()) == ["a"], "who waits must hear of it"
        talk = _talk()
        talk.ask(ApiKey.HEARTBEAT, 3, (b"",), "a")


def test_numbers_begin_again() -> None:
    talk = _talk()
    talk._next_id = 0x7FFFFFFF
    talk.ask(ApiKey.HEARTBEAT, 3, (b"",), "a")
    talk.ask(ApiKey.HEARTBEAT, 3, (b"",), "b")
    assert talk.hear(_answer(0x7FFFFFFF))[0] == "a"
    assert talk.hear(_answer(0))[0] == "b"


@pytest.mark.parametrize("size", [-1, 0, 3, RESPONSE_SIZE_MAX + 1, 0x7FFFFFFF])
def test_sizes_are_bounded_before_they_are_believed(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes"):
        _talk().size(struct.pack(">i", size))


@pytest.mark.parametrize("size", [4, RESPONSE_SIZE_MAX, 0x15030301])
def test_sizes_that_may_be(size: int) -> None:
    assert _talk().size(b"zz" + struct.pack(">i", size), 2) == size


def test_an_alert_of_tls_is_recognised() -> None:
    for version in range(5):
        with pytest.raises(Distrusted, match=r"speaks TLS.*set security.protocol"):
            _talk().size(bytes((0x15, 3, version, 0, 2, 2, 70)))


def test_the_newest_version_of_both() -> None:
    talk = _talk()
    talk.versions = {ApiKey.METADATA: Versions(0, 5), ApiKey.FETCH: Versions(0, 2)}
    assert talk.version_of(ApiKey.METADATA) == 5
    assert talk.version_of(ApiKey.METADATA, 3) == 3
    assert talk.version_of(ApiKey.LEADER_AND_ISR) == APIS[ApiKey.LEADER_AND_ISR].served.high
    with pytest.raises(VersionMismatch, match="serves Fetch 0-2, klamm speaks 4-"):
        talk.version_of(ApiKey.FETCH)
    with pytest.raises(VersionMismatch, match="does not serve Produce"):
        talk.version_of(ApiKey.PRODUCE)


def test_a_version_for_brokers_is_not_spoken_by_clients() -> None:
    talk = _talk()
    talk.versions = {ApiKey.ADD_PARTITIONS_TO_TXN: Versions(0, 5)}
    assert talk.version_of(ApiKey.ADD_PARTITIONS_TO_TXN) == 3
    assert talk.version_of(ApiKey.ADD_PARTITIONS_TO_TXN, 5) == 5
