"""Headers in all their layouts."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import ProtocolError
from klamm.protocol import frames, private
from klamm.protocol.apis import APIS, ApiKey, advertised


@pytest.mark.parametrize("client_id", [None, "", "käfer"])
@pytest.mark.parametrize(
    ("key", "version"), [(a.key, v) for a in APIS.values() for v in {a.served.low, a.served.high}]
)
def test_request_headers_come_back(key: int, version: int, client_id: str | None) -> None:
    frame = frames.encode_request_frame(key, version, 77, client_id, b"body")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = frames.parse_request_header(memoryview(frame)[4:])
    seen = None if (key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0) else client_id
    assert header[:4] == (key, version, 77, seen)
    assert frame[4 + header.body_offset :] == b"body"
    answer = frames.encode_response_frame(header, b"answer")
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert frames.parse_response_header(key, version, answer[4:]) == (77, len(answer) - 4 - 6)


def test_an_answer_to_api_versions_has_the_oldest_header() -> None:
    header = frames.RequestHeader(ApiKey.API_VERSIONS, 4, 5, "x", 0)
    assert frames.response_head(header, 0) == b"\0\0\0\4\0\0\0\5"
    metadata = header._replace(api_key=ApiKey.METADATA, api_version=12)
    assert frames.response_head(metadata, 0) == b"\0\0\0\5\0\0\0\5\0"


def test_tags_in_a_header_are_skipped() -> None:
    plain = frames.encode_request_frame(ApiKey.METADATA, 12, 1, "me", b"")[4:]
    assert plain.endswith(b"\0")
    tagged = plain[:-1] + b"\x01\x07\x02ab" + b"body"
    header = frames.parse_request_header(tagged)
    assert tagged[header.body_offset :] == b"body"


def test_a_version_from_the_future_is_not_looked_into() -> None:
    header = frames.parse_request_header(b"\0\x12\0\x63\0\0\0\x09" + b"\xff" * 9)
    assert header[:3] == (ApiKey.API_VERSIONS, 99, 9)
    assert header.client_id is None


@given(frame=st.binary(max_size=60))
def test_noise_is_a_header_or_refused(frame: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert frames.parse_request_header(frame).body_offset <= len(frame)


def test_private_bodies() -> None:
    assert private.decode(private.encode({"topic": "tö", "n": 1})) == {"topic": "tö", "n": 1}
    for bad in (b"", b"[1]", b"\xff"):
        with pytest.raises(ProtocolError):
            private.decode(bad)
    frame = frames.encode_request_frame(private.PrivateKey.STORY, 0, 3, "klamm", b"{}")[4:]
    header = frames.parse_request_header(frame)
    assert frame[header.body_offset :] == b"{}"


def test_the_advertised_table() -> None:
    table = dict(advertised(APIS))
    assert table[ApiKey.PRODUCE] == (0, 11)
    assert table[ApiKey.FETCH] == (0, 17)
    assert not {4, 5, 6, 7} & set(table)
    assert dict(advertised([ApiKey.FETCH])) == {ApiKey.FETCH: (0, 17)}


def test_a_frame_without_room_for_a_header_is_told_by_its_size() -> None:
    with pytest.raises(ProtocolError, match="a request of 4 bytes is too short to have a header"):
        frames.parse_request_header(b"abcd")
