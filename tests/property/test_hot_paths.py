"""The handwritten Produce and Fetch agree with the compiled codec, byte by byte."""

from __future__ import annotations

import contextlib
import random
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import ProtocolError
from klamm.model.names import ZERO_ID
from klamm.protocol import codec, fetch, produce
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.wire import CurrentLeader, NodeEndpoint

PRODUCE = [pytest.param(v, id=f"v{v}") for v in range(12)]
FETCH = [pytest.param(v, id=f"v{v}") for v in range(18)]
names = st.text(max_size=8)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ids = st.one_of(st.just(ZERO_ID), st.uuids())
views = st.binary(max_size=200).map(memoryview)
nodes = st.lists(st.builds(NodeEndpoint, int32, names, int32, st.none() | names), max_size=2)
leaders = st.none() | st.builds(CurrentLeader, int32, int32).filter(lambda c: c != (-1, -1))
some = settings(max_examples=25, deadline=None)


def few(of: Any) -> Any:
    return st.lists(of, max_size=3)


partition_records = st.builds(produce.PartitionRecords, int32, st.none() | views)


def _topics(partitions: Any) -> Any:
    return st.builds(produce.TopicRecords, names, partitions)


# Any request at all, or one for a single partition, which is read on a way of its own.
produce_requests = st.builds(
    produce.ProduceRequest,
    st.none() | names,
    int16,
    int32,
    few(_topics(few(partition_records)))
    | st.tuples(_topics(st.tuples(partition_records).map(list))).map(list),
)


def joined(parts: Any) -> bytes:
    return b"".join(bytes(part) for part in parts)


@pytest.mark.parametrize("version", PRODUCE)
@some
@given(request=produce_requests)
def test_produce_requests(version: int, request: produce.ProduceRequest) -> None:
    body = joined(produce.encode_request(version, request))
    message = codec.decode_request(ApiKey.PRODUCE, version, body)
    assert codec.encode_request(ApiKey.PRODUCE, version, message) == body
    seen = [(t.name, [(p.index, p.records) for p in t.partition_data]) for t in message.topic_data]
    assert seen == [
        (t.name, [(p.partition, p.records) for p in t.partitions]) for t in request.topics
    ]
    if version < 3:  # there were no transactions
        request.transactional_id = None
    assert produce.parse_request(version, memoryview(body)) == request


produce_responses = st.builds(
    produce.ProduceResponse,
    few(
        st.builds(
            produce.TopicResult,
            names,
            few(
                st.builds(
                    produce.PartitionResult,
                    int32,
                    int16,
                    int64,
                    int64,
                    int64,
                    few(st.builds(produce.RecordError, int32, st.none() | names)),
                    st.none() | names,
                    leaders,
                )
            ),
        )
    ),
    int32,
    nodes,
)


@pytest.mark.parametrize("version", PRODUCE)
@some
@given(response=produce_responses)
def test_produce_responses(version: int, response: produce.ProduceResponse) -> None:
    body = produce.encode_response(version, response)
    message = codec.decode_response(ApiKey.PRODUCE, version, body)
    assert codec.encode_response(ApiKey.PRODUCE, version, message) == body
    again = produce.parse_response(version, memoryview(body))
    assert produce.encode_response(version, again) == body
    if version >= 10:
        assert again.topics == response.topics
    for topic, ours in zip(message.responses, response.topics, strict=True):
        for theirs, mine in zip(topic.partition_responses, ours.partitions, strict=True):
            assert (theirs.index, theirs.error_code, theirs.base_offset) == mine[:3]


fetch_requests = st.builds(
    fetch.FetchRequest,
    replica_id=int32,
    replica_epoch=int64,
    max_wait_ms=int32,
    min_bytes=int32,
    max_bytes=int32,
    isolation_level=st.sampled_from((0, 1)),
    session_id=int32,
    session_epoch=int32,
    topics=few(
        st.builds(
            fetch.FetchTopic,
            names,
            ids,
            few(st.builds(fetch.FetchPartition, int32, int32, int64, int32, int64, int32)),
        )
    ),
    forgotten=few(st.builds(fetch.ForgottenTopic, names, ids, few(int32))),
    rack_id=names,
    cluster_id=st.none() | names,
)


