"""Restoring an archived topic by appending, with proof.

One task a partition keeps the order. The new offsets are dense: record number n of a partition gets
offset n, whoever asks and how often, so a restore that was broken off goes on at the partition's
end, the offset map is known without asking, and a foreign producer is noticed by the first offset
that is not the expected one. In the end the topic is read back and compared with the archive window
by window.

Control records and rolled-back ones are not written again. `restore_topic` has the topic and what
is put aside while it is being filled, `restore_partition` what a task does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.archiving import range_of, verify
from klamm.pipelines.archive.files import GROUP_BYTES_MAX, read_groups, window_frames
from klamm.pipelines.archive.layout import Manifest, below, plan_windows, read_part
from klamm.pipelines.archive.restore_partition import ContentSums, RestoreJob, restore_partition
from klamm.pipelines.archive.restore_topic import (
    Limit,
    check_target,
    open_topic,
    put_back,
    settings_of,
)
from klamm.pipelines.archive.shelf import being_written
from klamm.pipelines.jobs.progress import Progress, Silent, watched
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.places.remote import Place, place_of
from klamm.pipelines.records.digests import window_offsets
from klamm.pipelines.session.session import refuse_speculation
from klamm.pipelines.source.selection import while_there

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    topic: str
    topic_id: str
    records: int
    resumed: int
    groups: Mapping[str, int]
    notes: Sequence[str]
    offset_map: Place
    seconds: float


def restore(
    spark: SparkSession,
    connection: ConnectionOptions,
    manifest: Manifest,
    *,
    to: str | None = None,
    as_of_ms: int | None = None,
    before: Mapping[int, int] | None = None,
    check: bool = True,
    group_bytes: int = GROUP_BYTES_MAX,
    progress: Progress | None = None,
) -> Restored:
    """Fills a topic of its own with the archived records and proves that they are all there.

    Only those up to a time, or before an offset of each partition that is named, where it is asked.
    A file with a row group that takes more than `group_bytes` of memory is refused.
    """
    refuse_speculation(spark)
    began, bar = time.monotonic(), progress or Silent()
    name = to or manifest.topic
    lookup = Lookup(connection)
    journal = check_target(lookup, manifest, name, Limit(time_ms=as_of_ms, offsets=before))
    with journal.alone(), being_written(manifest.path):
        if check and (faults := verify(spark, manifest, progress=bar, group_bytes=group_bytes)):
            raise KlammError(f"the archive is damaged: {'; '.join(faults[:5])}")
        kept = settings_of(manifest)
        topic_id, notes = open_topic(lookup, name, kept, journal)
        commits = _commits(manifest)
        job = RestoreJob(
            connection=connection,
            directory=str(manifest.path),
            topic=name,
            partitions={int(p): manifest.files_of(int(p)) for p in manifest.partitions},
            as_of_ms=as_of_ms,
            before=before or {},
            batch_bytes=kept.batch_bytes,
            is_checked=check,
            group_bytes=group_bytes,
            commits={
                int(p): sorted({c.offset for _, q, c in commits if q == int(p)})
                for p in manifest.partitions
            },
            map_directory=str(journal.path.parent / "offset-map"),
        )
        with while_there(lookup, name, topic_id, "restored"):
            done = _fill(spark, job, manifest, bar)
            _prove(spark, job, lookup, done, bar)
            groups, refused = _translate(lookup, name, commits, done)
            notes += refused + put_back(lookup, name, kept, manifest)
        journal.close()
    records = sum(p["records"] for p in done.values())
    resumed = sum(p["skipped"] for p in done.values())
    seconds = time.monotonic() - began
    return Restored(
        name, topic_id, records, resumed, groups, notes, place_of(job.map_directory), seconds
    )


def _commits(manifest: Manifest) -> list[tuple[str, int, Committed]]:
    """The committed offsets: group, partition, and commit."""
    read_part(manifest, manifest.groups)
    rows = read_groups(below(manifest.path, manifest.groups.path))
    return [
        (r["group"], r["partition"], Committed(r["offset"], metadata=r["metadata"] or ""))
        for r in rows
        if str(r["partition"]) in manifest.partitions
    ]


def _fill(
    spark: SparkSession, job: RestoreJob, manifest: Manifest, progress: Progress
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
    job: RestoreJob,
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
            sums, rows, size = ContentSums(), r.start, 0
            for frame in window_frames(connection, r):
                sums.add(frame, rows)
                rows += frame.num_rows
                size += frame.nbytes
            report(r.size, size)
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
    commits: Sequence[tuple[str, int, Committed]],
    done: Mapping[int, Mapping[str, Any]],
) -> tuple[dict[str, int], list[str]]:
    """Groups go on in the new topic where they stopped in the old one."""
    by_group: dict[str, dict[TopicPartition, Committed]] = {}
    for group, partition, old in commits:
        new = replace(old, offset=done[partition]["commits"][str(old.offset)])
        by_group.setdefault(group, {})[TopicPartition(topic, partition)] = new
    moved, notes = {}, []
    for group, offsets in sorted(by_group.items()):
        try:
            lookup.commit(group, offsets)
            moved[group] = len(offsets)
        except Answered as fault:
            if fault.is_retriable:
                raise  # it is not whole yet: the same restore can go on when brokers are well
            notes.append(f"group {group} was not translated: {fault}")
    return moved, notes


def summary(restored: Restored) -> dict[str, Any]:
    """The report as plain values."""
    return asdict(restored) | {"offset_map": str(restored.offset_map)}
