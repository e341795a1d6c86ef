"""Restoring an archived topic by appending, with proof.

One task a partition keeps the order. The new offsets are dense: record number n of a partition gets
offset n, whoever asks and how often, so a restore that was broken off goes on at the partition's
end, the offset map is known without asking, and a foreign producer is noticed by the first offset
that is not the expected one. In the end the topic is read back and compared with the archive window
by window.

Control records and rolled-back ones are not written again. While a topic is being filled, its
records must neither be restamped nor expire: such settings are put aside and put back at the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from crc32c import crc32c

from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive import range_of, read_file, run_tasks, verify, window_frames
from klamm.pipelines.archive_layout import GROUPS, TOPIC, File, Manifest, plan_windows
from klamm.pipelines.batches import OpenBatch, Records, headers_of, pieces_of
from klamm.pipelines.cluster import Committed, Lookup
from klamm.pipelines.digests import WINDOW, canonical, window_offsets
from klamm.pipelines.options import ConnectionOptions
from klamm.pipelines.producer import Producer
from klamm.pipelines.progress import Progress, Silent, watched
from klamm.pipelines.session import refuse_speculation
from klamm.pipelines.stream import write_whole
from klamm.pipelines.wire import Answered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROZEN: Final = "klamm.frozen"
_WEEK_MS: Final = 7 * 24 * 3_600_000
_BATCH_BYTES: Final = 900_000
_STILL_SECONDS: Final = 1.0
# What would change or drop records while they are being written.
_ASIDE: Final[Mapping[str, str]] = {
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
}
_MAP: Final = pa.schema(
    [
        ("source", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("target", pa.int32()),
        ("new_first", pa.int64()),
        ("count", pa.int32()),
        ("source_offsets", pa.list_(pa.int64())),  # null where they have no gaps
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that a task must know."""

    connection: ConnectionOptions
    directory: str
    topic: str
    partitions: Mapping[int, Sequence[File]]
    as_of_ms: int | None
    commits: Mapping[int, Sequence[int]]  # offsets that groups have committed, by partition
    map_directory: str


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore has done."""

    topic: str
    topic_id: str
    records: int
    resumed: int
    groups: Mapping[str, int]
    notes: Sequence[str]
    offset_map: Path
    seconds: float


def restore(
    spark: SparkSession,
    connection: ConnectionOptions,
    manifest: Manifest,
    *,
    to: str | None = None,
    as_of_ms: int | None = None,
    check: bool = True,
    progress: Progress | None = None,
) -> Restored:
    """Fills a topic of its own with the archived records and proves that they are all there."""
    refuse_speculation(spark)
    began, bar = time.monotonic(), progress or Silent()
    name = to or manifest.topic
    if check and (faults := verify(spark, manifest, progress=bar)):
        raise KlammError(f"the archive is damaged: {'; '.join(faults[:5])}")
    lookup = Lookup(connection)
    kept = json.loads((manifest.path / TOPIC).read_text())
    journal = _Journal(manifest.path / "restores" / name / "journal.json", as_of_ms)
    topic_id = _open_topic(lookup, name, kept, journal)
    commits = _commits(manifest)
    job = Job(
        connection=connection,
        directory=str(manifest.path),
        topic=name,
        partitions={int(p): manifest.files_of(int(p)) for p in manifest.partitions},
        as_of_ms=as_of_ms,
        commits={
            int(p): sorted({o for _, q, o in commits if q == int(p)}) for p in manifest.partitions
        },
        map_directory=str(journal.path.parent / "offset-map"),
    )
    done = _fill(spark, job, manifest, bar)
    _prove(spark, job, lookup, done, bar)
    groups, notes = _translate(lookup, name, commits, done)
    notes += _put_back(lookup, name, kept["configs"], manifest)
    journal.close()
    records = sum(p["records"] for p in done.values())
    resumed = sum(p["skipped"] for p in done.values())
    seconds = time.monotonic() - began
    return Restored(
        name, topic_id, records, resumed, groups, notes, Path(job.map_directory), seconds
    )


class _Journal:
    """What a restore must remember to be taken up again: the topic that is its own."""

    def __init__(self, path: Path, as_of_ms: int | None) -> None:
        self.path = path
        self._as_of_ms = as_of_ms

    def read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        found: dict[str, Any] = json.loads(self.path.read_text())
        if found["state"] != "complete" and found["as_of_ms"] != self._as_of_ms:
            raise UsageError(
                f"{self.path} is of a restore with another --as-of: delete the half-filled topic "
                "and this file, or ask for the same time"
            )
        return found

    def write(self, state: str, topic_id: str) -> None:
        body = {"state": state, "topic_id": topic_id, "as_of_ms": self._as_of_ms}
        write_whole(self.path, json.dumps(body))

    def close(self) -> None:
        self.write("complete", self.read()["topic_id"])


def _open_topic(lookup: Lookup, name: str, kept: dict[str, Any], journal: _Journal) -> str:
    """The topic to fill: a new one, or the one that an unfinished restore has begun."""
    found = lookup.view([name]).topics.get(name)
    state = journal.read()
    begun = state.get("state") in ("creating", "filling")
    if found is not None:
        mine = begun and (
            state["topic_id"] == found.id
            or (state["state"] == "creating" and not any(lookup.latest(found.partitions).values()))
        )
        if not mine:
            raise UsageError(f"there is a topic {name} already: choose another name with --to")
        journal.write("filling", found.id)
        return found.id
    journal.write("creating", "")
    configs = {k: v for k, v in kept["configs"].items() if k != FROZEN}
    lookup.create(name, kept["partitions"], configs={**configs, **_ASIDE})
    topic_id = lookup.view([name]).topics[name].id
    journal.write("filling", topic_id)
    return topic_id


def _commits(manifest: Manifest) -> list[tuple[str, int, int]]:
    rows = pq.read_table(manifest.path / GROUPS).to_pylist()
    return [(r["group"], r["partition"], r["offset"]) for r in rows]


def _fill(
    spark: SparkSession, job: Job, manifest: Manifest, progress: Progress
) -> dict[int, dict[str, Any]]:
    order = sorted(job.partitions)
    with watched(spark, progress, f"restoring {job.topic}", manifest.records) as report:

        def work(number: int) -> Iterable[Any]:
            answer = restore_partition(job, order[number])
            report(answer["records"], answer["bytes"])
            return [answer]

        answers = run_tasks(spark, len(order), work)
    return {answer["partition"]: answer for answer in answers}


def restore_partition(job: Job, partition: int) -> dict[str, Any]:
    """Writes what is still missing of one partition."""
    tp = TopicPartition(job.topic, partition)
    there = _end_at_rest(Lookup(job.connection), tp)
    walk = _Walk(job, partition)
    producer = Producer(connection=job.connection)
    box = OpenBatch(_BATCH_BYTES)
    try:
        for frame in walk.frames():
            fresh = frame.slice(max(there - walk.before, 0))
            if fresh.num_rows:
                producer.codec = int(frame.column("codec")[0].as_py())
                for full in box.fill(_records(fresh), np.arange(fresh.num_rows)):
                    producer.send(tp, full)
        if box.count:
            producer.send(tp, box)
        producer.flush()
    finally:
        producer.close()
    sent = producer.sent.get(tp)
    if there > walk.total or (
        sent and (sent.first_offset, sent.last_offset) != (there, walk.total - 1)
    ):
        raise KlammError(f"somebody else writes to {tp}: restore under a name that is not in use")
    walk.write_map(Path(job.map_directory))
    return {
        "partition": partition,
        "records": walk.total,
        "skipped": there,
        "bytes": sent.bytes if sent else 0,
        "digests": walk.digests,
        "commits": walk.commits,
    }


def _end_at_rest(lookup: Lookup, tp: TopicPartition) -> int:
    """The partition's end. After a broken-off run a last request may still be under way."""
    end = lookup.latest([tp])[tp]
    since = time.monotonic()
    while end and time.monotonic() - since < _STILL_SECONDS:
        time.sleep(0.1)
        now = lookup.latest([tp])[tp]
        if now != end:
            end, since = now, time.monotonic()
    return end


