"""Record batches made of Arrow frames, read back by the plain decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import UsageError
from klamm.pipelines.records import batches, columns, kernels, scanning
from klamm.pipelines.records.batches import (
    OpenBatch,
    Records,
    by_partition,
    choose_partitions,
    headers_of,
    no_headers,
    pieces_of,
    positive_murmur2,
)
from klamm.pipelines.records.columns import HEADERS_TYPE
from klamm.protocol.batch import crc_ok, decode_records, parse_header

blobs = st.one_of(st.none(), st.binary(max_size=60))
rows_of = st.lists(
    st.tuples(
        blobs,
        blobs,
        st.integers(-1, 1 << 42),
        st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3),
    ),
    min_size=1,
    max_size=60,
)


@pytest.fixture(params=["numba", "numpy"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    chosen = kernels.kernels(request.param)
    for module in (columns, scanning, batches):
        monkeypatch.setattr(module, "kernels", lambda: chosen)
    return str(request.param)


def _records(rows: Sequence[Any], pad: int = 0) -> Records:
    """Columns of these rows, out of a longer frame when padded: slices must work alike."""
    filler = [(b"filler", b"filler", 0, [("f", b"f")])] * pad
    keys, values, times, headers = zip(*filler, *rows, *filler, strict=True)
    column = pa.array(
        [[{"key": k, "value": v} for k, v in h] or None for h in headers], HEADERS_TYPE
    )
    count = len(rows)
    header_pieces, header_count = headers_of(column.slice(pad, count))
    return Records(
        np.array(times[pad : pad + count], np.int64),
        pieces_of(pa.array(keys, pa.binary()).slice(pad, count)),
        pieces_of(pa.array(values, pa.binary()).slice(pad, count)),
        header_pieces,
        header_count,
    )


def _sealed(records: Records, limit: int, codec: int = 0) -> list[bytes]:
    box = OpenBatch(limit, out=np.empty(16, np.uint8))
    done = [full.seal(codec) for full in box.fill(records, np.arange(len(records.time)))]
    return [*done, box.seal(codec)] if box.count else done


@settings(max_examples=60, deadline=None)
@given(rows_of, st.integers(1, 2000), st.integers(0, 4), st.integers(0, 3))
def test_what_is_encoded_is_what_is_decoded(
    rows: list[Any], limit: int, codec: int, pad: int
) -> None:
    found = _sealed(_records(rows, pad), limit, codec)
    assert all(crc_ok(batch) for batch in found)
    decoded = [r for batch in found for r in decode_records(batch)]
    assert [(r.key, r.value, r.timestamp, list(r.headers)) for r in decoded] == rows
    for batch in found:
        header = parse_header(batch)
        plain = list(decode_records(batch))
        assert [r.offset for r in plain] == list(range(header.record_count))
        assert header.max_timestamp == max(r.timestamp for r in plain)
        assert header.record_count == 1 or limit >= 16


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_other_clients_decode_what_is_encoded(codec: int) -> None:
    from aiokafka.record.default_records import DefaultRecordBatch

    rows = [
        (b"k", b"v" * 300, 7, [("h", b"x"), ("h", None)]),
        (None, b"", 9, []),
        (b"", None, 8, []),
    ]
    for batch in _sealed(_records(rows), 1 << 20, codec):
        theirs = DefaultRecordBatch(batch)
        assert theirs.validate_crc()
        assert [(r.key, r.value, r.timestamp, r.headers) for r in theirs] == rows


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}])
def test_headers_without_a_key_are_refused(header: Any) -> None:
    """No reader could make sense of such a record, nor of those behind it."""
    with pytest.raises(UsageError, match="a header without a key"):
        headers_of(pa.array([[], [header]], HEADERS_TYPE))


def test_batch_grows_across_frames() -> None:
    """T22: Spark's frames are smaller than a good batch."""
    box = OpenBatch(1 << 20)
    for value in (b"1", b"2"):
        records = _records([(b"k", value, 7, [])])
        assert list(box.fill(records, np.arange(1))) == []
    assert [r.value for r in decode_records(box.seal(0))] == [b"1", b"2"]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30))
def test_murmur2_is_that_of_the_java_producer(keys: list[bytes]) -> None:
    found = positive_murmur2(pieces_of(pa.array(keys, pa.binary())))
    assert found.tolist() == [murmur2(key) & 0x7FFFFFFF for key in keys]


def test_rows_without_a_key_are_spread() -> None:
    none = pieces_of(pa.nulls(4096, pa.binary()))
    found = choose_partitions("murmur2", none, 3, first_row=0, seed=1)
    assert set(found.tolist()) == {0, 1, 2}
    assert len(np.flatnonzero(np.diff(found))) == 3  # in runs, so that batches stay large


def test_librdkafka_partitioner() -> None:
    key = pieces_of(pa.array([b"abc"], pa.binary()))
    assert choose_partitions("crc32", key, 100, first_row=0, seed=0).tolist() == [0x352441C2 % 100]


def test_rows_of_a_partition_keep_their_order() -> None:
    found = dict(by_partition(np.array([1, 0, 1, 0, 1])))
    assert {p: rows.tolist() for p, rows in found.items()} == {0: [1, 3], 1: [0, 2, 4]}


def test_text_columns_and_missing_columns_are_taken() -> None:
    text = pieces_of(pa.array(["é", None, ""]))
    assert text.size.tolist() == [2, -1, 0]
    assert pieces_of(pa.nulls(2)).size.tolist() == [-1, -1]
    assert no_headers(2)[1].tolist() == [0, 0]
