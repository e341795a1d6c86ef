"""Record batches: ours are read by other clients' decoders, and theirs by ours."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from aiokafka.record import default_records as of_aiokafka
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import default_records as of_kafka_python

from klamm.model.errors import ProtocolError
from klamm.protocol import batch as batches
from klamm.protocol.batch import Codec, Record, decode_records, encode_batch, parse_header
from klamm.protocol.compression import compress, decompress
from klamm.protocol.varint import read_uvarint, read_varint, uvarint, varint

data = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=10), data), max_size=3).map(tuple)
rows = st.lists(st.tuples(st.integers(0, 2**41), data, data, headers), min_size=1, max_size=12)
codecs = st.sampled_from(list(Codec))
some = settings(max_examples=60, deadline=None)


def as_records(drawn: list[tuple[Any, ...]], base: int = 0) -> list[Record]:
    return [Record(base + i, *row) for i, row in enumerate(drawn)]


def plain(records: Any) -> list[Record]:
    """The records of another client's decoder as ours."""
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


@some
@given(drawn=rows, codec=codecs, base=st.integers(0, 2**40), ids=st.integers(-1, 2**15 - 1))
def test_round_trip(drawn: list[Any], codec: Codec, base: int, ids: int) -> None:
    records = as_records(drawn, base)
    made = encode_batch(
        records, base_offset=base, codec=codec, producer_id=ids, producer_epoch=ids, leader_epoch=7
    )
    header = parse_header(made)
    assert header.size == len(made)
    assert (header.codec, header.base_offset, header.record_count) == (codec, base, len(records))
    assert (header.producer_id, header.producer_epoch, header.leader_epoch) == (ids, ids, 7)
    assert header.max_timestamp == max(r.timestamp for r in records)
    assert header.last_offset == records[-1].offset
    assert batches.crc_ok(made)
    assert list(decode_records(made)) == records


@pytest.mark.parametrize(
    "library", [of_kafka_python, of_aiokafka], ids=["kafka-python", "aiokafka"]
)
@some
@given(drawn=rows, codec=codecs)
def test_other_clients_read_ours(library: Any, drawn: list[Any], codec: Codec) -> None:
    records = as_records(drawn)
    theirs = library.DefaultRecordBatch(bytearray(encode_batch(records, codec=codec)))
    assert theirs.validate_crc()
    assert plain(theirs) == records


@pytest.mark.parametrize(
    "library", [of_kafka_python, of_aiokafka], ids=["kafka-python", "aiokafka"]
)
@some
@given(drawn=rows, codec=codecs)
def test_we_read_other_clients(library: Any, drawn: list[Any], codec: Codec) -> None:
    records = as_records(drawn)
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=True,
        producer_id=9,
        producer_epoch=2,
        base_sequence=4,
        batch_size=1 << 20,
    )
    for r in records:
        builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))
    made = bytes(builder.build())
    header = parse_header(made)
    assert batches.crc_ok(made)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 4)
    assert list(decode_records(made)) == records


@some
@given(drawn=rows, codec=codecs, seed=st.integers(0, 2**32))
def test_damage_is_noticed_or_refused(drawn: list[Any], codec: Codec, seed: int) -> None:
    dice = random.Random(seed)
    made = bytearray(encode_batch(as_records(drawn), codec=codec))
    at = dice.randrange(batches.CRC_FROM, len(made))
    made[at] ^= 1 << dice.randrange(8)
    assert not batches.crc_ok(made)
    with contextlib.suppress(ProtocolError):
        list(decode_records(made))
    for cut in range(0, len(made), 7):
        with pytest.raises(ProtocolError):
            list(decode_records(made[:cut]))


@some
@given(area=st.binary(max_size=300).map(lambda b: b * 700), codec=codecs)
def test_codecs_on_large_areas(area: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, area)) == area


@some
@given(value=st.integers(-(2**63), 2**63 - 1))
def test_numbers_of_variable_length(value: int) -> None:
    assert read_varint(varint(value), 0)[0] == value
    small = abs(value) % 2**35
    assert read_uvarint(uvarint(small), 0) == (small, len(uvarint(small)))
