"""Every API has an answer to a request that nobody serves: whoever asks before a login hears 34."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from klamm.broker import api as registry
from klamm.broker.router import refusal
from klamm.model.errors import ErrorCode
from klamm.protocol import codec
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.frames import RequestHeader
from klamm.protocol.messages import (
    delete_groups,
    describe_groups,
    describe_producers,
    describe_transactions,
    offset_commit,
    produce,
    txn_offset_commit,
)

CODE = ErrorCode.ILLEGAL_SASL_STATE


def asked(key: int, version: int, request: Any) -> Any:
    """The answer to a request that nobody serves; None where there is none."""
    body = codec.encode_request(key, version, request)
    reply = refusal(RequestHeader(key, version, 1, "c", 0), memoryview(body), CODE)
    if reply is None:
        return None
    frame = b"".join(bytes(part) for part in reply.parts if isinstance(part, bytes | memoryview))
    start = 8 + APIS[key].response_header_version(version)
    return codec.decode_response(key, version, memoryview(frame)[start:])


def codes(told: Any) -> Iterator[int]:
    """All error codes of an answer, however deep."""
    if isinstance(told, list):
        for one in told:
            yield from codes(one)
    elif dataclasses.is_dataclass(told):
        for field in dataclasses.fields(told):
            value = getattr(told, field.name)
            if field.name == "error_code":
                yield value
            else:
                yield from codes(value)


@pytest.mark.parametrize("key", registry.SERVED, ids=lambda key: key.name)
def test_every_api_can_say_that_a_request_was_refused(key: ApiKey) -> None:
    served = APIS[key].served
    for version in {served.low, served.high}:
        request = codec.message_class(key, "Request")()
        if key is ApiKey.PRODUCE:
            request.acks = 1
        assert asked(key, version, request) is not None, version


REQUESTS = {
    ApiKey.PRODUCE: produce.Request(
        acks=-1, topic_data=[produce.TopicProduceData("t", [produce.PartitionProduceData(3)])]
    ),
    ApiKey.OFFSET_COMMIT: offset_commit.Request(
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name="t", partitions=[offset_commit.OffsetCommitRequestPartition(3)]
            )
        ]
    ),
    ApiKey.DESCRIBE_GROUPS: describe_groups.Request(groups=["g"]),
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.Request(
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name="t", partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(3)]
            )
        ]
    ),
    ApiKey.DELETE_GROUPS: delete_groups.Request(groups_names=["g"]),
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.Request(
        topics=[describe_producers.TopicRequest("t", [3])]
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.Request(transactional_ids=["x"]),
}


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
def test_what_was_named_is_refused_one_by_one(key: ApiKey) -> None:
    served = APIS[key].served
    for version in range(served.low, served.high + 1):
        assert list(codes(asked(key, version, REQUESTS[key]))) == [CODE], version


def test_who_wants_no_answer_gets_none() -> None:
    assert asked(ApiKey.PRODUCE, 9, produce.Request(acks=0)) is None