class _Walk:
    """The records of an archived partition in order, with all that follows from their number."""

    def __init__(self, job: Job, partition: int) -> None:
        self._job = job
        self._partition = partition
        self._sums = ContentSums()
        self._map: list[dict[str, Any]] = []
        self._smaller = dict.fromkeys(job.commits.get(partition, ()), 0)
        self.before = self.total = 0

    @property
    def digests(self) -> dict[str, str]:
        """The content of each window of new offsets."""
        return self._sums.texts()

    @property
    def commits(self) -> dict[str, int]:
        """Each committed offset's place among the new ones."""
        return {str(old): new for old, new in self._smaller.items()}

    def frames(self) -> Iterator[Any]:
        """What readers could see, up to the wanted time."""
        for file in self._job.partitions[self._partition]:
            for frame in read_file(Path(self._job.directory) / file.path):
                kept = visible(frame, self._job.as_of_ms)
                if kept.num_rows == 0:
                    continue
                self._note(kept)
                yield kept

    def _note(self, frame: Any) -> None:
        offsets = frame.column("offset").to_numpy()
        self.before, self.total = self.total, self.total + len(offsets)
        self._sums.add(frame, self.before)
        for old in self._smaller:
            self._smaller[old] += int(np.searchsorted(offsets, old))
        first, last = int(offsets[0]), int(offsets[-1])
        dense = last - first + 1 == len(offsets)
        self._map.append(
            {
                "source": self._partition,
                "first": first,
                "last": last,
                "target": self._partition,
                "new_first": self.before,
                "count": len(offsets),
                "source_offsets": None if dense else offsets.tolist(),
            }
        )

    def write_map(self, directory: Path) -> None:
        """The offset map of this partition, whole or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / f".partition-{self._partition}.draft"
        pq.write_table(pa.Table.from_pylist(self._map, _MAP), draft)
        draft.rename(directory / f"partition-{self._partition}.parquet")


def visible(frame: Any, as_of_ms: int | None = None) -> Any:
    """The rows of a frame that readers could see at that time."""
    keep = pc.invert(pc.or_(frame.column("is_control"), frame.column("is_aborted")))
    if as_of_ms is not None:
        keep = pc.and_(keep, pc.less_equal(frame.column("timestamp_ms"), as_of_ms))
    return frame.filter(keep)


class ContentSums:
    """Sums over the content of a dense partition, one for each window of offsets."""

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}

    def add(self, frame: Any, first: int) -> None:
        """Takes the rows whose offsets begin with `first`."""
        # A restored topic keeps the times, but not who set them.
        kind = pa.array(np.zeros(frame.num_rows, np.int8))
        frame = frame.set_column(
            frame.schema.get_field_index("timestamp_type"), "timestamp_type", kind
        )
        at = 0
        while at < frame.num_rows:
            window = (first + at) // WINDOW
            count = min((window + 1) * WINDOW - first - at, frame.num_rows - at)
            piece = canonical(frame.slice(at, count))
            self._sums[window] = crc32c(piece, self._sums.get(window, 0))
            at += count

    def texts(self) -> dict[str, str]:
        """The sums by window."""
        return {str(window): f"{total:08x}" for window, total in sorted(self._sums.items())}


def _records(frame: Any) -> Records:
    headers, count = headers_of(frame.column("headers"))
    return Records(
        frame.column("timestamp_ms").to_numpy(),
        pieces_of(frame.column("key")),
        pieces_of(frame.column("value")),
        headers,
        count,
    )


def _prove(
    spark: SparkSession,
    job: Job,
    lookup: Lookup,
    done: Mapping[int, Mapping[str, Any]],
    progress: Progress,
) -> None:
    """Reads the topic back and compares it with what the archive says."""
    view = lookup.view([job.topic])
    ranges = [
        range_of(view, job.topic, window)
        for partition, answer in sorted(done.items())
        for window in plan_windows(partition, 0, answer["records"])
    ]
    connection = job.connection
    with watched(spark, progress, f"proving {job.topic}", sum(r.size for r in ranges)) as report:

        def work(number: int) -> Iterable[Any]:
            r = ranges[number]
            sums, rows = ContentSums(), r.start
            for frame in window_frames(connection, r):
                sums.add(frame, rows)
                rows += frame.num_rows
            report(r.size, 0)
            return [[r.partition, sums.texts(), rows - r.start]]

        answers = run_tasks(spark, len(ranges), work)
    faults = _differences(done, answers)
    ends = lookup.latest([TopicPartition(job.topic, p) for p in done])
    faults += [
        f"{tp} ends at {end}, not at {done[tp.partition]['records']}"
        for tp, end in sorted(ends.items())
        if end != done[tp.partition]["records"]
    ]
    if faults:
        raise KlammError(f"{job.topic} is not what was archived: {'; '.join(faults[:5])}")


def _differences(done: Mapping[int, Mapping[str, Any]], answers: Sequence[Any]) -> list[str]:
    found: dict[tuple[int, str], str] = {
        (partition, window): text
        for partition, texts, _ in answers
        for window, text in texts.items()
    }
    wanted = {
        (partition, window): text
        for partition, answer in done.items()
        for window, text in answer["digests"].items()
    }
    return [
        f"partition {partition}, {window_offsets(int(window))}: the records differ"
        for partition, window in sorted(found.keys() | wanted.keys())
        if found.get((partition, window)) != wanted.get((partition, window))
    ]


def _translate(
    lookup: Lookup,
    topic: str,
    commits: Sequence[tuple[str, int, int]],
    done: Mapping[int, Mapping[str, Any]],
) -> tuple[dict[str, int], list[str]]:
    """Groups go on in the new topic where they stopped in the old one."""
    by_group: dict[str, dict[TopicPartition, Committed]] = {}
    for group, partition, offset in commits:
        new = done[partition]["commits"][str(offset)]
        by_group.setdefault(group, {})[TopicPartition(topic, partition)] = Committed(new)
    moved, notes = {}, []
    for group, offsets in sorted(by_group.items()):
        try:
            lookup.commit(group, offsets)
            moved[group] = len(offsets)
        except Answered as fault:
            notes.append(f"group {group} was not translated: {fault}")
    return moved, notes


def _put_back(
    lookup: Lookup, name: str, configs: Mapping[str, str], manifest: Manifest
) -> list[str]:
    """The topic's own settings again; what would delete the records at once stays aside."""
    oldest = min((f.time_min for f in manifest.files if f.rows), default=-1)
    retention = int(configs.get("retention.ms", _WEEK_MS))
    expired = 0 <= retention < time.time() * 1000 - oldest and oldest >= 0
    keep = {"retention.ms"} if expired else set()
    lookup.alter(name, {k: configs.get(k) for k in _ASIDE if k not in keep})
    if not expired:
        return []
    return [
        f"retention.ms of {name} stays -1, for the records are older than the {retention} ms it had"
    ]


def summary(restored: Restored) -> dict[str, Any]:
    """The report as plain values."""
    return asdict(restored) | {"offset_map": str(restored.offset_map)}
