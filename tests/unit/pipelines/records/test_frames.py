"""Frames against the plain decoder: both kernels, codecs, damage, aborted transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.model.errors import ProtocolError
from klamm.pipelines.records import columns, frames, kernels, scanning
from klamm.pipelines.records.columns import RowSource
from klamm.pipelines.records.frames import Decoder
from klamm.pipelines.records.scanning import DamagedRecords, walk
from klamm.protocol.batch import (
    ControlKind,
    Record,
    crc_ok,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_batches,
)

ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

blobs = st.one_of(st.none(), st.binary(max_size=40))
few = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=5)
headers = st.tuples(few, st.integers(1, 10)).map(lambda drawn: tuple(drawn[0] * drawn[1]))
drafts = st.lists(
    st.tuples(st.integers(1, 3), st.integers(-1, 1 << 41), blobs, blobs, headers), max_size=30
)


@pytest.fixture(params=["numba", "numpy"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    chosen = kernels.kernels(request.param)
    for module in (columns, scanning):
        monkeypatch.setattr(module, "kernels", lambda: chosen)
    return str(request.param)


def _decoder(start: int, stop: int, **more: Any) -> Decoder:
    more.setdefault("columns", ALL)
    return Decoder(source=RowSource("t", 3), position=start, stop=stop, **more)


def _decode(data: bytes, decoder: Decoder, aborted: Sequence[tuple[int, int]] = ()) -> list[Any]:
    buffer = np.frombuffer(data, np.uint8)
    found = list(decoder.feed(buffer, walk(data, "t"), aborted))
    for frame in found:
        frame.validate(full=True)
    return [row for frame in found for row in frame.to_pylist()]


def _rows(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [
        (r.offset, r.timestamp * 1000, r.key, r.value, [tuple(h) for h in r.headers] or None)
        for r in records
    ]


def _flat(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            row["offset"],
            row["micros"],
            row["key"],
            row["value"],
            [(h["key"], h["value"]) for h in row["headers"]] if row["headers"] else None,
        )
        for row in rows
    ]


def _decode_exact(
    data: bytes, decoder: Decoder, aborted: Sequence[tuple[int, int]] = ()
) -> list[tuple[Any, ...]]:
    """Rows with the timestamp as a number, for datetime cannot hold all of them."""
    buffer = np.frombuffer(data, np.uint8)
    rows = []
    for frame in decoder.feed(buffer, walk(data, "t"), aborted):
        frame.validate(full=True)
        micros = frame.column("timestamp").cast(pa.int64())
        plain = frame.drop_columns(["timestamp"]).append_column("micros", micros)
        rows += plain.to_pylist()
    return _flat(rows)


def _placed(first: int, draft: Sequence[Any]) -> list[Record]:
    """Records from this offset on, with the gaps that were drawn."""
    offset, records = first - 1, []
    for step, *rest in draft:
        offset += step
        records.append(Record(offset, *rest))
    return records


def _batch(first: int, draft: Sequence[Any], codec: int) -> tuple[bytes, int]:
    records = _placed(first, draft)
    return encode_batch(records, base_offset=first, codec=codec), records[-1].offset + 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(drafts, st.integers(0, 4)), max_size=5),
    st.integers(1, 40),
    st.integers(0, 60),
    st.integers(0, 150),
)
def test_frames_are_what_the_plain_decoder_says(
    kernel_batches: list[tuple[Any, int]], frame_rows: int, start: int, length: int
) -> None:
    """T14: an answer begins before and ends after what was asked; only that comes out."""
    data, first = b"", 0
    for draft, codec in kernel_batches:
        if draft:
            batch, first = _batch(first, draft, codec)
            data += batch
    plain = [r for batch in _split(data) for r in decode_records(batch)]
    wanted = [r for r in plain if start <= r.offset < start + length]
    decoder = _decoder(start, start + length, frame_rows=frame_rows)
    assert _decode_exact(data, decoder) == _rows(wanted)
    if length and first > start:
        assert decoder.position == min(first, start + length)


def _split(data: bytes) -> list[bytes]:
    return [data[b.at : b.end] for b in walk(data, "t").boxes()]


def test_negative_time_steps_and_append_time() -> None:
    records = [Record(0, 5000, b"a", b"1"), Record(1, 10, b"b", None)]
    data = bytearray(encode_batch(records))
    assert [r["timestamp"].timestamp() for r in _decode(bytes(data), _decoder(0, 9))] == [5, 0.01]
    data[22] |= 0x08  # the broker has stamped it
    _fix_crc(data)
    rows = _decode(bytes(data), _decoder(0, 9))
    assert [r["timestamp"].timestamp() for r in rows] == [5, 5]
    assert [r["timestampType"] for r in rows] == [1, 1]


def _fix_crc(data: bytearray) -> None:
    from crc32c import crc32c

    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")


def test_fifty_headers() -> None:
    many = tuple((f"h{i}", None if i % 3 else b"x" * i) for i in range(50))
    (row,) = _decode(encode_batch([Record(0, 0, None, b"v", many)]), _decoder(0, 1))
    assert [(h["key"], h["value"]) for h in row["headers"]] == list(many)


def test_names_of_headers_that_are_no_text_are_mended() -> None:
    """As Java's clients do, for Spark's text must be sound."""
    data = bytearray(encode_batch([Record(0, 0, None, b"v", (("good", b"1"), ("worse", b"2")))]))
    at = data.index(b"worse")
    data[at : at + 5] = b"b\xe4d\xff!"
    _fix_crc(data)
    (row,) = _decode(bytes(data), _decoder(0, 1))
    assert [h["key"] for h in row["headers"]] == ["good", "b\ufffdd\ufffd!"]


@pytest.mark.parametrize("ms", [-(1 << 63), (1 << 63) - 1, (1 << 63) // 1000 + 1])
def test_times_past_sparks_are_an_error(ms: int) -> None:
    data = encode_batch([Record(0, ms, None, b"v")])
    with pytest.raises(DamagedRecords, match="does not fit Spark's"):
        _decode(data, _decoder(0, 1))
    assert _decode(data, _decoder(0, 1, columns=("offset", "timestamp_ms"))) == [
        {"offset": 0, "timestamp_ms": ms}
    ]


def test_gap_at_the_end_of_a_compacted_batch_moves_the_position() -> None:
    decoder = _decoder(0, 100)
    data = encode_batch([Record(3, 0, b"k", b"v")], base_offset=0, last_offset=9)
    assert [r["offset"] for r in _decode(data, decoder)] == [3]
    assert decoder.position == 10


def test_cut_batch_at_the_end_is_left_for_the_next_answer() -> None:
    whole, cut = encode_batch([Record(0, 0, b"k", b"v")]), encode_batch([Record(1, 0, b"k", b"v")])
    decoder = _decoder(0, 100)
    assert len(_decode(whole + cut[:-1], decoder)) == 1
    assert decoder.position == 1


def test_control_batches_are_skipped_unless_wanted() -> None:
    marker = encode_control_batch(
        ControlKind.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1
    )
    decoder = _decoder(0, 5)
    assert _decode(marker, decoder) == []
    assert decoder.position == 1
    wanted = _decoder(0, 5, control=True, columns=("offset", "isControl"))
    assert _decode(marker, wanted) == [{"offset": 0, "isControl": True}]


def test_records_of_aborted_transactions_are_dropped_or_marked() -> None:
    def batch(offset: int, producer: int) -> bytes:
        return encode_batch(
            [Record(offset, 0, b"k", b"v")],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    def marker(offset: int, kind: ControlKind, producer: int) -> bytes:
        return encode_control_batch(
            kind,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=offset,
        )

    data = batch(0, 1) + batch(1, 2) + marker(2, ControlKind.ABORT, 1) + batch(3, 1)
    data += marker(4, ControlKind.COMMIT, 1) + marker(5, ControlKind.COMMIT, 2)
    rows = _decode(data, _decoder(0, 9, aborted="drop", columns=("offset",)), [(1, 0)])
    assert [r["offset"] for r in rows] == [1, 3]
    marked = _decode(data, _decoder(0, 9, aborted="mark", columns=("offset",)), [(1, 0)])
    assert [(r["offset"], r["is_aborted"]) for r in marked] == [(0, True), (1, False), (3, False)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [1, 500])
def test_old_message_format_is_named(magic: Literal[0, 1], size: int) -> None:
    """Also where the whole message is shorter than the header of a batch is today."""
    from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    builder.append(0, 1000, b"k", b"v" * size)
    with pytest.raises(DamagedRecords, match=f"t offset 0: written in message format {magic}"):
        _decode(bytes(builder.build()), _decoder(0, 9))


def test_flipped_bit_is_an_error_with_its_place() -> None:
    data = bytearray(encode_batch([Record(5, 0, b"key", b"value")], base_offset=5))
    data[-1] ^= 1
    with pytest.raises(DamagedRecords, match="t-3: the batch at offset 5: its checksum is wrong"):
        _decode(bytes(data), _decoder(5, 9))


def test_damaged_batch_is_skipped_and_counted_where_asked() -> None:
    bad = bytearray(encode_batch([Record(0, 0, b"key", b"value"), Record(1, 0, b"k", b"v")]))
    bad[-1] ^= 1
    good = encode_batch([Record(2, 0, b"k", b"v")], base_offset=2)
    decoder = _decoder(0, 9, skip_invalid=True)
    assert [r["offset"] for r in _decode(bytes(bad) + good, decoder)] == [2]
    assert (decoder.skipped, decoder.position) == (2, 3)


@pytest.mark.parametrize("codec", [0, 3])
def test_bytes_behind_the_last_record_are_damage(codec: int) -> None:
    data = bytearray(encode_batch([Record(n, 0, b"k", b"v") for n in range(3)], codec=codec))
    data[57:61] = (2).to_bytes(4, "big")
    _fix_crc(data)
    with pytest.raises(DamagedRecords, match="its records cannot be decoded"):
        _decode(bytes(data), _decoder(0, 9))


def test_bytes_behind_the_last_header_are_damage() -> None:
    data = bytearray(encode_batch([Record(0, 0, None, b"v", (("a", b"1"), ("b", b"2")))]))
    at = data.index(b"v") + 1
    assert data[at] == 4  # two, zig-zag
    data[at] = 2
    _fix_crc(data)
    with pytest.raises(DamagedRecords, match="offset 0: its headers are damaged"):
        _decode(bytes(data), _decoder(0, 1))


def test_impossible_number_of_records_is_damage() -> None:
    data = bytearray(encode_batch([Record(0, 0, b"k", b"v")], last_offset=1 << 30))
    data[57:61] = (1 << 30).to_bytes(4, "big")
    _fix_crc(data)
    with pytest.raises(DamagedRecords, match="cannot hold 1073741824 records"):
        _decode(bytes(data), _decoder(0, 9))


@pytest.mark.parametrize("count", [0, -1])
def test_a_batch_that_denies_its_records_is_damaged(count: int) -> None:
    """Not an empty one, such as compaction leaves."""
    data = bytearray(encode_batch([Record(0, 0, b"k", b"v")]))
    data[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(DamagedRecords, match=r"t offset 0: (a batch of|its checksum)"):
        _decode(bytes(data), _decoder(0, 9))
    for codec in (0, 1):
        assert _decode(encode_batch([], last_offset=3, codec=codec), _decoder(0, 9)) == []


def _reference(data: bytes) -> list[Record] | None:
    """What the plain decoder makes of an answer; None where it finds fault with it."""
    try:
        found = list(iter_batches(data))
        if not all(crc_ok(batch) for _, batch in found):
            return None
        return [record for _, batch in found for record in decode_records(batch)]
    except ProtocolError as fault:
        # Names of headers that are no text are mended for Spark, and refused by the plain decoder.
        return [] if isinstance(fault.__cause__, UnicodeDecodeError) else None


def _held_to_the_reference(data: bytes) -> None:
    """Damage is seen where the plain decoder sees it; elsewhere both say the same."""
    plain = _reference(data)
    try:
        found = _decode_exact(data, _decoder(0, 1000))
    except DamagedRecords:
        return  # the kernels may be stricter: they also look at numbers that make no sense
    assert plain is not None, f"{len(found)} rows were made of damaged bytes"
    offsets = [record.offset for record in plain]
    if plain and offsets == sorted(offsets):
        assert found == _rows([r for r in plain if 0 <= r.offset < 1000])


@settings(max_examples=80, deadline=None)
@given(drafts.filter(bool), st.integers(0, 4), st.data())
def test_flipped_bits_are_seen(draft: Any, codec: int, data: st.DataObject) -> None:
    """With the checksum that was there, and with one that a faulty writer made of the damage."""
    whole = bytearray(_batch(0, draft, codec)[0])
    first = data.draw(st.sampled_from([8, 61]))  # an offset may be any number
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(first, len(whole) - 1))
        whole[at] ^= 1 << data.draw(st.integers(0, 7))
    if first == 61:
        _fix_crc(whole)
    _held_to_the_reference(bytes(whole))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(drafts.filter(bool), st.integers(0, 4)), min_size=1, max_size=3), st.data()
)
def test_cut_answers_give_their_whole_batches(
    kernel_batches: list[tuple[Any, int]], data: st.DataObject
) -> None:
    answer, first = b"", 0
    for draft, codec in kernel_batches:
        batch, first = _batch(first, draft, codec)
        answer += batch
    cut = answer[: data.draw(st.integers(0, len(answer)))]
    whole = list(iter_batches(cut))
    decoder = _decoder(0, 1000)
    assert _decode_exact(cut, decoder) == _rows(_reference(cut) or [])
    assert decoder.position == (whole[-1][0].last_offset + 1 if whole else 0)


@settings(max_examples=30, deadline=None)
@given(drafts.filter(bool), st.data())
def test_a_record_that_ends_early_is_damage(draft: Any, data: st.DataObject) -> None:
    """The header and checksum are those of a whole batch, its records are cut."""
    whole, cut = _batch(0, draft, 0)[0], data.draw(st.integers(1, 8))
    short = bytearray(whole[: max(len(whole) - cut, 61)])
    short[8:12] = (len(short) - 12).to_bytes(4, "big")
    _fix_crc(short)
    with pytest.raises(DamagedRecords):
        _decode_exact(bytes(short), _decoder(0, 1000))


class _Log:
    """A partition as two transactional producers and others fill it, and what is in it."""

    def __init__(self) -> None:
        self.data, self.end = b"", 0
        self.records: list[Record] = []
        self.markers: list[int] = []
        self.undone: set[int] = set()
        self.aborted: list[tuple[int, int]] = []
        self._open: dict[int, list[int]] = {}  # where each transaction began, and its records

    def write(self, producer: int, draft: Any, codec: int) -> None:
        records = _placed(self.end, draft)
        batch = encode_batch(
            records,
            base_offset=self.end,
            codec=codec,
            producer_id=producer,
            is_transactional=producer >= 0,
        )
        self.data += batch
        self.records += decode_records(batch)
        if producer >= 0:
            self._open.setdefault(producer, [self.end]).extend(r.offset for r in records)
        self.end = records[-1].offset + 1

    def finish(self, producer: int, kind: ControlKind) -> None:
        first, *offsets = self._open.pop(producer, [-1])
        if first >= 0 and kind is ControlKind.ABORT:
            self.aborted.append((producer, first))
            self.undone.update(offsets)
        self.data += encode_control_batch(
            kind,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=self.end,
        )
        self.markers.append(self.end)
        self.end += 1


producers = st.sampled_from([1, 2])
writes = st.tuples(
    st.one_of(producers, st.just(-1)), drafts.filter(lambda d: 0 < len(d) < 4), st.integers(0, 4)
)
acts = st.one_of(writes, st.tuples(producers, st.sampled_from(ControlKind)))


@settings(max_examples=30, deadline=None)
@given(st.lists(acts, max_size=9))
def test_transactions_end_as_their_markers_say(done: list[Any]) -> None:
    log = _Log()
    for producer, *act in done:
        if len(act) == 2:
            log.write(producer, *act)
        else:
            log.finish(producer, *act)
    wanted = _rows([r for r in log.records if r.offset not in log.undone])
    committed = _decoder(0, log.end, aborted="drop")
    assert _decode_exact(log.data, committed, log.aborted) == wanted
    assert committed.position == log.end
    assert _decode_exact(log.data, _decoder(0, log.end), log.aborted) == _rows(log.records)
    marked = _decoder(0, log.end, control=True, columns=("offset", "isControl"))
    found = {r["offset"]: r["isControl"] for r in _decode(log.data, marked, log.aborted)}
    assert found == {r.offset: False for r in log.records} | dict.fromkeys(log.markers, True)


def test_frames_keep_to_their_size() -> None:
    """T13: many small frames are slow, and a huge one would not fit 32-bit offsets."""
    records = [Record(i, 0, b"k", bytes(100)) for i in range(1000)]
    data = encode_batch(records)
    decoder = _decoder(0, 1000, frame_rows=300, frame_bytes=20_000)
    found = list(decoder.feed(np.frombuffer(data, np.uint8), walk(data, "t")))
    assert sum(f.num_rows for f in found) == 1000
    assert max(f.num_rows for f in found) <= 198


def test_raw_rows_are_the_batches_as_they_lie() -> None:
    one, two = (
        encode_batch([Record(0, 7, b"k", b"v")]),
        encode_batch([Record(1, 0, b"k", b"v")], base_offset=1),
    )
    data = np.frombuffer(one + two, np.uint8)
    frame = frames.raw_frame(data, walk(one + two, "t"), RowSource("t", 3), 1, 9)
    assert frame.column("raw").to_pylist() == [two]
