"""`klamm repartition`: give a topic more or fewer partitions, with the order of every key kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    BootstrapOption,
    MasterOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import print_json, say
from klamm.cli.parsing.declared import Option
from klamm.cli.reach import Reach, reach_of
from klamm.cli.spark.jobs import (
    DEFAULT_PATIENCE,
    PatienceOption,
    connection,
    job,
    look_first,
    make_directory,
    need_spark,
    plain,
    size_text,
    watcher,
)
from klamm.cli.times import clock_of

if TYPE_CHECKING:
    from klamm.pipelines.repartition.repartition import RepartitionReport
    from klamm.pipelines.repartition.steps import TopicCluster
    from klamm.pipelines.repartition.survey import SampleSurvey

_change = new_app("Give a topic another number of partitions.")
_care = new_app("Take a re-partitioning back.", is_group=True)
_GROUPS_WAIT_S: Final = 60.0
_KEPT_DAYS: Final = 7.0
_DAYS_MAX: Final = 36_500.0
_DAY_S: Final = 86_400

JournalOption = Annotated[
    Path,
    Option("--to", metavar="DIR", help="the directory of journals, offset maps and reports"),
]
GroupsOption = Annotated[
    float,
    Option(
        "--wait-for-groups",
        metavar="SECONDS",
        min=0,
        help="how long to wait until consumers of the topic are stopped",
    ),
]


@_change.command()
def repartition(
    topic: str,
    partitions: Annotated[int, Option("--partitions", min=1, help="the new number")],
    to: JournalOption,
    dry_run: Annotated[
        bool, Option("--dry-run", help="say what is to be expected, and do nothing")
    ] = False,
    wait_for_groups: GroupsOption = _GROUPS_WAIT_S,
    keep: Annotated[
        float,
        Option(
            metavar="DAYS",
            min=0,
            max=_DAYS_MAX,
            help="how long the old topic is kept for an undo; 0: until you delete it",
        ),
    ] = _KEPT_DAYS,
    output: OutputOption = Output.TEXT,
    patience: PatienceOption = DEFAULT_PATIENCE,
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give a topic more or fewer partitions: `klamm repartition TOPIC --partitions N --to DIR`; or
    take that back: `undo TOPIC --to DIR`. The order of every key is kept, and proven. Producers
    wait for a moment; consumers are to be stopped for it. An interrupted run goes on.

    Example: klamm repartition orders --partitions 6 --to repartition
    """
    need_spark(master)
    cluster = _cluster(bootstrap_server, patience)
    look_first(cluster.lookup.options, topic)
    make_directory(to)
    from klamm.pipelines.repartition import steps
    from klamm.pipelines.repartition.repartition import Repartitioning, summary

    if dry_run:
        steps.check(cluster, cluster.topic(topic), partitions)
    with job(master, f"repartition {topic}") as spark:
        work = Repartitioning(
            spark,
            cluster,
            topic,
            partitions,
            to,
            wait_for_groups,
            watcher(output),
            keep * _DAY_S,
        )
        if dry_run:
            _tell_survey(work.dry_run(), output)
            return
        done = work.run()
    if output is Output.JSON:
        print_json(plain(summary(done)))
    else:
        say(*_told(done))


@_care.command()
def undo(
    topic: str,
    to: JournalOption,
    wait_for_groups: GroupsOption = _GROUPS_WAIT_S,
    output: OutputOption = Output.TEXT,
    patience: PatienceOption = DEFAULT_PATIENCE,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give a topic the partitions back that it had, as long as the old topic is kept.

    Example: klamm repartition undo orders --to /data/repartition
    """
    from klamm.pipelines.repartition.undoing import undo as take_back

    done = take_back(
        _cluster(bootstrap_server, patience), topic, to, group_patience_s=wait_for_groups
    )
    if output is Output.JSON:
        told = {name: getattr(done, name) for name in type(done).__slots__}
        print_json(plain(told))
    elif not done.was_swapped:
        say(f"{done.topic} is as it was; the copy {done.copy} is deleted")
    else:
        say(
            f"{done.topic} is what it was before; {done.written_since:,} records that were written "
            f"since are in {done.copy} alone"
        )


def _cluster(bootstrap: Reach | str, patience_s: float) -> TopicCluster:
    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.repartition.steps import TopicCluster

    lookup = Lookup(connection(bootstrap, patience_s=patience_s))
    return TopicCluster(lookup, reach_of(bootstrap).settings)


def _tell_survey(found: SampleSurvey, output: Output) -> None:
    if output is Output.JSON:
        told = {name: getattr(found, name) for name in type(found).__slots__}
        print_json(plain({**told, "skew": found.skew}))
        return
    say(f"about {found.records:,} records, {size_text(found.bytes)}, {found.seconds:.0f} s")
    for target, (count, size) in enumerate(
        zip(found.target_records, found.target_bytes, strict=True)
    ):
        say(f"  partition {target}: about {count:,} records, {size_text(size)}")
    say(f"the largest is {found.skew:.2f} times the mean")
    if found.strange:
        say(
            f"{found.strange:,} of {found.sampled:,} sampled records have keys that lead to "
            "another partition: over partitions their order is that of time only"
        )


def _told(done: RepartitionReport) -> Iterator[str]:
    yield (
        f"{done.topic} has {done.targets} partitions: {done.records:,} records in {done.runs} "
        f"runs, {done.seconds:.1f} s, of which producers waited {done.frozen_seconds:.1f} s"
        if done.is_swapped
        else f"{done.kept_as} has {done.targets} partitions and all {done.records:,} records of "
        f"{done.topic}"
    )
    yield "proven: every record is there once, and 0 come after a later one of their key"
    if done.strange:
        yield (
            f"{done.strange:,} records had keys that lead to another partition: over partitions "
            "their order is that of time only"
        )
    for group, count in done.again.items():
        before, after = len(done.groups_before[group]), len(done.groups_after[group])
        yield (
            f"group {group} goes on where it stopped: offsets of {before} partitions before, of "
            f"{after} now; it sees {count:,} records again"
        )
    if done.is_swapped:
        until = done.kept_until_ms
        told = "you delete it" if until is None else f"{clock_of(until)}, and then deleted"
        yield f"the old topic is kept as {done.kept_as} until {told}"
    yield f"offset map: {done.offset_map}"
    yield from done.commands


def app(*, args: Sequence[str], prog_name: str) -> None:
    """`klamm repartition undo TOPIC`, or else `klamm repartition TOPIC --partitions N`."""
    chosen = _care if args and args[0] == "undo" else _change
    chosen(args=args, prog_name=prog_name)
