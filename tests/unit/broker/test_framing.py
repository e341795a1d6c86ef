"""Frames out of a stream, however it is cut."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.broker.framing import FrameBuffer

SMALL_MAX = 4 * 1024

# Most frames are small; a few are larger than any buffer is at first.
sizes = st.integers(1, 300) | st.integers(1, 30_000) | st.sampled_from((65_536, 65_537, 300_000))


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(frames: FrameBuffer, stream: bytes, read_max: int) -> list[bytes]:
    """What comes out when each read brings so many bytes at most."""
    found, at = [], 0
    while at < len(stream):
        space = frames.space()
        assert len(space), "there is always room for a byte"
        count = min(len(space), read_max, len(stream) - at)
        space[:count] = stream[at : at + count]
        at += count
        frames.received(count)
        while (frame := frames.next_frame()) is not None:
            found.append(bytes(frame))
        frames.make_room()
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=40), st.sampled_from((997, 16_384, 1 << 20)))
def test_every_frame_comes_out_whole_and_in_order(lengths: list[int], read_max: int) -> None:
    bodies = [bytes([at]) * length for at, length in enumerate(lengths)]
    frames = FrameBuffer(1 << 20)
    assert feed(frames, framed(bodies), read_max) == bodies
    assert frames.waiting == 0


def test_a_client_that_fills_the_buffer_gets_a_larger_one_until_it_is_quiet() -> None:
    frames = FrameBuffer(1 << 20)
    assert frames.capacity == SMALL_MAX
    feed(frames, framed([bytes(16_000)] * 64), 1 << 20)
    assert frames.capacity == 512 * 1024
    assert len(frames.space()) >= 30 * 16_000  # many such frames in one read
    frames.shrink()
    assert frames.capacity == SMALL_MAX


def test_a_large_frame_is_read_up_to_its_end() -> None:
    frames = FrameBuffer(1 << 20)
    feed(frames, framed([bytes(1_000_000)]), 1 << 20)
    head = framed([bytes(1_000_000)])[:5_000]
    frames.space()[: len(head)] = head
    frames.received(len(head))
    assert len(frames.space()) == 4 + 1_000_000 - len(head)
