"""Writing exactly once: what tasks prepare in transactions, the driver commits. Without Spark.

Spark may run a task twice and a micro-batch twice. So each task has a transactional id of its own,
made of the query and the task's number: taking it fences an older attempt and aborts what that one
left. A task writes its rows in a transaction and leaves it open. When all tasks are done the driver
adds a marker to each transaction, an offset of a group that belongs to the task, and commits it:
records and marker count together or not at all. A task that finds the marker of its micro-batch
writes nothing.

A task cannot know how many tasks there are, but the driver does when it commits. The marker holds
that plan: the number of tasks and what each has written. The transaction of task 0 is committed
first, so that whenever anything is committed task 0 knows the plan; a replay with another plan is
refused before anything of it is committed, for its rows would be in other tasks.

Readers with `read_committed` see the records of one task together, those of several tasks one after
the other. What a killed driver leaves open is hidden from them, and holds them up, until the query
runs again or the transaction times out.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from klamm.client.blocking.transactions import Holder, Transactions, is_fenced
from klamm.client.errors import Answered, ClientError
from klamm.client.requests import Committed
from klamm.model.errors import ErrorCode, KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.source.options import WriteOptions
from klamm.pipelines.source.sink import TaskReport, write_frames

log = logging.getLogger(__name__)
_PREFIX: Final = "klamm-sink"
_ABORT_PATIENCE_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Turn:
    """One task of one micro-batch of one query; a batch write is micro-batch 0 of its job."""

    query: str
    batch: int
    task: int

    @property
    def name(self) -> str:
        """The transactional id, and the group that the marker belongs to."""
        return f"{_PREFIX}-{self.query}-{self.task}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The way the rows of a micro-batch lie in its tasks, as far as it can be told from outside."""

    tasks: int
    digest: int  # of the number of rows of each

    @classmethod
    def of(cls, rows: Sequence[int]) -> Plan:
        """The plan of tasks with so many rows each."""
        return cls(len(rows), zlib.crc32(",".join(map(str, rows)).encode()))

    def text(self) -> str:
        """The form in which a marker holds it."""
        return f"v1 tasks={self.tasks} rows={self.digest:08x}"

    @classmethod
    def parse(cls, text: str) -> Plan | None:
        """The plan in a marker, or None where somebody else has written it."""
        found = re.fullmatch(r"v1 tasks=(\d{1,9}) rows=([0-9a-f]{8})", text)
        return found and cls(int(found[1]), int(found[2], 16))


@dataclass(frozen=True, slots=True)
class Prepared:
    """The part of a task that is left to the driver."""

    turn: Turn
    rows: int
    holder: Holder | None = None  # None: nothing is left to be committed
    plan: Plan | None = None  # with which this task was committed before
    lacks_marker: bool = False


@dataclass(slots=True)
class _Counted:
    """Frames, and how many rows were in those that have been taken."""

    frames: Iterator[Any]
    rows: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[Any]:
        for frame in self.frames:
            self.rows += frame.num_rows
            yield frame


def prepare(
    options: WriteOptions, frames: Iterable[Any], turn: Turn
) -> tuple[TaskReport, Prepared]:
    """Writes the rows of a task and leaves them to be committed, unless they have been before."""
    rest = iter(frames)
    first = next((frame for frame in rest if frame.num_rows), None)
    if first is None and turn.task > 0:
        return TaskReport({}), Prepared(turn, 0)  # task 0 must be there, to hold the plan
    counted = _Counted(chain([] if first is None else [first], rest))
    transactions = _transactions(options)
    marker = _marker(options)
    if marker.topic not in transactions.view([marker.topic]).topics:
        raise KlammError(f"there is no topic {marker.topic}: create it before writing to it")
    holder = _take(transactions, options, turn)
    # Only now: until a transaction that was being committed is done, nobody can take its id.
    found = transactions.stable_offset(turn.name, marker)
    if found is not None and found.offset > turn.batch:
        return TaskReport({}), _again(counted, turn, found)
    try:
        report = write_frames(options, counted, task=turn.task, holder=holder)
    except BaseException as fault:
        _give_up(options, [holder])
        if isinstance(fault, Exception) and is_fenced(fault):
            raise _fenced(turn) from fault
        raise
    lacks = found is None and turn.batch > 0 and turn.task == 0
    return report, Prepared(turn, counted.rows, holder, lacks_marker=lacks)


