"""Re-partitioning a topic: grow or shrink it, with the order of every key kept, and with proof.

The records are copied to a topic of its own, in runs: all there are, then what came meanwhile,
until little is left. Then the topic is frozen for a moment, the rest is copied, everything is read
again and compared, the controller exchanges the names of both topics in one write, groups get the
offsets that correspond to theirs, and clients write on. The old topic is kept under the name of the
copy, so that it can be undone.

Each step is written down before it is taken and may be taken twice, so that whoever begins again
after a kill goes on where it stopped. On a Kafka that is not klamm's everything is done but the
exchange; what is left to do is printed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive.files import window_frames
from klamm.pipelines.archive.restore_partition import visible
from klamm.pipelines.jobs.progress import Progress, Silent, watched
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.jobs.writing import write_whole
from klamm.pipelines.repartition import groups as group_steps
from klamm.pipelines.repartition import journal as journals
from klamm.pipelines.repartition import steps
from klamm.pipelines.repartition.chunks import Cutting
from klamm.pipelines.repartition.copying import Run, copy
from klamm.pipelines.repartition.groups import Commits
from klamm.pipelines.repartition.journal import RepartitionJournal, RunEntry, Stage
from klamm.pipelines.repartition.maps import origins_of, run_directory
from klamm.pipelines.repartition.plan import (
    Reshaping,
    StrangeKey,
    Way,
    fitting_window,
    stretches,
    way_of,
)
from klamm.pipelines.repartition.proof import Sums, faults_of, sums_of_source, sums_of_target
from klamm.pipelines.repartition.steps import TopicCluster
from klamm.pipelines.repartition.survey import SampleSurvey, survey
from klamm.pipelines.repartition.writing import Destination
from klamm.pipelines.session.lazily import announce, is_remote, is_small
from klamm.pipelines.session.session import refuse_speculation
from klamm.pipelines.source.ranges import Range
from klamm.pipelines.source.selection import bytes_per_offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAG_MAX: Final = 20_000  # offsets that may be left for the time when nobody can write
_RUNS_MAX: Final = 8
_PROOF_WINDOW: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RepartitionReport:
    """The result of a re-partitioning, and its proof."""

    topic: str
    targets: int
    kept_as: str  # the old topic; on another Kafka the new one
    is_swapped: bool
    way: str
    records: int
    target_records: Sequence[int]
    runs: int
    strange: int  # records whose keys were in another partition than their hashes lead to
    violations: int
    faults: Sequence[str]
    groups_before: Commits
    groups_after: Commits
    again: Mapping[str, int]  # records that a group will see a second time
    frozen_seconds: float
    seconds: float
    offset_map: str
    kept_until_ms: int | None = None  # when the old topic goes; None: never by itself
    commands: Sequence[str] = ()


@dataclass(slots=True)
class Repartitioning:
    """One topic on its way to another number of partitions."""

    spark: SparkSession
    cluster: TopicCluster
    topic: str
    targets: int
    root: Path
    group_patience_s: float = 60.0
    progress: Progress = field(default_factory=Silent)
    keep_s: float = 0.0  # how long the old topic is kept; 0: for good

    def dry_run(self) -> SampleSurvey:
        """Tells from samples what is to be expected."""
        topic = self.cluster.topic(self.topic)
        steps.check(self.cluster, topic, self.targets)
        return self._survey(self.cluster.ranges(topic))

    def run(self) -> RepartitionReport:
        """Does all of it, or what an earlier run has left to do."""
        refuse_speculation(self.spark)
        began = time.monotonic()
        place = journals.place_of(self.root, self.cluster.lookup.view([]).cluster_id, self.topic)
        with journals.alone(place):
            journal = self._open(place)
            try:
                self._copy(journal)
            except Exception as fault:
                is_strange = isinstance(fault, StrangeKey) or StrangeKey.__name__ in str(fault)
                if not is_strange or journal.way == Way.SHUFFLE:
                    raise
                # Some key is not where its hash leads, which the samples did not show.
                self._begin_anew(journal)
                self._copy(journal)
            if not self.cluster.is_klamm:
                return self._leave_to_others(journal, began)
            return self._cut_over(journal, began)

    # Beginning

    def _open(self, place: Path) -> RepartitionJournal:
        found = journals.read(place / journals.JOURNAL)
        if found is not None and found.stage in (Stage.COMPLETE, Stage.UNDONE):
            done = place / f"{journals.JOURNAL}.{found.topic_id}"
            found.path.rename(done)
            found = None
        if found is None:
            return self._begin(place)
        if found.targets != self.targets:
            raise UsageError(
                f"{self.topic} is on its way to {found.targets} partitions: end that first, or "
                f"`klamm repartition undo {self.topic}`"
            )
        if found.stage is not Stage.SWAPPED and self.cluster.topic(self.topic).id != found.topic_id:
            raise UsageError(
                f"{self.topic} is another topic than the one that {found.path} is about: `klamm "
                f"repartition undo {self.topic}` removes what was copied of that one"
            )
        if found.stage is Stage.BEGUN:
            self._make_copy(found)
        return found

    def _begin(self, place: Path) -> RepartitionJournal:
        cluster = self.cluster
        topic = cluster.topic(self.topic)
        steps.check(self.cluster, topic, self.targets)
        ranges = cluster.ranges(topic)
        sources = len(topic.leaders)
        seen = self._survey(ranges)
        rates = bytes_per_offset(
            cluster.lookup,
            {tp: ranges[tp.partition].start for tp in topic.partitions},
            {tp: ranges[tp.partition].stop for tp in topic.partitions},
        )
        journal = RepartitionJournal(
            topic=self.topic,
            topic_id=topic.id,
            copy=steps.copy_name(self.topic, self.targets),
            copy_id="",
            sources=sources,
            targets=self.targets,
            way=way_of(sources, self.targets, is_orderly=not seen.strange),
            window=fitting_window(max(rates.values(), default=0.0)),
            was_frozen=cluster.is_klamm and cluster.is_frozen(self.topic),
            path=place / journals.JOURNAL,
        )
        if journal.copy in cluster.lookup.view([journal.copy]).topics:
            raise UsageError(
                f"there is a topic {journal.copy}: it is kept for an undo, or is being filled from "
                f"another --to. If neither: `klamm topics delete {journal.copy}`"
            )
        journal.write()
        self._make_copy(journal)
        return journal

    def _survey(self, ranges: Mapping[int, Range]) -> SampleSurvey:
        announce(self.spark, sum(r.size for r in ranges.values()))
        options, cores = self.cluster.lookup.options, _cores(self.spark)
        return survey(self.spark, options, ranges, self.targets, cores=cores)

    def _make_copy(self, journal: RepartitionJournal) -> None:
        """Makes the copy anew; one that is there is ours, and nothing of it was written down."""
        cluster = self.cluster
        if journal.copy in cluster.lookup.view([journal.copy]).topics:
            cluster.lookup.delete(journal.copy)
        journal.copy_id = steps.make_copy(
            cluster,
            cluster.topic(self.topic),
            journal.copy,
            self.targets,
            imports=cluster.is_klamm,
        )
        journal.stage, journal.runs, journal.is_spoilt = Stage.COPYING, [], False
        journal.write()

    def _begin_anew(self, journal: RepartitionJournal) -> None:
        journal.way, journal.stage = Way.SHUFFLE, Stage.BEGUN
        journal.write()
        self._make_copy(journal)

    # Copying

    def _copy(self, journal: RepartitionJournal) -> None:
        """Copies until little is left, or all of it where the topic is closed already."""
        for _ in range(_RUNS_MAX):
            # At least once, however often it was begun: elsewhere this run may be the last.
            if journal.stage is not Stage.COPYING or self._run_once(journal) <= _LAG_MAX:
                return

    def _run_once(self, journal: RepartitionJournal) -> int:
        """One run up to where the topic ends now; how much has come meanwhile."""
        cluster = self.cluster
        topic = cluster.topic(self.topic)
        ranges = cluster.ranges(topic)
        if len(ranges) != journal.sources:
            raise KlammError(
                f"{self.topic} has grown to {len(ranges)} partitions meanwhile: "
                f"`klamm repartition undo {self.topic}`, and begin anew"
            )
        entry = self._next_run(journal, ranges)
        number = len(journal.runs) - 1
        run = Run(
            cutting=Cutting(
                connection=cluster.lookup.options,
                ranges=ranges,
                shape=Reshaping(journal.sources, journal.targets, Way(journal.way)),
            ),
            destination=Destination(
                connection=cluster.lookup.options,
                topic=journal.copy,
                topic_id=journal.copy_id,
                takes_offsets=cluster.is_klamm,
            ),
            stretches=stretches(entry.starts, entry.ends, journal.window, entry.borders),
            bases=journal.bases,
            map_directory=str(run_directory(journal.maps, number)),
        )
        what = f"copying {self.topic}" + (f", run {number + 1}" if number else "")
        if entry.counts is None:
            entry.counts = copy(self.spark, run, self.progress, what)
            journal.write()
        entry.proof = self._prove(journal, number)
        journal.write()
        ends = cluster.lookup.latest(topic.partitions, committed=True)
        return sum(max(end - entry.ends[tp.partition], 0) for tp, end in ends.items())

    def _next_run(self, journal: RepartitionJournal, ranges: Mapping[int, Range]) -> RunEntry:
        """The run that was not completed, or a new one to where the topic ends now."""
        last = journal.runs[-1] if journal.runs else None
        if last is not None and last.proof is None:
            return last
        starts = {p: r.start for p, r in ranges.items()} if last is None else last.ends
        for source, start in starts.items():
            if ranges[source].start > start:
                raise KlammError(
                    f"{self.topic}-{source} begins at {ranges[source].start} by now, and {start} "
                    "was to be copied next: its retention is too short"
                )
        ends = {p: max(r.stop, starts[p]) for p, r in ranges.items()}
        parts = {p: replace(r, start=starts[p], stop=ends[p]) for p, r in ranges.items()}
        entry = RunEntry(dict(starts), ends, self.cluster.borders(parts, journal.window))
        journal.runs.append(entry)
        journal.write()
        return entry

    # Cutting over

    def _cut_over(self, journal: RepartitionJournal, began: float) -> RepartitionReport:
        cluster = self.cluster
        report: RepartitionReport | None = None
        if journal.stage in (Stage.COPYING, Stage.CLOSING):
            journal.groups = group_steps.wait_until_idle(
                cluster.lookup, self.topic, self.group_patience_s
            )
            journal.stage = Stage.CLOSING
            journal.frozen_since_ms = journal.frozen_since_ms or _now_ms()
            journal.write()
            try:
                cluster.freeze(self.topic)
                report = self._close(journal, began)
            except BaseException:
                self._thaw(journal)
                raise
        if journal.stage is Stage.PROVEN:
            steps.close_copy(cluster, journal.copy)
            journal.stage = Stage.SWAPPED
            journal.write()
        cluster.swap(self.topic, journal.topic_id, journal.copy, journal.copy_id)
        after, again = group_steps.translate(self.spark, journal, journal.groups)
        for group, offsets in after.items():
            group_steps.commit(cluster.lookup, self.topic, group, offsets)
        if not journal.was_frozen:
            cluster.unfreeze(self.topic)
        if self.keep_s:
            journal.kept_until_ms = _now_ms() + int(self.keep_s * 1000)
            cluster.keep(journal.copy, journal.kept_until_ms)
        journal.stage = Stage.COMPLETE
        journal.write()
        frozen_s = (_now_ms() - journal.frozen_since_ms) / 1000
        report = report or self._read_report(journal)
        report = replace(
            report,
            is_swapped=True,
            groups_after=after,
            again=again,
            kept_until_ms=journal.kept_until_ms,
            frozen_seconds=frozen_s,
            seconds=time.monotonic() - began,
        )
        _write_report(journal, report)
        return report

    def _close(self, journal: RepartitionJournal, began: float) -> RepartitionReport:
        """Copies the rest of a frozen topic, and proves all of it."""
        cluster = self.cluster
        steps.refuse_open_transactions(cluster.lookup, cluster.topic(self.topic))
        if self._run_once(journal):
            raise KlammError(f"somebody writes to {self.topic} although it is frozen")
        journal.groups = group_steps.wait_until_idle(cluster.lookup, self.topic, 0)
        report = self._report(journal, began)
        _write_report(journal, report)
        if report.faults:
            journal.is_spoilt = True
            raise KlammError(
                f"the copy is not what {self.topic} is, and nothing was exchanged: "
                f"{'; '.join(report.faults[:5])}; see {journal.path.parent / 'report.json'}"
            )
        journal.stage = Stage.PROVEN
        journal.write()
        return report

    def _thaw(self, journal: RepartitionJournal) -> None:
        """Lets clients write again. A copy that is not what it should be is made anew."""
        if not journal.was_frozen:
            self.cluster.unfreeze(self.topic)
        journal.frozen_since_ms = 0
        journal.stage = Stage.BEGUN if journal.is_spoilt else Stage.COPYING
        journal.write()

    # Proof

    def _prove(self, journal: RepartitionJournal, number: int) -> list[Any]:
        """Reads what a run has copied again, on both sides, and sums it up."""
        entry, targets, sources = journal.runs[number], journal.targets, journal.sources
        old = self.cluster.ranges(self.cluster.topic(self.topic))
        new = self.cluster.ranges(self.cluster.topic(journal.copy))
        bases, ends = journal.bases_of(number), journal.bases_of(number + 1)
        parts = [
            replace(old[p], start=at, stop=min(at + _PROOF_WINDOW, entry.ends[p]))
            for p in sorted(old)
            for at in range(entry.starts[p], entry.ends[p], _PROOF_WINDOW)
        ]
        whole = [
            replace(new[p], start=bases[p], stop=ends[p]) for p in sorted(new) if ends[p] > bases[p]
        ]
        maps, connection = str(journal.maps), self.cluster.lookup.options
        total = sum(r.size for r in parts) + sum(r.size for r in whole)
        with watched(self.spark, self.progress, f"proving {journal.copy}", total) as report:

            def work(number_of_part: int) -> Iterable[Any]:
                is_old = number_of_part < len(parts)
                part = parts[number_of_part] if is_old else whole[number_of_part - len(parts)]
                frames = map(visible, window_frames(connection, part))
                if is_old:
                    found = sums_of_source(frames, part.partition, sources)
                else:
                    runs, base = range(number, number + 1), part.start
                    origins = origins_of(maps, runs, part.partition, base)
                    found = sums_of_target(frames, part.partition, targets, origins, base)
                report(part.size, 0)
                return [[is_old, found.plain()]]

            answers = run_tasks(self.spark, len(parts) + len(whole), work)
        before, after = Sums(), Sums()
        for is_old, plain in answers:
            (before if is_old else after).add(Sums(*plain))
        return [before.plain(), after.plain()]

    def _report(self, journal: RepartitionJournal, began: float) -> RepartitionReport:
        old, new = Sums(), Sums()
        for run in journal.runs:
            assert run.proof is not None, "every run that ended was proven"
            old.add(Sums(*run.proof[0]))
            new.add(Sums(*run.proof[1]))
        sizes = list(journal.bases.values())
        ends = self.cluster.lookup.latest(self.cluster.topic(journal.copy).partitions)
        new.count += sum(ends.values()) - sum(sizes)  # records that nobody has copied
        return RepartitionReport(
            topic=self.topic,
            targets=self.targets,
            kept_as=journal.copy,
            is_swapped=False,
            way=str(journal.way),
            records=old.count,
            target_records=sizes,
            runs=len(journal.runs),
            strange=old.strange,
            violations=new.violations,
            faults=faults_of(old, new, sizes),
            groups_before=journal.groups,
            groups_after={},
            again={},
            frozen_seconds=0.0,
            seconds=time.monotonic() - began,
            offset_map=str(journal.maps),
        )

    def _read_report(self, journal: RepartitionJournal) -> RepartitionReport:
        found = json.loads((journal.path.parent / "report.json").read_text())
        return RepartitionReport(**found)

    # Elsewhere

    def _leave_to_others(self, journal: RepartitionJournal, began: float) -> RepartitionReport:
        """On another Kafka: all that is there is copied and proven; the rest is for a person."""
        lookup = self.cluster.lookup
        report = self._report(journal, began)
        journal.groups = group_steps.commits_of(lookup, self.topic)
        after, again = group_steps.translate(self.spark, journal, journal.groups)
        if not report.faults:
            for group, offsets in after.items():
                group_steps.commit(lookup, journal.copy, group, offsets)
        report = replace(
            report,
            groups_before=journal.groups,
            groups_after=after,
            again=again,
            seconds=time.monotonic() - began,
            commands=steps.commands(
                lookup.options.servers, self.topic, journal.copy, lookup.configs(self.topic)
            ),
        )
        journal.write()
        _write_report(journal, report)
        if report.faults:
            raise KlammError(
                f"the copy is not what {self.topic} is: {'; '.join(report.faults[:5])}"
            )
        return report


def _write_report(journal: RepartitionJournal, report: RepartitionReport) -> None:
    text = json.dumps(summary(report), indent=1)
    write_whole(journal.path.parent / "report.json", text)


def summary(report: RepartitionReport) -> dict[str, Any]:
    """The report as plain values."""
    return {name: getattr(report, name) for name in RepartitionReport.__slots__}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _cores(spark: SparkSession) -> int:
    if is_small(spark) or is_remote(spark):
        return os.cpu_count() or 1
    return int(spark.sparkContext.defaultParallelism)
