"""What messages cost to read and write, in microseconds; kio's native reader for comparison."""

from __future__ import annotations

import io
import timeit
import uuid
from collections.abc import Callable
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer
from measure import Measure

from klamm.protocol import batch, codec, fetch, frames, produce
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import heartbeat, leader_and_isr, metadata

TOPIC_ID = uuid.UUID(int=7)


def microseconds(work: Callable[[], Any]) -> float:
    """The best of several runs, each of about ten milliseconds."""
    work()
    timer = timeit.Timer(work)
    once = max(timer.timeit(1), 1e-7)
    number = max(1, int(0.01 / once))
    return min(timer.repeat(repeat=7, number=number)) / number * 1e6


def _metadata() -> metadata.Response:
    partitions = [
        metadata.MetadataResponsePartition(0, n, n % 3, 4, [0, 1, 2], [0, 1, 2], [])
        for n in range(1000)
    ]
    brokers = [metadata.MetadataResponseBroker(n, "localhost", 9092 + n) for n in range(3)]
    topic = metadata.MetadataResponseTopic(0, "orders", TOPIC_ID, False, partitions)
    return metadata.Response(0, brokers, "cluster", 0, [topic])


def _leader_and_isr() -> leader_and_isr.Request:
    states = [
        leader_and_isr.LeaderAndIsrPartitionState(
            "", n, 1, n % 3, 0, [0, 1, 2], 0, [0, 1, 2], [], [], True, 0
        )
        for n in range(1000)
    ]
    topic = leader_and_isr.LeaderAndIsrTopicState("orders", TOPIC_ID, states)
    return leader_and_isr.Request(controller_epoch=1, topic_states=[topic])


def read_metadata() -> float:
    body = codec.encode_response(ApiKey.METADATA, 12, _metadata())
    return microseconds(lambda: codec.decode_response(ApiKey.METADATA, 12, body))


def read_metadata_with_kio() -> float:
    body = codec.encode_response(ApiKey.METADATA, 12, _metadata())
    read = entity_reader(load_response_schema(ApiKey.METADATA, 12))
    return microseconds(lambda: read(body, 0))


def write_metadata() -> float:
    message = _metadata()
    return microseconds(lambda: codec.encode_response(ApiKey.METADATA, 12, message))


def write_metadata_with_kio() -> float:
    body = codec.encode_response(ApiKey.METADATA, 12, _metadata())
    cls: Any = load_response_schema(ApiKey.METADATA, 12)
    message, _ = entity_reader(cls)(body, 0)
    write = entity_writer(cls)
    return microseconds(lambda: write(io.BytesIO(), message))


def write_leader_and_isr() -> float:
    message = _leader_and_isr()
    return microseconds(lambda: codec.encode_request(ApiKey.LEADER_AND_ISR, 7, message))


def read_leader_and_isr() -> float:
    body = codec.encode_request(ApiKey.LEADER_AND_ISR, 7, _leader_and_isr())
    return microseconds(lambda: codec.decode_request(ApiKey.LEADER_AND_ISR, 7, body))


def read_heartbeat() -> float:
    body = codec.encode_request(ApiKey.HEARTBEAT, 4, heartbeat.Request("group", 3, "member-" * 5))
    return microseconds(lambda: codec.decode_request(ApiKey.HEARTBEAT, 4, body))


def read_header() -> float:
    frame = memoryview(frames.encode_request_frame(ApiKey.PRODUCE, 9, 1, "rdkafka", b""))[4:]
    return microseconds(lambda: frames.parse_request_header(frame))


def read_produce() -> float:
    records = produce.PartitionRecords(0, memoryview(bytes(16_000)))
    request = produce.ProduceRequest(topics=[produce.TopicRecords("orders", [records])])
    body = memoryview(b"".join(produce.encode_request(9, request)))
    return microseconds(lambda: produce.parse_request(9, body))


def write_produce() -> float:
    result = produce.PartitionResult(0, base_offset=7)
    response = produce.ProduceResponse([produce.TopicResult("orders", [result])])
    return microseconds(lambda: produce.encode_response(9, response))


def _fetch(partitions: int) -> fetch.FetchRequest:
    wanted = [fetch.FetchPartition(n) for n in range(partitions)]
    return fetch.FetchRequest(topics=[fetch.FetchTopic("", TOPIC_ID, wanted)])


def read_fetch(partitions: int) -> float:
    body = memoryview(fetch.encode_request(17, _fetch(partitions)))
    return microseconds(lambda: fetch.parse_request(17, body))


def _fetched(partitions: int) -> fetch.FetchResponse:
    data = [fetch.PartitionData(n, 0, 7, 7, 0) for n in range(partitions)]
    return fetch.FetchResponse(topics=[fetch.TopicData("", TOPIC_ID, data)])


def write_fetch(partitions: int) -> float:
    response = _fetched(partitions)
    return microseconds(lambda: fetch.encode_response(17, response))


def read_fetched(partitions: int) -> float:
    parts, _ = fetch.encode_response(17, _fetched(partitions))
    body = memoryview(b"".join(part for part in parts if isinstance(part, bytes)))
    return microseconds(lambda: fetch.parse_response(17, body))


def write_batch() -> float:
    records = [batch.Record(n, n, b"key", bytes(100)) for n in range(1000)]
    return microseconds(lambda: batch.encode_batch(records)) / 1000


def read_batch() -> float:
    records = [batch.Record(n, n, b"key", bytes(100)) for n in range(1000)]
    made = batch.encode_batch(records)
    return microseconds(lambda: list(batch.decode_records(made))) / 1000


MEASURES = tuple(
    Measure(f"codec-{name}", what, "us", run)
    for name, what, run in (
        ("header", "read a request header", read_header),
        ("heartbeat", "read a Heartbeat v4", read_heartbeat),
        ("produce", "read a Produce v9 of one partition", read_produce),
        ("produced", "write its answer", write_produce),
        ("fetch", "read a Fetch v17 of one partition", lambda: read_fetch(1)),
        ("fetched", "write its answer", lambda: write_fetch(1)),
        ("fetch-100", "read a Fetch v17 of 100 partitions", lambda: read_fetch(100)),
        ("fetched-100", "write its answer", lambda: write_fetch(100)),
        ("follow-100", "read its answer", lambda: read_fetched(100)),
        ("metadata", "write Metadata v12 of 1000 partitions", write_metadata),
        ("metadata-kio", "the same with kio", write_metadata_with_kio),
        ("metadata-read", "read Metadata v12 of 1000 partitions", read_metadata),
        ("metadata-read-kio", "the same with kio (its own classes)", read_metadata_with_kio),
        ("isr", "write LeaderAndIsr v7 of 1000 partitions", write_leader_and_isr),
        ("isr-read", "read LeaderAndIsr v7 of 1000 partitions", read_leader_and_isr),
        ("batch", "encode a record of 100 bytes", write_batch),
        ("batch-read", "decode a record of 100 bytes", read_batch),
    )
)

if __name__ == "__main__":
    for measure in MEASURES:
        print(f"{measure.name:<22}{measure.what:<44}{measure.run():>10.2f} us")
