"""Frames that make no sense are refused, and never more than that."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.store.serving import codes, requests
from klamm.store.serving.jute import Malformed, Reader
from klamm.store.serving.requests import ChangeNodes, Refusal
from unit.store.serving import raw

BODIES = [
    raw.create("/a", b"x", 3),
    raw.set_data("/a", None, 7),
    raw.multi((1, raw.create("/a")), (2, raw.versioned("/a")), (13, raw.versioned("/b", 3))),
    raw.multi((4, raw.read("/a")), (8, raw.read("/b"))),
    struct.pack(">q", 5) + raw.texts("/a", "/b") * 5,
    raw.read("/a", True),
]
OPS = st.sampled_from([*range(-12, 24), *range(99, 110)])


@given(OPS, st.sampled_from(BODIES), st.data())
def test_whatever_comes_is_a_request(op: int, body: bytes, data: st.DataObject) -> None:
    bent = bytearray(body)
    for _ in range(data.draw(st.integers(0, 3))):
        bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    frame = bytes(bent[: data.draw(st.integers(0, len(bent)))])
    assert requests.decode(op, frame, 0) is not None


@given(OPS, st.binary(max_size=200))
def test_noise_is_a_request_too(op: int, frame: bytes) -> None:
    assert requests.decode(op, frame, 0) is not None


@given(st.binary(max_size=100))
def test_noise_as_a_first_frame_is_malformed_or_harmless(frame: bytes) -> None:
    try:
        requests.connect(frame)
    except Malformed:
        assert len(frame) < 60 or frame[24:28] != bytes(4)


@pytest.mark.parametrize("count", [1 << 30, 0x7FFFFFFF, -2])
def test_nothing_is_made_for_a_count_that_cannot_be(count: int) -> None:
    reader = Reader(struct.pack(">i", count) + bytes(100))
    with pytest.raises(Malformed):
        reader.many(reader.path)


def test_a_multi_has_only_so_many_operations() -> None:
    small = [(codes.CHECK, raw.versioned("/a"))] * (requests.OPS_MAX + 1)
    assert requests.decode(codes.MULTI, raw.multi(*small), 0) == Refusal(codes.MARSHALLING_ERROR)
    assert isinstance(requests.decode(codes.MULTI, raw.multi(*small[1:]), 0), ChangeNodes)


def test_a_multi_without_an_end_is_refused() -> None:
    body = raw.multi((codes.CHECK, raw.versioned("/a")))[: -len(raw.END)]
    assert requests.decode(codes.MULTI, body, 0) == Refusal(codes.MARSHALLING_ERROR)
