"""Restoring an archived topic as it was: offsets, gaps, batches, producers and groups.

It takes klamm's import path: the topic is created closed to clients, the leaders of its partitions
take the batches of the archive where their offsets say, and it serves when it was read back and
every window, every batch and both ends are what the manifest and the files say. Broken off at any
step it goes on where the leaders' logs end; whoever gives it up deletes the topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.model.settings.topic import IMPORT_EPOCH, IMPORTING
from klamm.pipelines.archive.archiving import range_of, refuse_damage, verify
from klamm.pipelines.archive.exact_partition import (
    ExactJob,
    import_partition,
    last_epoch,
    prove_file,
)
from klamm.pipelines.archive.files import GROUP_BYTES_MAX, read_groups
from klamm.pipelines.archive.layout import Manifest, Window, below, digest_of, read_part
from klamm.pipelines.archive.restore_topic import (
    Limit,
    check_target,
    let_serve,
    open_topic,
    settings_of,
)
from klamm.pipelines.archive.shelf import being_written
from klamm.pipelines.jobs.progress import Progress, Silent, watched
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.session.session import refuse_speculation
from klamm.pipelines.source.selection import while_there
from klamm.protocol.private import PrivateKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ExactlyRestored:
    """The result of an exact restore."""

    topic: str
    topic_id: str
    records: int
    resumed: int  # offsets that an interrupted run had left
    groups: Mapping[str, int]
    notes: Sequence[str]
    digests: Mapping[str, str]  # of each partition, as the manifest has them
    seconds: float


def check_exact(lookup: Lookup, manifest: Manifest, name: str) -> None:
    """Checks an exact restore before anything is done, as `check_target` does."""
    if not lookup.serves(PrivateKey.IMPORT_RECORDS):
        raise UsageError(
            "the brokers of this cluster give every record an offset of their own, so that only a "
            "klamm cluster can restore exactly: leave out --exact, and groups are translated to "
            "the new offsets"
        )
    check_target(lookup, manifest, name, Limit(is_exact=True))


def restore_exactly(
    spark: SparkSession,
    connection: ConnectionOptions,
    manifest: Manifest,
    *,
    to: str | None = None,
    check: bool = True,
    group_bytes: int = GROUP_BYTES_MAX,
    progress: Progress | None = None,
) -> ExactlyRestored:
    """Fills a topic of its own with the archived batches and proves that nothing differs."""
    refuse_speculation(spark)
    began, bar = time.monotonic(), progress or Silent()
    name, lookup = to or manifest.topic, Lookup(connection)
    check_exact(lookup, manifest, name)
    journal = check_target(lookup, manifest, name, Limit(is_exact=True))
    with journal.alone(), being_written(manifest.path):
        if check:
            refuse_damage(verify(spark, manifest, progress=bar, group_bytes=group_bytes))
        kept = settings_of(manifest)
        files = {int(p): manifest.files_of(int(p)) for p in manifest.partitions}
        epoch = max((last_epoch(str(manifest.path), own) for own in files.values()), default=-1)
        importing = {IMPORTING: "true", IMPORT_EPOCH: str(epoch + 1)}
        topic_id, notes = open_topic(lookup, name, kept, journal, importing)
        job = ExactJob(
            connection=connection,
            directory=str(manifest.path),
            topic=name,
            topic_id=topic_id,
            partitions={p: (manifest.partitions[str(p)], own) for p, own in files.items()},
            is_checked=check,
            group_bytes=group_bytes,
        )
        with while_there(lookup, name, topic_id, "restored"):
            resumed = _fill(spark, job, manifest, bar)
            _prove(spark, job, lookup, manifest, bar)
            groups, refused = _commit(lookup, name, manifest)
            notes += refused + let_serve(lookup, name, kept, manifest)
        journal.close()
    return ExactlyRestored(
        name,
        topic_id,
        manifest.records,
        resumed,
        groups,
        notes,
        {p: digest_of(own) for p, own in ((str(p), files[p]) for p in sorted(files))},
        time.monotonic() - began,
    )


def _fill(spark: SparkSession, job: ExactJob, manifest: Manifest, progress: Progress) -> int:
    order = sorted(job.partitions)
    with watched(spark, progress, f"restoring {job.topic}", manifest.records) as report:

        def work(number: int) -> Iterable[Any]:
            answer = import_partition(job, order[number])
            report(job.partitions[order[number]][0].records, answer["bytes"])
            return [answer]

        answers = run_tasks(spark, len(order), work)
    starts = {p: entry.log_start for p, (entry, _) in job.partitions.items()}
    return sum(max(a["resumed"] - starts[a["partition"]], 0) for a in answers)


def _prove(
    spark: SparkSession, job: ExactJob, lookup: Lookup, manifest: Manifest, progress: Progress
) -> None:
    """Reads the topic back and compares it with the manifest and the files."""
    view, files = lookup.view([job.topic]), manifest.files
    ranges = [range_of(view, job.topic, Window(f.partition, f.first, f.last + 1)) for f in files]
    with watched(spark, progress, f"proving {job.topic}", sum(r.size for r in ranges)) as report:

        def work(number: int) -> Iterable[Any]:
            faults, size = prove_file(job, files[number], ranges[number])
            report(ranges[number].size, size)
            return faults

        faults = run_tasks(spark, len(files), work)
    tps = [TopicPartition(job.topic, p) for p in sorted(job.partitions)]
    starts, ends = lookup.earliest(tps), lookup.latest(tps, committed=True)
    for tp in tps:
        entry = job.partitions[tp.partition][0]
        if (starts[tp], ends[tp]) != (entry.log_start, entry.end):
            faults.append(
                f"{tp} has offsets {starts[tp]} to {ends[tp]}, not {entry.log_start} to {entry.end}"
            )
    if faults:
        raise KlammError(f"{job.topic} is not what was archived: {'; '.join(faults[:5])}")


def _commit(lookup: Lookup, topic: str, manifest: Manifest) -> tuple[dict[str, int], list[str]]:
    """Groups have committed what they had committed."""
    read_part(manifest, manifest.groups)
    by_group: dict[str, dict[TopicPartition, Committed]] = {}
    for row in read_groups(below(manifest.path, manifest.groups.path)):
        if str(row["partition"]) in manifest.partitions:
            place = TopicPartition(topic, row["partition"])
            known = Committed(row["offset"], row["leader_epoch"], row["metadata"] or "")
            by_group.setdefault(row["group"], {})[place] = known
    done, notes = {}, []
    for group, offsets in sorted(by_group.items()):
        try:
            lookup.commit(group, offsets)
            done[group] = len(offsets)
        except Answered as fault:
            if fault.is_retriable:
                raise  # it is not whole yet: the same restore can go on when brokers are well
            notes.append(f"group {group} was not restored: {fault}")
    return done, notes


def summary(restored: ExactlyRestored) -> dict[str, Any]:
    """The report as plain values."""
    return asdict(restored)
