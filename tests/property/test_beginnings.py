"""A Produce that is recognised is what the careful reader makes of it, and so is its answer."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import ProtocolError
from klamm.model.names import TopicPartition
from klamm.protocol import produce
from klamm.protocol.apis import ApiKey
from klamm.protocol.beginnings import Beginnings, Recognised
from klamm.protocol.frames import (
    RequestHeader,
    encode_request_frame,
    encode_response_frame,
    parse_request_header,
)

some = settings(max_examples=80, deadline=None)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
versions = st.integers(9, 11)
client_ids = st.none() | st.text(max_size=12)
topics = st.text(min_size=1, max_size=20)
records = st.binary(max_size=300) | st.integers(100, 20_000).map(bytes)
acks = st.sampled_from((-1, 0, 1))


@st.composite
def senders(draw: st.DrawFn) -> tuple[int, str | None, int, int]:
    """What one producer says in all of its requests."""
    return draw(versions), draw(client_ids), draw(acks), draw(int32)


def framed(
    sender: tuple[int, str | None, int, int], correlation_id: int, to: TopicPartition, batch: bytes
) -> bytearray:
    version, client_id, acks, timeout_ms = sender
    request = produce.ProduceRequest(
        None,
        acks,
        timeout_ms,
        [
            produce.TopicRecords(
                to.topic, [produce.PartitionRecords(to.partition, memoryview(batch))]
            )
        ],
    )
    body = b"".join(produce.encode_request(version, request))
    whole = encode_request_frame(ApiKey.PRODUCE, version, correlation_id, client_id, body)
    return bytearray(whole[4:])


def carefully(frame: memoryview) -> tuple[RequestHeader, produce.ProduceRequest]:
    header = parse_request_header(frame)
    assert header.api_key == ApiKey.PRODUCE
    return header, produce.parse_request(header.api_version, frame[header.body_offset :])


def agree(found: Recognised, frame: memoryview) -> None:
    """The careful reader finds the same in the frame."""
    beginning = found.beginning
    header, request = carefully(frame)
    assert header == beginning.header._replace(correlation_id=found.correlation_id)
    sole = produce.PartitionRecords(beginning.place.partition, found.records)
    topic = produce.TopicRecords(beginning.place.topic, [sole])
    assert request == produce.ProduceRequest(None, beginning.acks, beginning.timeout_ms, [topic])


@some
@given(
    sender=senders(),
    places=st.lists(st.builds(TopicPartition, topics, int32), min_size=1, max_size=4, unique=True),
    batches=st.lists(records, min_size=1, max_size=4),
)
def test_what_was_said_before_is_recognised(
    sender: tuple[int, str | None, int, int], places: list[TopicPartition], batches: list[bytes]
) -> None:
    known = Beginnings()
    for at, place in enumerate(places):
        first = memoryview(framed(sender, at, place, b"first"))
        assert known.recognise(first) is None
        known.learn(first, parse_request_header(first))
    for at, batch in enumerate(batches):
        for place in places:
            frame = memoryview(framed(sender, at * 1_000_000_007 % 2**31, place, batch))
            found = known.recognise(frame)
            assert found is not None
            agree(found, frame)


@settings(max_examples=300, deadline=None)
@given(
    sender=senders(),
    place=st.builds(TopicPartition, topics, int32),
    batch=records,
    seed=st.integers(0, 2**32),
)
def test_what_is_damaged_is_never_taken_for_something_else(
    sender: tuple[int, str | None, int, int], place: TopicPartition, batch: bytes, seed: int
) -> None:
    dice = random.Random(seed)
    known = Beginnings()
    frame = framed(sender, 1, place, batch)
    known.learn(memoryview(frame), parse_request_header(frame))
    # Most of the damage is where it matters: in front of the records, and behind them.
    around = [
        *range(min(len(frame), len(frame) - len(batch) + 6)),
        *range(len(frame) - 3, len(frame)),
    ]
    for _ in range(20):
        bad = bytearray(frame)
        for _ in range(dice.randint(1, 3)):
            at = dice.choice(around) if dice.random() < 0.9 else dice.randrange(len(bad))
            bad[at] = dice.choice((0, 1, 2, 127, 128, 255, bad[at] ^ 1, dice.randrange(256)))
        match dice.randrange(4):
            case 0:
                del bad[dice.randrange(len(bad)) :]
            case 1:
                bad += bytes(dice.randint(1, 4))
        found = known.recognise(memoryview(bad))
        if found is not None:
            agree(found, memoryview(bad))
        with contextlib.suppress(ProtocolError):
            Beginnings().learn(memoryview(bad), parse_request_header(bad))


@some
@given(noise=st.binary(max_size=80))
def test_noise_is_not_recognised(noise: bytes) -> None:
    known = Beginnings()
    first = framed((11, "me", 1, 1_000), 1, TopicPartition("t", 0), b"records")
    known.learn(memoryview(first), parse_request_header(first))
    assert known.recognise(memoryview(noise)) is None


@some
@given(
    sender=senders(),
    place=st.builds(TopicPartition, topics, int32),
    correlation_id=int32,
    numbers=st.tuples(int64, int64, int64),
)
def test_the_answer_is_the_one_that_would_be_encoded(
    sender: tuple[int, str | None, int, int],
    place: TopicPartition,
    correlation_id: int,
    numbers: tuple[int, int, int],
) -> None:
    known = Beginnings()
    frame = memoryview(framed(sender, correlation_id, place, b"records"))
    known.learn(frame, parse_request_header(frame))
    found = known.recognise(frame)
    assert found is not None
    header = parse_request_header(frame)
    base_offset, time_ms, log_start = numbers
    result = produce.PartitionResult(place.partition, 0, base_offset, time_ms, log_start)
    response = produce.ProduceResponse([produce.TopicResult(place.topic, [result])])
    expected = encode_response_frame(header, produce.encode_response(sender[0], response))
    assert found.beginning.answer(correlation_id, *numbers) == expected


@pytest.mark.parametrize(
    ("version", "acks", "topic", "transactional_id"),
    [(8, 1, "t", None), (11, 2, "t", None), (11, 1, "__consumer_offsets", None), (11, 1, "t", "x")],
)
def test_what_needs_more_thought_is_not_remembered(
    version: int, acks: int, topic: str, transactional_id: str | None
) -> None:
    sole = produce.TopicRecords(topic, [produce.PartitionRecords(0, memoryview(b"records"))])
    request = produce.ProduceRequest(transactional_id, acks, 1_000, [sole])
    body = b"".join(produce.encode_request(version, request))
    frame = memoryview(encode_request_frame(ApiKey.PRODUCE, version, 1, "me", body)[4:])
    known = Beginnings()
    known.learn(frame, parse_request_header(frame))
    assert known.recognise(frame) is None


def test_only_so_many_beginnings_are_remembered() -> None:
    known = Beginnings()
    for number in range(1_000):
        frame = memoryview(framed((11, "me", 1, 1_000), 1, TopicPartition("t", number), b"r"))
        known.learn(frame, parse_request_header(frame))
        assert known.recognise(frame) is not None
        assert len(known) <= 256
