"""Follows a topic: reads what is new, writes it, commits it with its offsets; again and again.

One round is a micro-batch. The driver asks the table how far it is and the brokers how far the
topic is; tasks write files; one commit makes them part of the table and says how far it is now. A
process that dies anywhere leaves files that nothing names, and the next one reads the same offsets
again. There is no checkpoint beside the table, so there is none to lose.

Small rounds are done by this process, large ones by Spark's tasks, with the same code.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered, Unreachable
from klamm.client.metadata import View
from klamm.client.registry.schemas import SchemaPlace
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.jobs.progress import Progress, Silent, watched
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.session.session import refuse_speculation
from klamm.pipelines.source.ranges import Range, plan_splits, share_limit
from klamm.pipelines.source.selection import bytes_per_offset, ids_of, no_topic, ranges_of
from klamm.pipelines.tables.choices import OnLoss, OnRecreated
from klamm.pipelines.tables.cleaning import discard, settle
from klamm.pipelines.tables.compacting import compact, is_due
from klamm.pipelines.tables.ddl import Columns, text_of, type_of
from klamm.pipelines.tables.decoding import AVRO, JSON, RAW, RAW_COLUMNS, is_json
from klamm.pipelines.tables.fitting import merged
from klamm.pipelines.tables.planning import TopicNow, go_on, lag_of
from klamm.pipelines.tables.state import Conflict, DataFile, Follow, Snapshot, Table
from klamm.pipelines.tables.task import FollowJob, follow_range, read_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASK_RECORDS: Final = 500_000
_TASK_BYTES: Final = 64 << 20
_FIRST_RECORDS: Final = 10_000  # of the first round of a table that has no columns yet
_SAMPLE: Final = 200
_CONFLICTS_MAX: Final = 10
_FORGET_EVERY: Final = 100  # versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The way a topic is to be followed. What a table has pinned already is held against it."""

    values: str | None = None  # None: as the table says, or as the first records look
    columns: Columns | None = None
    adding: bool | None = None
    by_day: bool = True
    latest: bool = False
    records_max: int = 5_000_000
    compacting: bool = True
    keep_s: float = 24 * 3600  # how long older versions can be read
    on_loss: OnLoss = OnLoss.REFUSE
    on_recreated: OnRecreated = OnRecreated.REFUSE
    schemas: SchemaPlace = field(default_factory=SchemaPlace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of one round."""

    version: int
    records: int
    bad: int
    files: int
    added: Sequence[str]  # columns
    lag: int
    seconds: float
    notes: Sequence[str] = ()
    compacted: int = 0  # files that became fewer ones


@dataclass(kw_only=True)
class TableFollower:
    """One table and its topic."""

    spark: SparkSession
    connection: ConnectionOptions
    topic: str
    table: Table
    wishes: Wishes
    progress: Progress = field(default_factory=Silent)

    def __post_init__(self) -> None:
        self._lookup = Lookup(self.connection)
        self._seen: Snapshot | None = None

    @property
    def state(self) -> Follow | None:
        """The state of the table when it was last looked at."""
        return self._seen.state if self._seen else None

    def begin(self) -> Snapshot | None:
        """Looks at the table, and at what was wished against what it has pinned."""
        self._seen = seen = self.table.load()
        if seen is not None:
            self.table.recover(seen)  # before anything is committed after it
            self._check(seen)
        return self._seen

    def caught_up(self) -> Iterator[Round]:
        """Rounds until all is in the table that is in the topic now."""
        target: Mapping[int, int] | None = None
        while True:
            now, view = self._now()
            if target is None:
                target = now.ends
            done = self._round(now, view, target)
            if done is None:
                return
            yield done

    def round(self) -> Round | None:
        """One round; None where nothing is new."""
        now, view = self._now()
        return self._round(now, view, now.ends)

    def lag(self) -> int:
        """The number of offsets that the table is behind."""
        if self._seen is None:
            return 0
        return sum(lag_of(self._seen.state, self._now()[0]).values())

    def _now(self) -> tuple[TopicNow, View]:
        return topic_now(self._lookup, self.topic)

    def _round(self, now: TopicNow, view: View, target: Mapping[int, int]) -> Round | None:
        began = time.monotonic()
        for _ in range(_CONFLICTS_MAX):
            seen = self._seen or self._created(now, view)
            if seen is None:
                return None
            try:
                return self._tried(seen, now, view, target, began)
            except Conflict:
                # Somebody else writes to the same table: what he has committed is not read again.
                self._seen = self.table.load()
        raise KlammError(
            f"somebody else writes to {self.table.place} all the time: follow it once only"
        )

    def _tried(
        self,
        seen: Snapshot,
        now: TopicNow,
        view: View,
        target: Mapping[int, int],
        began: float,
    ) -> Round | None:
        plan = go_on(seen.state, now, self.wishes.on_loss, self.wishes.on_recreated)
        state, notes = plan.state, list(plan.notes)
        begin = {TopicPartition(self.topic, p): o for p, o in state.offsets.items()}
        ends = {
            TopicPartition(self.topic, p): max(min(end, target.get(p, end)), state.offsets[p])
            for p, end in now.ends.items()
        }
        first = not seen.columns and state.values != RAW
        limit = min(_FIRST_RECORDS, self.wishes.records_max) if first else self.wishes.records_max
        ends = share_limit(begin, ends, limit)
        ranges = self._ranges(view, begin, ends, now)
        if not ranges and state == seen.state and not notes:
            return None
        columns, files, counts = self._written(seen, state, ranges)
        after = state.after({tp.partition: o for tp, o in ends.items()}, counts)
        try:
            self._seen = self.table.commit(seen, after, columns, files)
        except Conflict:
            if (ours := settle(self.table, files)) is None:
                raise
            self._seen = ours
        compacted = self._compacted()
        version = self._seen.version
        self._forget(seen)
        return Round(
            version=version,
            records=counts["records"],
            bad=counts["bad"],
            files=len(files),
            added=[name for name in columns if name not in seen.columns],
            lag=sum(lag_of(after, now).values()),
            seconds=time.monotonic() - began,
            notes=notes,
            compacted=compacted,
        )

    def _ranges(
        self,
        view: View,
        begin: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        now: TopicNow,
    ) -> list[Range]:
        """Pieces that a task can hold in memory."""
        ranges = ranges_of(view, ids_of(view), begin, ends)
        rates = None
        if sum(r.size for r in ranges) > _FIRST_RECORDS:
            try:
                earliest = {TopicPartition(self.topic, p): o for p, o in now.earliest.items()}
                latest = {TopicPartition(self.topic, p): o for p, o in now.ends.items()}
                rates = bytes_per_offset(self._lookup, earliest, latest)
            except (Answered, Unreachable):
                rates = None  # not everybody may look at log directories
        splits = plan_splits(
            ranges, records_max=_TASK_RECORDS, bytes_max=_TASK_BYTES, bytes_per_offset=rates
        )
        return [r for split in splits for r in split]

    def _written(
        self, seen: Snapshot, state: Follow, ranges: Sequence[Range]
    ) -> tuple[Columns, list[DataFile], dict[str, int]]:
        """Files of these ranges. With late columns they are read again, for all of the columns."""
        columns = dict(seen.columns)
        answers = self._run(state, columns, ranges)
        if state.adding and (late := _late_of(answers)):
            self._discard(answers)
            columns |= late
            answers = self._run(state, columns, ranges)
            if _late_of(answers):
                raise KlammError(f"{self.topic} changes while it is read: run it again")
        counts = {
            name: sum(answer["counts"][name] for answer in answers)
            for name in ("records", "bad", "ignored")
        }
        return columns, _files_of(answers), counts

    def _run(self, state: Follow, columns: Columns, ranges: Sequence[Range]) -> list[Any]:
        job = FollowJob(
            connection=self.connection,
            directory=str(self.table.place),
            drafts=self.table.drafts,
            format=self.table.format,
            values=state.values,
            columns=[(name, text_of(kind)) for name, kind in columns.items()],
            adding=state.adding,
            by_day=state.by_day,
            schemas=self.wishes.schemas,
            ranges=ranges,
        )
        total = sum(r.size for r in ranges)
        with watched(self.spark, self.progress, f"following {self.topic}", total) as report:

            def work(number: int) -> Iterable[Any]:
                answer = follow_range(job, ranges[number])
                report(ranges[number].size, answer["bytes"])
                return [answer]

            return run_tasks(self.spark, len(ranges), work)

    def _discard(self, answers: Sequence[Any]) -> None:
        discard(self.table, _files_of(answers))

    def _compacted(self) -> int:
        if not self.wishes.compacting or self._seen is None or not is_due(self._seen):
            return 0
        before = len(self._seen.files)
        try:
            self._seen = compact(self.spark, self.table, self._seen, self.progress)
        except Conflict:
            self._seen = self.table.load()
            return 0
        return before - len(self._seen.files)

    def _forget(self, before: Snapshot) -> None:
        """Now and then: a history that only grows makes each commit dearer."""
        assert self._seen is not None
        if self._seen.version // _FORGET_EVERY == before.version // _FORGET_EVERY:
            return
        with suppress(Conflict):
            self.table.forget(self.wishes.keep_s)
        self._seen = self.table.load()

    # The first time.

    def _created(self, now: TopicNow, view: View) -> Snapshot | None:
        """Makes the table. Who did not say how values look waits for the first of them."""
        refuse_speculation(self.spark)
        wishes = self.wishes
        values = wishes.values or (JSON if wishes.columns else None)
        if values is None:
            sample = self._sample(now, view)
            if not sample:
                return None
            values = JSON if is_json(sample) else RAW
        columns = RAW_COLUMNS if values == RAW else dict(wishes.columns or {})
        adding = values != RAW and (
            wishes.columns is None if wishes.adding is None else wishes.adding
        )
        state = Follow(
            topic=self.topic,
            topic_id=now.topic_id,
            cluster=now.cluster,
            values=values,
            adding=adding,
            by_day=wishes.by_day,
            offsets=dict(now.ends if wishes.latest else now.earliest),
        )
        self._seen = self.table.create(state, columns)
        return self._seen

    def _sample(self, now: TopicNow, view: View) -> list[bytes | None]:
        """The first values of every partition."""
        begin = {TopicPartition(self.topic, p): o for p, o in now.earliest.items()}
        ends = {tp: min(at + _SAMPLE, now.ends[tp.partition]) for tp, at in begin.items()}
        found: list[bytes | None] = []
        for wanted in ranges_of(view, ids_of(view), begin, ends):
            for frame in read_range(self.connection, wanted):
                found += frame.column("value").to_pylist()
        return found

    def _check(self, seen: Snapshot) -> None:
        """Refuses flags that would change what a table has pinned."""
        state, wishes, place = seen.state, self.wishes, self.table.place
        if state.topic != self.topic:
            raise UsageError(f"{place} follows {state.topic}, not {self.topic}: name another one")
        if wishes.values is not None and wishes.values != state.values:
            raise UsageError(
                f"{place} was made with --values {state.values}, not {wishes.values}: leave the "
                "flag out, or name another directory"
            )
        if state.values == AVRO and not (wishes.schemas.url or wishes.schemas.directory):
            raise UsageError(f"{place} has Avro values: say --registry URL or --schemas DIR")
        if wishes.columns:
            self._check_columns(seen, wishes.columns)

    def _check_columns(self, seen: Snapshot, columns: Columns) -> None:
        for name, kind in columns.items():
            if name in seen.columns and seen.columns[name] != kind:
                raise UsageError(
                    f"{self.table.place} has {name} as {text_of(seen.columns[name])}, not "
                    f"{text_of(kind)}: the types of a table's columns do not change"
                )
        late = {name: kind for name, kind in columns.items() if name not in seen.columns}
        if late:
            # A schema with more columns than the table has: they are added before any record.
            self._seen = self.table.commit(seen, seen.state, {**seen.columns, **late}, [])


def _files_of(answers: Sequence[Any]) -> list[DataFile]:
    return [DataFile(**file) for answer in answers for file in answer["files"]]


def _late_of(answers: Sequence[Any]) -> dict[str, Any]:
    """The columns that tasks have met and the table has not, each of a type that fits them all."""
    found: dict[str, Any] = {}
    for answer in answers:
        for name, text in answer["late"].items():
            found[name] = merged(found.get(name), type_of(text))
    return found


def topic_now(lookup: Lookup, topic: str) -> tuple[TopicNow, View]:
    """The topic as the cluster has it. Open transactions end it early: they may vanish."""
    view = lookup.view([topic])
    found = view.topics.get(topic)
    if found is None:
        raise no_topic(lookup, [topic])
    tps = found.partitions
    now = TopicNow(
        topic_id=ids_of(view).get(topic, ""),
        cluster=view.cluster_id,
        earliest={tp.partition: o for tp, o in lookup.earliest(tps).items()},
        ends={tp.partition: o for tp, o in lookup.latest(tps, committed=True).items()},
    )
    return now, view
