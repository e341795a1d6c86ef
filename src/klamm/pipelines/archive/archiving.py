"""Archiving a topic: every record as a Parquet row, with proof.

The driver plans windows of offsets; each task fetches one window, decodes it into frames, writes
one Parquet file itself and returns a line of manifest. Records never pass through Spark's rows. The
manifest comes last, so that an archive exists whole or not at all; a run that was broken off finds
the finished files of the one before and does the rest.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered, Unreachable
from klamm.client.metadata import Topic, View
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.files import (
    GROUP_BYTES_MAX,
    SCHEMA,
    ArchiveJob,
    archive_window,
    file_faults,
)
from klamm.pipelines.archive.layout import (
    File,
    Manifest,
    Part,
    Window,
    below,
    digest_of,
    directory_of,
    entry_of,
    fitting_window,
    manifest_faults,
    new_name,
    part_fault,
    plan_windows,
    read_manifest,
    sha256,
)
from klamm.pipelines.archive.reuse import kept
from klamm.pipelines.archive.shelf import being_written, publish
from klamm.pipelines.jobs.progress import Progress, Silent, watched
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.jobs.writing import drafted, write_whole
from klamm.pipelines.places.remote import Place, place_of, relative
from klamm.pipelines.session.session import refuse_speculation
from klamm.pipelines.source.ranges import Range
from klamm.pipelines.source.selection import bytes_per_offset, ids_of, no_topic, while_there
from klamm.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run."""

    manifest: Manifest
    manifest_path: Place
    reused: int
    seconds: float


def archive(
    spark: SparkSession,
    connection: ConnectionOptions,
    topic: str,
    root: str | Place,
    *,
    progress: Progress | None = None,
    window: int | None = None,
    after: Manifest | None = None,
) -> Archived:
    """Archives everything that committed readers of the topic can see now.

    `after` is what this very run has archived a moment ago: its files need no second look.
    """
    refuse_speculation(spark)
    began = time.monotonic()
    lookup = Lookup(connection)
    view = lookup.view([topic])
    if topic not in view.topics:
        raise no_topic(lookup, [topic])
    starts, ends = _bounds(lookup, view, topic)
    directory = directory_of(root, view.cluster_id, topic, view.topics[topic].id)
    sizes = dict.fromkeys(ends, window) if window else _window_sizes(lookup, starts, ends)
    ranges = [
        range_of(view, topic, w)
        for tp in sorted(ends)
        for w in plan_windows(tp.partition, starts[tp], ends[tp], sizes[tp])
    ]
    job = ArchiveJob(
        connection=connection,
        directory=str(directory),
        topic=topic,
        topic_id=view.topics[topic].id,
        ranges=ranges,
        compacted="compact" in lookup.setting(topic, "cleanup.policy"),
        named=_named(directory),
        checked={f.path: f for f in after.files} if after else {},
    )
    _make_directory(directory)
    below(place_of(root), relative(directory, place_of(root)))
    with being_written(directory):
        with while_there(lookup, topic, job.topic_id, "archived"):
            files, reused = _run(spark, job, progress or Silent())
            settings = _write_settings(directory, lookup, view, topic)
            groups = _write_groups(directory, lookup, view.topics[topic])
        manifest = _manifest(job, view.cluster_id, files, (settings, groups), starts, ends)
        path = publish(manifest)
    return Archived(manifest, path, reused, time.monotonic() - began)


