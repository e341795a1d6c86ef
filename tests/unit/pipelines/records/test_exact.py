"""Rows made into the batches they came in: decode, build again, decode, and compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.pipelines.archive.files import decoder_of
from klamm.pipelines.records import exact, kernels
from klamm.pipelines.records.batches import Place
from klamm.pipelines.records.exact import Rebuilder, gap
from klamm.pipelines.records.scanning import walk
from klamm.pipelines.source.ranges import Range
from klamm.protocol.batch import (
    LOG_APPEND_TIME,
    ControlKind,
    Record,
    encode_batch,
    encode_control_batch,
    iter_batches,
)

blobs = st.none() | st.binary(max_size=30)
headers = st.lists(st.tuples(st.text(max_size=4), blobs), max_size=3).map(tuple)
# A record: how many offsets after the one before, its time, key, value and headers.
records = st.tuples(st.integers(1, 3), st.integers(-1, 1 << 41), blobs, blobs, headers)
# A batch: records, codec, gap before it, gap at its end, producer.
batches = st.tuples(
    st.lists(records, min_size=1, max_size=12),
    st.sampled_from([0, 1, 2, 3, 4]),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(-1, 5),
)


@pytest.fixture(params=["numba", "numpy"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = kernels.kernels(request.param)
    monkeypatch.setattr(exact, "kernels", lambda: chosen)


def _range(stop: int) -> Range:
    return Range(
        topic="t", topic_id="", partition=0, start=0, stop=stop, host="h", port=1, leader_epoch=0
    )


def rows(data: bytes, stop: int, *, size: int = 5) -> list[Any]:
    """The frames of an archive."""
    decoder = decoder_of(_range(stop))
    decoder.frame_rows = size
    return list(decoder.feed(np.frombuffer(data, np.uint8), walk(data, "t")))


def built_again(frames: list[Any]) -> bytes:
    rebuilder = Rebuilder()
    found = [built.data for frame in frames for built in rebuilder.feed(frame)]
    return b"".join([*found, *(built.data for built in rebuilder.close())])


@settings(max_examples=60, deadline=None)
@given(drafts=st.lists(batches, min_size=1, max_size=6), size=st.integers(1, 20))
def test_batches_are_the_same_to_the_byte(drafts: list[Any], size: int) -> None:
    data, offset, epoch = b"", 0, 0
    for draft, codec, before, behind, producer in drafts:
        base = at = offset + before
        found = []
        for step, *rest in draft:
            found.append(Record(at + step - 1, *rest))
            at += step
        is_idempotent = producer >= 0
        epoch += producer == 5
        data += encode_batch(
            found,
            base_offset=base,
            last_offset=at - 1 + behind,
            codec=codec,
            leader_epoch=epoch,
            producer_id=producer,
            producer_epoch=3 if is_idempotent else -1,
            base_sequence=base if is_idempotent else -1,
            is_transactional=producer > 2,
        )
        offset = at + behind
    assert built_again(rows(data, offset, size=size)) == data


def test_markers_and_the_brokers_time() -> None:
    marker = bytearray(
        encode_control_batch(
            ControlKind.ABORT, producer_id=9, producer_epoch=1, coordinator_epoch=4, timestamp=70
        )
    )
    stamped = encode_batch(
        [Record(1, 70, b"k", b"v")], base_offset=1, leader_epoch=0, attributes=LOG_APPEND_TIME
    )
    marker[12:16] = (0).to_bytes(4, "big")  # the leader epoch, which is not part of the checksum
    data = bytes(marker) + stamped
    assert built_again(rows(data, 2)) == data


def test_a_batch_that_was_cut_in_front_keeps_its_limits() -> None:
    found = [Record(n, 5, b"k", b"v") for n in range(10, 20)]
    data = encode_batch(found, base_offset=10, leader_epoch=2)
    frames = rows(data, 20)
    ((header, _),) = iter_batches(built_again([frames[0].slice(3), *frames[1:]]))
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 19, 7)


def test_offsets_without_a_record_at_the_end_are_batches_without_records() -> None:
    far = (1 << 32) + 5
    found = list(gap(5, far, 2))
    assert found[0].place.base_offset == 5
    assert found[-1].place == Place(found[-2].place.last_offset + 1, far - 1, 2)
    ((header, _),) = iter_batches(found[-1].data)
    assert (header.last_offset, header.record_count, header.leader_epoch) == (far - 1, 0, 2)
    assert list(gap(5, 5, 2)) == []
