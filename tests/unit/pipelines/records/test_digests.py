"""Digests name what differs, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c

from klamm.pipelines.archive.files import _COLUMNS, FRAME
from klamm.pipelines.records import batches, columns, digests, kernels, scanning
from klamm.pipelines.records.columns import RowSource
from klamm.pipelines.records.digests import WINDOW, Digests
from klamm.pipelines.records.frames import Decoder
from klamm.pipelines.records.scanning import walk
from klamm.protocol.batch import ControlKind, Record, encode_batch, encode_control_batch


@pytest.fixture(params=["numba", "numpy"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    chosen = kernels.kernels(request.param)
    for module in (columns, scanning, batches, digests):
        monkeypatch.setattr(module, "kernels", lambda: chosen)
    return str(request.param)


def _frames(data: bytes, rows: int = 1000) -> list[Any]:
    decoder = Decoder(
        source=RowSource("t", 0),
        position=0,
        stop=1 << 40,
        columns=tuple(_COLUMNS.values()),
        names=tuple(_COLUMNS),
        control=True,
        aborted="mark",
        frame_rows=rows,
    )
    assert decoder.schema == FRAME
    return list(decoder.feed(np.frombuffer(data, np.uint8), walk(data, "t")))


def _digests(data: bytes, rows: int = 1000) -> dict[int, str]:
    found = Digests()
    for frame in _frames(data, rows):
        found.add(frame)
    return found.texts()


RECORDS = [
    Record(WINDOW - 2, 5, b"k", b"v", (("h", b"x"), ("h", None))),
    Record(WINDOW - 1, 6, None, b""),
    Record(WINDOW, 7, b"", None),
    Record(WINDOW + 5, 8, b"k", b"w"),
]


def _batch(records: list[Record], codec: int = 0) -> bytes:
    return encode_batch(records, base_offset=records[0].offset, codec=codec)


def test_batches_codecs_and_frames_do_not_matter() -> None:
    one = _digests(_batch(RECORDS))
    assert set(one) == {0, 1}
    assert one == _digests(_batch(RECORDS[:1], 4) + _batch(RECORDS[1:], 3), rows=1)


@pytest.mark.parametrize(
    "change",
    [
        {"timestamp": 6},
        {"key": b"j"},
        {"key": None},
        {"value": b""},
        {"headers": (("h", b"x"),)},
        {"headers": (("h", b"x"), ("h", b""))},
        {"headers": (("h", None), ("h", b"x"))},
    ],
)
def test_every_part_of_a_record_matters_and_only_its_window(change: dict[str, Any]) -> None:
    before = _digests(_batch(RECORDS))
    after = _digests(_batch([RECORDS[0]._replace(**change), *RECORDS[1:]]))
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_null_is_not_empty() -> None:
    assert _digests(_batch([Record(0, 0, None, b"v")])) != _digests(
        _batch([Record(0, 0, b"", b"v")])
    )


def test_content_does_not_depend_on_offsets_nor_on_what_is_hidden() -> None:
    marker = encode_control_batch(
        ControlKind.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1
    )
    plain = _digests(_batch([Record(0, 5, b"k", b"v")]))[0]
    shifted = _digests(marker + _batch([Record(7, 5, b"k", b"v")]))[0]
    assert plain.split("-")[1] == shifted.split("-")[1]
    assert plain.split("-")[0] != shifted.split("-")[0]
    assert plain.split("-")[2] == "00000000" != shifted.split("-")[2]


CANONICAL = bytes.fromhex(
    "000000000000000500000000016b0000000176000000020000000168000000017800000001"
    "68ffffffff"
    "000000000000000600ffffffff0000000000000000"
    "00000000000000070000000000ffffffff00000000"
    "000000000000000800000000016b000000017700000000"
)


@pytest.mark.parametrize("chunk", [1, 25, 64, 1 << 18])
def test_content_is_summed_in_its_canonical_form(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(digests, "_CHUNK_BYTES", chunk)
    whole = pa.Table.from_batches(_frames(_batch(RECORDS))).to_batches()[0]
    assert digests.content_sum(whole) == crc32c(CANONICAL)
    assert digests.content_sum(whole, crc32c(b"before")) == crc32c(b"before" + CANONICAL)