def _window_sizes(
    lookup: Lookup, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The number of offsets in a file of each partition: tasks and files should not be huge."""
    try:
        rates = bytes_per_offset(lookup, starts, ends)
    except (Answered, Unreachable):
        rates = {}  # not everybody may look at log directories
    return {tp: fitting_window(rates.get(tp, 0)) for tp in ends}


def _bounds(
    lookup: Lookup, view: View, topic: str
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The beginning and end of each partition. Open transactions end it early: they may vanish."""
    tps = view.topics[topic].partitions
    return lookup.earliest(tps), lookup.latest(tps, committed=True)


def range_of(view: View, topic: str, window: Window) -> Range:
    """A window with everything a task needs to read it."""
    tp = TopicPartition(topic, window.partition)
    leader = view.leader(tp)
    return Range(
        topic=topic,
        topic_id=ids_of(view).get(topic, ""),
        partition=window.partition,
        start=window.first,
        stop=window.stop,
        host=leader.address[0],
        port=leader.address[1],
        leader_epoch=leader.epoch,
    )


def _named(directory: Place) -> dict[str, str]:
    """The files of the archive that is there, with their checksums."""
    try:
        return {f.path: f.sha256 for f in read_manifest(directory).files}
    except KlammError:
        return {}  # there is none, or none that can be read: this run will make one


def _make_directory(directory: Place) -> None:
    try:
        (directory / "data").mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UsageError(f"cannot write to {directory}: {fault.strerror}") from None


def _run(spark: SparkSession, job: ArchiveJob, progress: Progress) -> tuple[list[File], int]:
    total = sum(r.size for r in job.ranges)
    with watched(spark, progress, f"archiving {job.topic}", total) as report:

        def work(number: int) -> Iterable[Any]:
            wanted = job.ranges[number]
            found = kept(job, wanted)
            file = found or archive_window(job, wanted)
            report(wanted.size, file.bytes)
            return [[asdict(file), found is not None]]

        answers = run_tasks(spark, len(job.ranges), work)
    return [File(**file) for file, _ in answers], sum(reused for _, reused in answers)


def _write_settings(directory: Place, lookup: Lookup, view: View, topic: str) -> Part:
    leaders = view.topics[topic].leaders
    body = {
        "topic": topic,
        "topic_id": view.topics[topic].id,
        "partitions": len(leaders),
        "configs": lookup.configs(topic),
        "assignments": {str(p): list(leader.replicas) for p, leader in leaders.items() if leader},
        "archived_ms": int(time.time() * 1000),
    }
    path = directory / new_name("topic", "json")
    write_whole(path, json.dumps(body, indent=1))
    return Part(path.name, sha256(path))


def _write_groups(directory: Place, lookup: Lookup, topic: Topic) -> Part:
    rows = [
        (group, tp.partition, c.offset, c.leader_epoch, c.metadata)
        for group in lookup.groups()
        for tp, c in sorted(lookup.committed(group).items())
        if tp.topic == topic.name and tp.partition in topic.leaders  # it may have grown since
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    kinds = {
        "group": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "leader_epoch": pa.int32(),
        "metadata": pa.string(),
    }
    table = pa.table({n: pa.array(c, k) for (n, k), c in zip(kinds.items(), columns, strict=True)})
    path = directory / new_name("groups", "parquet")
    with drafted(path) as draft:
        pq.write_table(table, draft)
    return Part(path.name, sha256(path))


def _manifest(
    job: ArchiveJob,
    cluster: str,
    files: Sequence[File],
    beside: tuple[Part, Part],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Manifest:
    entries = {}
    for tp in sorted(ends):
        own = [f for f in files if f.partition == tp.partition]
        entries[str(tp.partition)] = entry_of(starts[tp], ends[tp], own, digest_of(own))
    return Manifest(
        cluster=cluster,
        topic=job.topic,
        topic_id=job.topic_id,
        partitions=entries,
        files=sorted(files, key=lambda f: (f.partition, f.first)),
        settings=beside[0],
        groups=beside[1],
        schema_fingerprint=hashlib.sha256(str(SCHEMA).encode()).hexdigest()[:16],
        writer=f"klamm {__version__} / pyarrow {pa.__version__}",
        created_ms=int(time.time() * 1000),
        path=place_of(job.directory),
    )


def verify(
    spark: SparkSession,
    manifest: Manifest,
    *,
    progress: Progress | None = None,
    group_bytes: int = GROUP_BYTES_MAX,
) -> list[str]:
    """Reads every file back, but none with a row group that takes more memory than that.

    What differs from what the topic was, in words; nothing, if all is well.
    """
    files, directory = manifest.files, str(manifest.path)
    parts = [part_fault(manifest, part) for part in (manifest.settings, manifest.groups)]
    beside = [*manifest_faults(manifest), *parts]
    total = sum(f.rows for f in files)
    with watched(spark, progress or Silent(), f"verifying {manifest.topic}", total) as report:

        def work(number: int) -> Iterable[Any]:
            faults = file_faults(place_of(directory), files[number], group_bytes)
            report(files[number].rows, files[number].bytes)
            return faults

        return [fault for fault in beside if fault] + run_tasks(spark, len(files), work)


def refuse_damage(faults: Sequence[str]) -> None:
    """Raises when `verify` found faults, and names the first of them."""
    if faults:
        more = f", and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise KlammError(f"the archive is damaged: {'; '.join(faults[:5])}{more}")