@pytest.mark.parametrize("version", FETCH)
@some
@given(request=fetch_requests)
def test_fetch_requests(version: int, request: fetch.FetchRequest) -> None:
    body = fetch.encode_request(version, request)
    message = codec.decode_request(ApiKey.FETCH, version, body)
    assert codec.encode_request(ApiKey.FETCH, version, message) == body
    again = fetch.parse_request(version, memoryview(body))
    assert fetch.encode_request(version, again) == body
    assert again.replica_id == request.replica_id
    for topic, ours in zip(message.topics, again.topics, strict=True):
        assert (topic.topic, topic.topic_id) == (ours.name, ours.topic_id)
        for theirs, mine in zip(topic.partitions, ours.partitions, strict=True):
            assert mine == fetch.FetchPartition(
                theirs.partition,
                theirs.current_leader_epoch,
                theirs.fetch_offset,
                theirs.last_fetched_epoch,
                theirs.log_start_offset,
                theirs.partition_max_bytes,
            )
    if version >= 15:
        for topic in request.topics + request.forgotten:
            assert topic in [t._replace(name=topic.name) for t in again.topics + again.forgotten]


class InFile:
    """Stands for a range of a segment: the encoder may ask its size and nothing else."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def __bytes__(self) -> bytes:
        return self.data


fetch_responses = st.builds(
    fetch.FetchResponse,
    int32,
    int16,
    int32,
    few(
        st.builds(
            fetch.TopicData,
            names,
            ids,
            few(
                st.builds(
                    fetch.PartitionData,
                    int32,
                    int16,
                    int64,
                    int64,
                    int64,
                    st.none() | few(st.builds(fetch.AbortedTransaction, int64, int64)),
                    int32,
                    st.binary(max_size=200) | views | st.binary(max_size=200).map(InFile),
                    st.none()
                    | st.builds(fetch.DivergingEpoch, int32, int64).filter(lambda e: e != (-1, -1)),
                    leaders,
                )
            ),
        )
    ),
    nodes,
)


@pytest.mark.parametrize("version", FETCH)
@some
@given(response=fetch_responses)
def test_fetch_responses(version: int, response: fetch.FetchResponse) -> None:
    parts, size = fetch.encode_response(version, response)
    body = joined(parts)
    assert len(body) == size
    message = codec.decode_response(ApiKey.FETCH, version, body)
    assert codec.encode_response(ApiKey.FETCH, version, message) == body
    again = fetch.parse_response(version, memoryview(body))
    assert joined(fetch.encode_response(version, again)[0]) == body
    for topic, ours in zip(message.responses, response.topics, strict=True):
        for theirs, mine in zip(topic.partitions, ours.partitions, strict=True):
            assert theirs.records == bytes(mine.records)
            assert theirs.high_watermark == mine.high_watermark


@pytest.mark.parametrize(("key", "room"), [(ApiKey.PRODUCE, produce), (ApiKey.FETCH, fetch)])
@settings(max_examples=150, deadline=None)
@given(noise=st.binary(max_size=120), seed=st.integers(0, 2**32), drawn=st.data())
def test_noise_never_crashes(key: int, room: Any, noise: bytes, seed: int, drawn: Any) -> None:
    dice = random.Random(seed)
    version = dice.randint(*APIS[key].served)
    if room is fetch:
        body = bytearray(fetch.encode_request(version, drawn.draw(fetch_requests)))
        answer = bytearray(joined(fetch.encode_response(version, drawn.draw(fetch_responses))[0]))
    else:
        body = bytearray(joined(produce.encode_request(version, drawn.draw(produce_requests))))
        answer = bytearray(produce.encode_response(version, drawn.draw(produce_responses)))
    for whole, parse in ((body, room.parse_request), (answer, room.parse_response)):
        cut = bytes(whole)[: dice.randrange(len(whole))]
        with pytest.raises(ProtocolError):
            parse(version, memoryview(cut))
        whole[dice.randrange(len(whole))] = dice.randrange(256)
        for bad in (bytes(whole), noise):
            with contextlib.suppress(ProtocolError):
                parse(version, memoryview(bad))


def test_unknown_tags_are_skipped() -> None:
    topic = fetch.FetchTopic("", uuid.uuid4(), [fetch.FetchPartition(3, fetch_offset=7)])
    body = fetch.encode_request(17, fetch.FetchRequest(topics=[topic]))
    assert body.endswith(b"\0")
    tagged = body[:-1] + b"\x02\x01\x0d" + bytes(13) + b"\x63\x02hi"
    assert fetch.parse_request(17, memoryview(tagged)).topics == [topic]
    assert codec.decode_request(ApiKey.FETCH, 17, tagged).topics[0].topic_id == topic.topic_id
