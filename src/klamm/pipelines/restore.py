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

import io
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition, name_fault
from klamm.pipelines.archive import range_of, run_tasks, verify
from klamm.pipelines.archive_files import window_frames
from klamm.pipelines.archive_layout import Manifest, plan_windows, read_part
from klamm.pipelines.cluster import Committed, Lookup
from klamm.pipelines.digests import window_offsets
from klamm.pipelines.options import ConnectionOptions
from klamm.pipelines.progress import Progress, Silent, watched
from klamm.pipelines.restore_partition import ContentSums, Job, restore_partition
from klamm.pipelines.selection import while_there
from klamm.pipelines.session import refuse_speculation
from klamm.pipelines.wire import Answered
from klamm.pipelines.writing import write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROZEN: Final = "klamm.frozen"
_WEEK_MS: Final = 7 * 24 * 3_600_000
# What would change or drop records while they are being written.
_ASIDE: Final[Mapping[str, str]] = {
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
}


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
    lookup = Lookup(connection)
    journal = check_target(lookup, manifest, name, as_of_ms)
    if check and (faults := verify(spark, manifest, progress=bar)):
        raise KlammError(f"the archive is damaged: {'; '.join(faults[:5])}")
    kept = json.loads(read_part(manifest, manifest.settings))
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
    with while_there(lookup, name, topic_id, "restored"):
        done = _fill(spark, job, manifest, bar)
        _prove(spark, job, lookup, done, bar)
        groups, notes = _translate(lookup, name, commits, done)
        notes += _put_back(lookup, name, kept["configs"], manifest)
        notes += _fewer_replicas(lookup, name, kept)
    journal.close()
    records = sum(p["records"] for p in done.values())
    resumed = sum(p["skipped"] for p in done.values())
    seconds = time.monotonic() - began
    return Restored(
        name, topic_id, records, resumed, groups, notes, Path(job.map_directory), seconds
    )


def check_target(
    lookup: Lookup, manifest: Manifest, name: str, as_of_ms: int | None = None
) -> Journal:
    """What can be said against a restore before anything is done; else where it will note its way.

    Costs nothing, so that who mistyped a name need not wait for Spark.
    """
    if fault := name_fault(name):
        raise UsageError(fault)
    oldest = min((f.time_min for f in manifest.files if f.rows), default=None)
    if as_of_ms is not None and oldest is not None and as_of_ms < oldest:
        raise UsageError(
            f"the archive of {manifest.topic} has no record as old as {_when(as_of_ms)}: "
            f"its first is of {_when(oldest)}"
        )
    journal = Journal(manifest.path / "restores" / name / "journal.json", as_of_ms)
    _own_topic(lookup, name, journal)
    return journal


def _when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


class Journal:
    """What a restore must remember to be taken up again: the topic that is its own."""

    def __init__(self, path: Path, as_of_ms: int | None) -> None:
        self.path = path
        self._as_of_ms = as_of_ms

    def read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        try:
            found: dict[str, Any] = json.loads(self.path.read_text())
        except ValueError:
            raise KlammError(
                f"{self.path} is damaged: delete the half-filled topic and this file"
            ) from None
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


def _own_topic(lookup: Lookup, name: str, journal: Journal) -> str | None:
    """The topic that an unfinished restore has begun; that of somebody else is refused."""
    found, state = lookup.view([name]).topics.get(name), journal.read()
    if found is None:
        return None
    begun = state.get("state") in ("creating", "filling")
    if begun and state["topic_id"] == found.id:
        return found.id
    if begun and state["state"] == "creating" and not any(lookup.latest(found.partitions).values()):
        return found.id
    raise UsageError(f"there is a topic {name} already: choose another name with --to")


def _open_topic(lookup: Lookup, name: str, kept: dict[str, Any], journal: Journal) -> str:
    """The topic to fill: a new one, or the one that an unfinished restore has begun."""
    topic_id = _own_topic(lookup, name, journal)
    if topic_id is None:
        journal.write("creating", "")
        configs = {k: v for k, v in kept["configs"].items() if k != FROZEN}
        replicas = min(_replicas(kept), len(lookup.view([]).brokers))
        given = {**configs, **_ASIDE}
        lookup.create(name, kept["partitions"], replicas=replicas, configs=given)
        topic_id = lookup.view([name]).topics[name].id
    journal.write("filling", topic_id)
    return topic_id


def _replicas(kept: Mapping[str, Any]) -> int:
    """How many replicas the topic had; -1, the cluster's default, where nobody knows."""
    return max(map(len, kept["assignments"].values()), default=-1)


def _fewer_replicas(lookup: Lookup, name: str, kept: Mapping[str, Any]) -> list[str]:
    had, view = _replicas(kept), lookup.view([name])
    leaders = view.topics[name].leaders.values()
    has = max((len(leader.replicas) for leader in leaders if leader), default=had)
    if has >= had:
        return []
    return [f"{name} has {has} replicas instead of {had}: there are {len(view.brokers)} brokers"]


def _commits(manifest: Manifest) -> list[tuple[str, int, int]]:
    rows = pq.read_table(io.BytesIO(read_part(manifest, manifest.groups))).to_pylist()
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
