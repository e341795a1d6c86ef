"""Consumer groups of a topic that gets other partitions: who they are, and where they go on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered
from klamm.client.requests import Committed
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.repartition.journal import RepartitionJournal
from klamm.pipelines.repartition.maps import origins_of, translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAUSE_S: Final = 0.5

Commits = dict[str, dict[int, int]]  # of each group, by partition


def commits_of(lookup: Lookup, topic: str) -> Commits:
    """The offsets that groups have committed for a topic."""
    found: Commits = {}
    there = set(lookup.view([topic]).topics[topic].partitions)
    for group in lookup.groups():
        known = lookup.committed(group).items()
        own = {tp.partition: c.offset for tp, c in known if tp in there}
        if own:
            found[group] = own
    return found


def wait_until_idle(lookup: Lookup, topic: str, patience_s: float) -> Commits:
    """Waits until no group of a topic has members, which would commit what they know of it.

    Whether it has is seen by committing what it has committed: that is refused while it has.
    """
    deadline = time.monotonic() + patience_s
    while True:
        found = commits_of(lookup, topic)
        busy = [group for group, own in found.items() if not _is_idle(lookup, topic, group, own)]
        if not busy:
            return found
        if time.monotonic() > deadline:
            raise KlammError(
                f"consumers of {', '.join(sorted(busy))} read {topic}: stop them, and run this "
                "again; it goes on where it is"
            )
        time.sleep(_PAUSE_S)


def _is_idle(lookup: Lookup, topic: str, group: str, own: Mapping[int, int]) -> bool:
    try:
        commit(lookup, topic, group, own)
    except Answered as fault:
        if fault.is_retriable:
            raise
        return False
    return True


def commit(lookup: Lookup, topic: str, group: str, offsets: Mapping[int, int]) -> None:
    """Commits for a group without members."""
    lookup.commit(group, {TopicPartition(topic, p): Committed(o) for p, o in offsets.items()})


def translate(
    spark: SparkSession, journal: RepartitionJournal, before: Commits
) -> tuple[Commits, dict[str, int]]:
    """The offsets of each group in the targets, and the number of records it will see again."""
    names = sorted(before)
    maps, runs, sources = str(journal.maps), range(len(journal.runs)), journal.sources

    def work(target: int) -> Iterable[Any]:
        origins = origins_of(maps, runs, target)
        return [[target, [translated(origins, before[name], sources) for name in names]]]

    after: Commits = {name: {} for name in names}
    again = dict.fromkeys(names, 0)
    for target, found in run_tasks(spark, journal.targets, work) if names else ():
        for name, (offset, repeated) in zip(names, found, strict=True):
            after[name][target] = offset
            again[name] += repeated
    return after, again
