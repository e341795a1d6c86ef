"""What a reader sees of the batches a broker gave."""

from __future__ import annotations

from klamm.client.aio.cluster import Client
from klamm.client.aio.consumer import Consumer
from klamm.model.names import TopicPartition
from klamm.protocol import fetch
from klamm.protocol.batch import ControlKind, Record, encode_batch, encode_control_batch

TP = TopicPartition("t", 0)


def transactional(offset: int, producer_id: int, *values: bytes) -> bytes:
    records = [Record(offset + i, 1, None, v) for i, v in enumerate(values)]
    return encode_batch(records, base_offset=offset, producer_id=producer_id, is_transactional=True)


def marker(offset: int, producer_id: int, kind: ControlKind) -> bytes:
    return encode_control_batch(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1,
        base_offset=offset,
    )


def seen(data: fetch.PartitionData, start: int, isolation: int) -> tuple[list[int], int]:
    consumer = Consumer(Client("localhost:1"), {TP: start}, isolation_level=isolation)
    consumer._accept_data(TP, data)
    return [r.offset for r in consumer._take(100)], consumer.positions[TP]


def test_aborted_records_are_hidden_from_committed_readers() -> None:
    records = b"".join(
        (
            transactional(0, 1, b"a", b"b"),
            transactional(2, 2, b"c"),
            encode_batch([Record(3, 1, None, b"d")], base_offset=3),
            marker(4, 1, ControlKind.ABORT),
            transactional(5, 1, b"e"),
            marker(6, 2, ControlKind.COMMIT),
            marker(7, 1, ControlKind.COMMIT),
        )
    )
    aborted = [fetch.AbortedTransaction(1, 0)]
    data = fetch.PartitionData(0, 0, 8, 8, 0, aborted, records=records)
    assert seen(data, 0, fetch.READ_COMMITTED) == ([2, 3, 5], 8)
    everything = data._replace(aborted=None)
    assert seen(everything, 0, fetch.READ_UNCOMMITTED) == ([0, 1, 2, 3, 5], 8)


def test_reading_starts_in_the_middle_of_a_batch() -> None:
    records = encode_batch([Record(i, 1, None, b"x") for i in range(5)])
    data = fetch.PartitionData(0, 0, 5, 5, 0, records=memoryview(records))
    assert seen(data, 3, fetch.READ_UNCOMMITTED) == ([3, 4], 5)
