"""Frames out of a stream, however it is cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.broker.net.framing import PLACES_KEPT_MAX, FrameBuffer, FrameMemory
from klamm.model.errors import ProtocolError
from klamm.protocol.apis import ApiKey
from klamm.protocol.bounds import Bounds
from klamm.protocol.private import PrivateKey

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


def arrive(frames: FrameBuffer, data: bytes) -> int:
    """How much of this a buffer takes before it has to wait for memory."""
    taken = 0
    while taken < len(data):
        space = frames.space()
        count = min(len(space), len(data) - taken, 1 << 20)
        space[:count] = data[taken : taken + count]
        taken += count
        frames.received(count)
        while frames.next_frame() is not None:
            pass
        if not frames.make_room():
            break
    return taken


def of_api(key: int, size: int) -> bytes:
    return struct.pack(">ih", size, key) + bytes(size - 2)


@pytest.mark.parametrize(
    ("key", "size", "is_read"),
    [
        (ApiKey.PRODUCE, 90_000_000, True),
        (ApiKey.METADATA, 16_000_000, True),
        (ApiKey.METADATA, 17_000_000, False),
        (ApiKey.HEARTBEAT, 300_000, False),
        (PrivateKey.EXPLAIN, 5_000_000, False),
        (PrivateKey.EXPLAIN, 4_000_000, True),
        (9_999, 300_000, False),
        (ApiKey.PRODUCE, 0x7FFFFFFF, False),
    ],
)
def test_a_frame_is_bounded_with_its_first_six_bytes(key: int, size: int, is_read: bool) -> None:
    frames = FrameBuffer(Bounds())
    frames.space()[:6] = struct.pack(">ih", size, key)
    frames.received(6)
    if is_read:
        assert frames.next_frame() is None
    else:
        with pytest.raises(ProtocolError, match=f"{size} bytes"):
            frames.next_frame()


def test_frames_that_are_no_requests_have_one_bound() -> None:
    frames = FrameBuffer(1 << 24)
    body = struct.pack(">h", ApiKey.HEARTBEAT) + bytes(1_000_000)
    assert feed(frames, framed([body]), 1 << 20) == [body]


def test_the_place_of_a_large_frame_is_used_for_the_next_until_it_is_quiet() -> None:
    frames = FrameBuffer(1 << 24)
    bodies = [bytes([at]) * ((3 + at % 3) << 20) for at in range(9)]
    assert feed(frames, framed(bodies[:3]), 1 << 20) == bodies[:3]
    place = frames._buffer.obj
    assert feed(frames, framed(bodies[3:]), 1 << 20) == bodies[3:]
    assert frames._buffer.obj is place, "no new memory for frames of the same sizes"
    assert frames.is_large
    frames.shrink()
    assert not frames.is_large
    assert frames.capacity == SMALL_MAX


def test_all_places_kept_by_a_process_have_one_bound() -> None:
    buffers = [FrameBuffer(1 << 24) for _ in range(8)]
    body = bytes(12 << 20)
    for buffer in buffers:
        feed(buffer, framed([body]), 1 << 24)
    kept = [buffer for buffer in buffers if buffer.is_large]
    assert 0 < len(kept) < len(buffers)
    assert sum(buffer.capacity for buffer in kept) <= PLACES_KEPT_MAX
    assert {b.capacity for b in buffers if not b.is_large} == {512 * 1024}
    late = buffers[-1]
    kept[0].close()
    feed(late, framed([body]), 1 << 24)
    assert late.is_large, "what one has given back another may keep"
    del kept, buffers, buffer
    other = FrameBuffer(1 << 24)
    feed(other, framed([body]), 1 << 24)
    assert other.is_large, "so does one that is simply gone"


def test_a_frame_of_which_there_can_be_few_is_not_kept() -> None:
    frames = FrameBuffer(1 << 25)
    feed(frames, framed([bytes(20 << 20)]), 1 << 24)
    assert frames.capacity == 512 * 1024


async def test_no_place_is_kept_while_memory_is_short() -> None:
    memory = FrameMemory(4 << 20)
    alone = FrameBuffer(Bounds(), memory)
    arrive(alone, of_api(ApiKey.PRODUCE, 6 << 20))
    assert alone.capacity == 512 * 1024, "it had grown beyond the limit"
    assert memory.taken == alone.capacity - SMALL_MAX
    roomy = FrameMemory(40 << 20)
    buffer = FrameBuffer(Bounds(), roomy)
    arrive(buffer, of_api(ApiKey.PRODUCE, 6 << 20))
    assert roomy.taken == buffer.capacity - SMALL_MAX > 6 << 20, "what is kept counts as taken"
    needy = FrameBuffer(Bounds(), roomy)
    assert arrive(needy, of_api(ApiKey.PRODUCE, 36 << 20)[: 35 << 20]) == 35 << 20
    assert buffer.capacity == SMALL_MAX, "it had it for its comfort alone"


async def test_half_received_frames_share_a_memory() -> None:
    now = 0.0
    memory = FrameMemory(4 << 20, clock=lambda: now)
    buffers = [FrameBuffer(Bounds(), memory) for _ in range(6)]
    given_up: list[int] = []
    for at, buffer in enumerate(buffers):
        buffer.on_given_up = lambda at=at: given_up.append(at)  # type: ignore[misc]
    frame = of_api(ApiKey.PRODUCE, 20 << 20)
    took = [arrive(buffer, frame[: 18 << 20]) for buffer in buffers]
    # All of it goes to the first that needs more than there is; the others wait.
    assert max(took) == 18 << 20
    assert sum(took) < (18 << 20) + (8 << 20)
    assert memory.taken < (20 << 20) + (5 << 20)
    assert memory.waiting_count >= 4
    memory._give_up_one()
    assert given_up == [], "nobody has been on the way for long"
    now = 6.0
    memory._give_up_one()
    assert [took[at] for at in given_up] == [max(took)], "the largest is given up"
    woken: list[int] = []
    for at, buffer in enumerate(buffers):
        buffer.on_memory = lambda at=at: woken.append(at)  # type: ignore[misc]
    buffers[given_up[0]].close()
    assert woken, "those that waited go on"
    for buffer in buffers:
        buffer.close()
        assert buffer.capacity == 0
    assert memory.taken == 0
    assert memory.waiting_count == 0


def test_what_others_have_for_comfort_is_taken_back_for_what_is_needed() -> None:
    memory = FrameMemory(1 << 20)
    busy = [FrameBuffer(Bounds(), memory) for _ in range(2)]
    for buffer in busy:
        feed(buffer, framed([bytes(16_000)] * 64), 1 << 20)
    assert [buffer.capacity for buffer in busy] == [512 * 1024] * 2
    late = FrameBuffer(Bounds(), memory)
    frame = of_api(ApiKey.PRODUCE, 400_000)
    assert arrive(late, frame) == len(frame)
    assert SMALL_MAX in [buffer.capacity for buffer in busy]
    assert memory.taken <= 1 << 20


def test_a_large_frame_comes_out_as_it_went_in_and_its_memory_is_given_back() -> None:
    memory = FrameMemory(1 << 30)
    frames = FrameBuffer(Bounds(), memory)
    bodies = [bytes([0, 0, at]) * 3_000_000 for at in range(1, 4)]
    assert feed(frames, framed([*bodies, b"\0\0small"]), 1 << 20) == [*bodies, b"\0\0small"]
    frames.shrink()
    assert memory.taken == 0