def commit(options: WriteOptions, prepared: Iterable[Prepared]) -> None:
    """Commits what tasks have prepared, all of it or, where that is refused, nothing."""
    tasks = sorted(prepared, key=lambda p: p.turn.task)
    if not tasks:
        return
    plan = Plan.of([p.rows for p in tasks])
    for task in tasks:
        if task.plan is not None and task.plan != plan:
            raise _other_plan(task.turn, task.plan, plan, is_batch=_is_batch(options))
    for task in tasks:
        if task.lacks_marker:
            log.warning(_NO_MARKER, task.turn.query, task.turn.batch)
    if _is_batch(options) and any(t.plan for t in tasks) and not any(t.holder for t in tasks):
        log.warning("job %s was written before: nothing is written again", tasks[0].turn.query)
    transactions = _transactions(options)
    for task in tasks:
        if task.holder is not None:
            _commit_one(transactions, _marker(options), task.turn, task.holder, plan)


def abort(options: WriteOptions, prepared: Iterable[Prepared]) -> None:
    """Aborts what tasks have prepared, so that nobody waits for it."""
    _give_up(options, [p.holder for p in prepared if p.holder is not None])


_NO_MARKER: Final = (
    "query %s has no marker, though this is micro-batch %d: it has written at least once so far, "
    "its markers have expired (offsets.retention.minutes), or their topic was created anew. If "
    "this micro-batch was written before, its records are there twice now"
)


def _commit_one(
    transactions: Transactions, marker: TopicPartition, turn: Turn, holder: Holder, plan: Plan
) -> None:
    done = Committed(turn.batch + 1, metadata=plan.text())
    try:
        transactions.add_offsets(holder, turn.name, {marker: done})
        transactions.end(holder, commit=True)
    except Answered as fault:
        if is_fenced(fault):
            raise _fenced(turn) from fault
        raise


def _again(counted: _Counted, turn: Turn, found: Committed) -> Prepared:
    """A task that was committed before: its rows are counted, to see that they are the same."""
    if found.offset > turn.batch + 1:
        raise KlammError(
            f"query {turn.query} has written micro-batch {found.offset - 1} already, and its "
            f"checkpoint begins at {turn.batch}: it was put back, so what comes may be other "
            "records under the old numbers. Start the query with a new checkpoint"
        )
    plan = Plan.parse(found.metadata)
    if plan is None:
        raise KlammError(f"the offset of group {turn.name} is no marker of klamm: delete the group")
    for _ in counted:
        pass
    return Prepared(turn, counted.rows, plan=plan)


def _other_plan(turn: Turn, old: Plan, new: Plan, *, is_batch: bool) -> KlammError:
    what = f"job {turn.query}" if is_batch else f"micro-batch {turn.batch} of query {turn.query}"
    change = "other rows in its tasks"
    if old.tasks != new.tasks:
        change = f"{new.tasks} tasks in place of {old.tasks}"
    other = (
        "give another write another jobId"
        if is_batch
        else "or, where it is gone, run it once with delivery=at-least-once, which writes all again"
    )
    return KlammError(
        f"{what} was partly written before, and now it has {change}: nothing of it is committed. "
        "Run it with the plan it had (the same options, minPartitions and number of shuffle "
        f"partitions, spark.sql.adaptive.enabled=false); {other}"
    )


def _fenced(turn: Turn) -> KlammError:
    return KlammError(
        f"task {turn.task} of {turn.query} was taken over by another attempt, or its transaction "
        "was open for too long (kafka.transaction.timeout.ms)"
    )


def _take(transactions: Transactions, options: WriteOptions, turn: Turn) -> Holder:
    assert options.once is not None, "options say exactly-once"
    timeout_ms = options.once.transaction_timeout_ms
    try:
        return transactions.take(turn.name, timeout_ms)
    except Answered as fault:
        if fault.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise UsageError(
            f"brokers allow no transaction of {timeout_ms} ms: set kafka.transaction.timeout.ms "
            "to what they allow (transaction.max.timeout.ms)"
        ) from None


def _give_up(options: WriteOptions, holders: Iterable[Holder]) -> None:
    """Aborts transactions as far as that is quickly done; what is left times out."""
    transactions = Transactions(options.connection, patience_ms=_ABORT_PATIENCE_MS)
    for holder in holders:
        with suppress(ClientError, Answered):
            transactions.end(holder, commit=False)


def _transactions(options: WriteOptions) -> Transactions:
    return Transactions(options.connection, patience_ms=options.delivery_timeout_ms)


def _marker(options: WriteOptions) -> TopicPartition:
    assert options.once is not None, "options say exactly-once"
    return TopicPartition(options.once.marker_topic, 0)


def _is_batch(options: WriteOptions) -> bool:
    return options.once is not None and options.once.job is not None
