"""Any log becomes an archive and any archive a topic, with the same records and the same proof.

Without brokers and without Spark: batches as a leader would answer them go in, and what a restore
would send comes out, read by the plain decoder.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.files import decoder_of, file_faults, read_file, write_file
from klamm.pipelines.archive.layout import (
    File,
    Window,
    data_name,
    digest_of,
    entry_of,
    plan_windows,
)
from klamm.pipelines.archive.restore_partition import ContentSums, RestoreJob, Walk, send
from klamm.pipelines.records.batches import OpenBatch
from klamm.pipelines.records.scanning import walk as hop
from klamm.pipelines.source.ranges import Range
from klamm.protocol.batch import (
    Codec,
    ControlKind,
    Record,
    decode_records,
    encode_batch,
    encode_control_batch,
)

data = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), data), max_size=3).map(tuple)
times = st.sampled_from([-1, 0]) | st.integers(0, 2**41)
rows = st.tuples(
    st.sampled_from([True, True, True, False]), times, data, data, headers
)  # the first: compaction has left it
written = st.tuples(
    st.just("write"),
    st.sampled_from([None, None, 0, 1, 2]),  # in a transaction of this producer
    st.sampled_from(list(Codec)),
    st.lists(rows, min_size=1, max_size=6),
)
ended = st.tuples(st.just("end"), st.integers(0, 2), st.sampled_from(list(ControlKind)))
gone = st.tuples(st.just("gone"), st.integers(1, 5))  # whole batches that compaction has taken
steps = st.lists(st.one_of(written, written, ended, gone), min_size=3, max_size=14)


@dataclass
class Log:
    """A partition as its leader would answer it, and what should be found in it."""

    data: bytearray = field(default_factory=bytearray)
    end: int = 0
    records: list[tuple[Record, bool]] = field(default_factory=list)  # and whether it is control
    owner: dict[int, tuple[int, int]] = field(default_factory=dict)  # offset: transaction
    open: dict[int, int] = field(default_factory=dict)  # producer: its transaction's first offset
    aborted: list[tuple[int, int]] = field(default_factory=list)

    def write(self, producer: int | None, codec: Codec, drawn: list[tuple[Any, ...]]) -> None:
        first = self.end
        self.end += len(drawn)
        left = [Record(first + n, *row[1:]) for n, row in enumerate(drawn) if row[0]]
        if producer is not None:
            self.open.setdefault(producer, first)
            self.owner |= dict.fromkeys((r.offset for r in left), (producer, self.open[producer]))
        self.records += [(record, False) for record in left]
        self.data += encode_batch(
            left,
            base_offset=first,
            last_offset=self.end - 1,
            codec=codec,
            producer_id=-1 if producer is None else producer,
            is_transactional=producer is not None,
        )

    def end_transaction(self, producer: int, kind: ControlKind) -> None:
        first = self.open.pop(producer, None)
        if first is None:
            return
        if kind is ControlKind.ABORT:
            self.aborted.append((producer, first))
        marker = encode_control_batch(
            kind,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=5,
            base_offset=self.end,
        )
        self.records.append((next(decode_records(marker)), True))
        self.data += marker
        self.end += 1

    @property
    def visible(self) -> list[Record]:
        undone = set(self.aborted)
        return [
            record
            for record, is_control in self.records
            if not is_control and self.owner.get(record.offset) not in undone
        ]


def _log(drawn: list[tuple[Any, ...]]) -> Log:
    log = Log()
    for what, *rest in drawn:
        match what:
            case "write":
                log.write(*rest)
            case "end":
                log.end_transaction(*rest)
            case _:
                log.end += rest[0]
    for producer in list(log.open):
        log.end_transaction(producer, ControlKind.COMMIT if producer else ControlKind.ABORT)
    return log


def _archived(log: Log, window: Window, directory: Path) -> File:
    wanted = Range(topic="t", topic_id="id", partition=0, start=window.first, stop=window.stop)
    answer = np.frombuffer(log.data, np.uint8)
    frames = decoder_of(wanted).feed(answer, hop(bytes(log.data), "t"), log.aborted)
    draft = directory / "draft"
    file = write_file(frames, wanted, "id", draft)
    path = window.directory / data_name(window, file.sha256)
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    draft.rename(directory / path)
    return File(**{name: getattr(file, name) for name in file.__slots__} | {"path": str(path)})


class Shelf:
    """Takes what a restore sends, as a leader would: the batches, one behind the other."""

    codec = 0

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    def send(self, tp: TopicPartition, box: OpenBatch) -> None:
        self.batches.append(box.seal(self.codec))

    @property
    def records(self) -> list[Record]:
        found = [record for batch in self.batches for record in decode_records(batch)]
        return [record._replace(offset=n) for n, record in enumerate(found)]


def _job(files: list[File], directory: Path, **more: Any) -> RestoreJob:
    return RestoreJob(
        connection=ConnectionOptions(bootstrap=()),
        directory=str(directory),
        topic="t",
        partitions={0: files},
        as_of_ms=None,
        commits={0: [0, 3, 1 << 40]},
        map_directory="",
        **more,
    )


@settings(max_examples=20, deadline=None)
@given(drawn=steps, size=st.integers(5, 40), some=st.integers(0, 30))
def test_archive_and_restore(drawn: list[tuple[Any, ...]], size: int, some: int) -> None:
    log = _log(drawn)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        windows = plan_windows(0, 0, log.end, size)
        files = [_archived(log, window, directory) for window in windows]
        entry = entry_of(0, log.end, files, digest_of(files))
        assert (entry.rows, entry.records) == (len(log.records), len(log.visible))
        for file in files:
            known = [r.timestamp for r, _ in log.records if file.first <= r.offset <= file.last]
            since = min((time for time in known if time >= 0), default=-1)
            assert (file.time_min, file.time_max) == (since, max([-1, *known]))
        assert [fault for file in files for fault in file_faults(directory, file)] == []
        table = [r for f in files for b in read_file(directory / f.path) for r in b.to_pylist()]
        assert [(r["offset"], r["is_control"]) for r in table] == [
            (record.offset, is_control) for record, is_control in log.records
        ]

        def restored(first: int, **more: Any) -> tuple[Walk, list[Record]]:
            shelf, walk = Shelf(), Walk(_job(files, directory, **more), 0)
            send(walk, TopicPartition("t", 0), shelf, first=first)
            return walk, shelf.records

        walk, found = restored(0)
        wanted = [record._replace(offset=n) for n, record in enumerate(log.visible)]
        assert found == wanted
        assert walk.commits["3"] == sum(r.offset < 3 for r in log.visible)
        assert walk.commits[str(1 << 40)] == len(wanted)
        assert walk.digests == _sums(found)
        assert restored(0, is_checked=False)[1] == wanted
        # Broken off behind some records, and up to an offset only.
        first = some % (len(wanted) + 1)
        assert [r[1:] for r in restored(first)[1]] == [r[1:] for r in wanted[first:]]
        before = log.visible[some % len(wanted)].offset if wanted else 0
        assert [r[1:] for r in restored(0, before={0: before})[1]] == [
            r[1:] for r in log.visible if r.offset < before
        ]


def test_a_file_of_other_records_is_not_restored_even_unchecked(tmp_path: Path) -> None:
    one, other = Log(), Log()
    one.write(None, Codec.NONE, [(True, 5, b"k", b"v", ())])
    other.write(None, Codec.NONE, [(True, 5, b"k", b"w", ())])
    window = Window(0, 0, 1)
    file, strange = (_archived(log, window, tmp_path) for log in (one, other))
    strange = replace(strange, digests=file.digests)
    with pytest.raises(KlammError, match=f"{strange.path} is not what the manifest says"):
        send(
            Walk(_job([strange], tmp_path, is_checked=False), 0),
            TopicPartition("t", 0),
            Shelf(),
            first=0,
        )


def _sums(records: list[Record]) -> dict[str, str]:
    """What the proof finds in the restored topic."""
    sums = ContentSums()
    for record in records:
        wanted = Range(topic="t", topic_id="", partition=0, start=record.offset, stop=1 << 40)
        batch = encode_batch([record], base_offset=record.offset)
        for frame in decoder_of(wanted).feed(np.frombuffer(batch, np.uint8), hop(batch, "t")):
            sums.add(frame, record.offset)
    return sums.texts()
