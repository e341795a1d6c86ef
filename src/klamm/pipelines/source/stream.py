"""Decides for a streaming read, without Spark: where it stands and how far it may go.

Spark asks for the first offsets twice and believes the second answer, and it does not keep them: so
they are computed once, kept, and written down before they are told (`initialOffsetsPath`, or the
group's own commits). A topic that was deleted and created again is known by its id. A start past
the end is data loss, never "nothing to do".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered, Unreachable
from klamm.client.metadata import View
from klamm.client.requests import Committed
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.model.offsets import LATEST
from klamm.pipelines.jobs.writing import write_whole
from klamm.pipelines.source.options import ReadOptions, partition_numbers
from klamm.pipelines.source.ranges import (
    DataLost,
    Offsets,
    Split,
    StreamOffsets,
    cut_losses,
    losses,
    plan_splits,
    share_limit,
)
from klamm.pipelines.source.selection import (
    bytes_per_offset,
    ids_of,
    is_there,
    lookup_of,
    partitions_of,
    ranges_of,
    require_topics,
    resolve,
    view_of,
)

log = logging.getLogger(__name__)
_INITIAL: Final = "initial"


class Stream:
    """The state of one running query, in the one process that Spark keeps for it."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._lookup: Lookup = lookup_of(options)
        self._first: StreamOffsets | None = None
        self._target: Offsets | None = None
        self._seen: StreamOffsets | None = None
        self._triggered: float | None = None  # when the last micro-batch was made
        self._view: tuple[float, View] | None = None

    def first(self) -> StreamOffsets:
        """The offsets at which the query begins: the same for its whole life, restarts included."""
        if self._first is None:
            self._first = self._remembered() or self._remember(self._computed())
        return self._first

    def fix_target(self) -> None:
        """From now on nothing newer than this moment is read."""
        self._target = self._ends(self._now())

    def latest(
        self, start: StreamOffsets, limit: int | None, *, at_once: bool = False
    ) -> StreamOffsets:
        """The end of the next micro-batch; `start` itself if there is nothing new."""
        view = self._now()
        ids = ids_of(view)
        there = self._ends(view)
        begin = self._begin(start, ids, there)
        there = self._asked_again(view, begin, there)
        self._seen = StreamOffsets(there, ids)
        lost = self._judge(begin, there, gone=set(begin) - set(there))
        ends = self._within_target(begin, there)
        if ends == begin == start.offsets:
            return start
        fresh = sum(max(ends[tp] - begin.get(tp, 0), 0) for tp in ends)
        if not at_once and not lost and self._waits(fresh):
            return start
        self._triggered = time.monotonic()
        if limit is not None:
            ends = share_limit(begin, ends, limit)
        return StreamOffsets(ends, ids)

    def now(self) -> StreamOffsets:
        """All that is there, where nobody says what is the start: that is judged by the plan."""
        view = self._now()
        before = self._seen.offsets if self._seen else {}
        self._seen = StreamOffsets(self._asked_again(view, before, self._ends(view)), ids_of(view))
        return self._seen

    def plan(self, start: StreamOffsets, end: StreamOffsets) -> list[Split]:
        """The splits of a micro-batch: the same for the same offsets, so that a replay is one."""
        begin = self._begin(start, end.ids, end.offsets)
        view = self._now(fresh=True)
        self._check_ids(end.ids, ids_of(view))
        tps = [tp for tp in end.offsets if is_there(view, tp)]
        earliest = self._lookup.earliest(tps)
        gone = (set(begin) | set(end.offsets)) - set(tps)
        self._judge(begin, end.offsets, earliest, gone=gone)
        ends = {tp: o for tp, o in end.offsets.items() if tp in earliest}
        if not self.options.fail_on_data_loss:
            begin = cut_losses(begin, ends, earliest)
        ranges = ranges_of(view, ids_of(view), begin, ends)
        rates = None
        if self.options.split_bytes_max is not None and ranges:
            rates = bytes_per_offset(self._lookup, earliest, self._lookup.latest(tps))
        return plan_splits(
            ranges,
            records_max=self.options.split_records_max,
            bytes_max=self.options.split_bytes_max,
            splits_min=self.options.splits_min,
            bytes_per_offset=rates,
            group_small=True,
        )

    def seen(self) -> StreamOffsets | None:
        """The newest offsets of the last look-up: for Spark's progress, at no cost."""
        return self._seen

    def commit(self, end: StreamOffsets) -> None:
        """Commits to the group where that was asked for. A failure is told, not raised."""
        if not self.options.commit_offsets:
            return
        try:
            commit_to_group(self._lookup, self.options.group, end.offsets)
        except (Unreachable, Answered) as fault:
            log.warning("offsets were not committed to group %s: %s", self.options.group, fault)

    def _now(self, *, fresh: bool = False) -> View:
        ttl = self.options.metadata_ttl_ms / 1000
        if not fresh and self._view is not None and time.monotonic() - self._view[0] < ttl:
            return self._view[1]
        view = view_of(self.options, self._lookup)
        self._view = (time.monotonic(), view)
        return view

    def _ends(self, view: View) -> dict[TopicPartition, int]:
        tps = partitions_of(self.options, view)
        return self._lookup.latest(tps, committed=self.options.read_committed)

    def _asked_again(
        self, view: View, begin: Offsets, ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Ends that lie before the begin are asked for again: a new leader may know more soon."""
        for _ in range(self.options.retries):
            if not losses(begin, ends, {}):
                break
            time.sleep(self.options.retry_interval_ms / 1000)
            ends = self._ends(view)
        return ends

    def _within_target(self, begin: Offsets, there: Offsets) -> dict[TopicPartition, int]:
        """Ends no later than the target: what is newer waits, new partitions as a whole."""
        ends = {}
        for tp, end in there.items():
            first = begin.get(tp, 0)
            if self._target is None or end < first:
                ends[tp] = end  # before the first: lost, and accepted; it goes on at what is there
            elif tp in self._target or tp in begin:
                ends[tp] = max(min(end, self._target.get(tp, first)), first)
        return ends

    def _computed(self) -> StreamOffsets:
        view = self._now(fresh=True)
        require_topics(self.options, view, self._lookup)
        tps = partitions_of(self.options, view)
        starting = self.options.starting
        self._check_ids(starting.ids, ids_of(view))
        offsets = resolve("startingOffsets", starting, tps, self._lookup)
        return StreamOffsets(offsets, ids_of(view))

    def _remembered(self) -> StreamOffsets | None:
        path = self.options.initial_offsets_path
        if path is not None and Path(path).exists():
            return _kept(Path(path))
        if path is None and self.options.commit_offsets and self.options.group:
            found = self._lookup.committed(self.options.group)
            if found and all(c.metadata == _INITIAL for c in found.values()):
                ids = ids_of(self._now())
                return StreamOffsets({tp: c.offset for tp, c in found.items()}, ids)
        return None

    def _remember(self, first: StreamOffsets) -> StreamOffsets:
        path = self.options.initial_offsets_path
        if path is not None:
            write_whole(Path(path), first.text())
        elif self.options.commit_offsets and self.options.group:
            commits = {tp: Committed(o, metadata=_INITIAL) for tp, o in first.offsets.items()}
            self._lookup.commit(self.options.group, commits)
        elif self.options.starting.word == LATEST and self.options.starting.offsets is None:
            log.warning(
                "startingOffsets=latest without initialOffsetsPath: records that arrive before the "
                "first micro-batch has succeeded are skipped if it fails and the query starts again"
            )
        return first

    def _begin(
        self, start: StreamOffsets, ids: Mapping[str, str], there: Offsets
    ) -> dict[TopicPartition, int]:
        """The start, with topics that were created again beginning at their earliest offset."""
        renewed = {topic for topic, old in start.ids.items() if topic in ids and ids[topic] != old}
        if renewed and self.options.on_topic_recreated != "restart":
            self._check_ids(start.ids, ids)
            renewed = set()
        begin = {tp: o for tp, o in start.offsets.items() if tp.topic not in renewed}
        fresh = [tp for tp in there if tp.topic in renewed]
        return begin | (self._lookup.earliest(fresh) if fresh else {})

    def _check_ids(self, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        if self.options.on_topic_recreated != "fail":
            return
        for topic, topic_id in old.items():
            if topic in new and new[topic] != topic_id:
                raise DataLost(
                    f"topic {topic} was deleted and created again: its offsets mean other records "
                    "now (onTopicRecreated=restart would read the new topic from its start)"
                )

    def _judge(
        self,
        begin: Offsets,
        end: Offsets,
        earliest: Offsets | None = None,
        *,
        gone: set[TopicPartition],
    ) -> bool:
        """Whether something is lost; raises where that may not be."""
        lost = losses(begin, end, earliest or {}, gone=gone)
        if lost and self.options.fail_on_data_loss:
            raise DataLost(
                f"{'; '.join(lost)} (failOnDataLoss=false would go on with what is left)"
            )
        if lost:
            log.warning("%s: going on, as failOnDataLoss=false asks", "; ".join(lost))
        return bool(lost)

    def _waits(self, fresh: int) -> bool:
        least = self.options.offsets_min
        if least is None or self._target is not None or fresh >= least or self._triggered is None:
            return False
        waited_ms = (time.monotonic() - self._triggered) * 1000
        return waited_ms < self.options.trigger_delay_ms_max


def _kept(path: Path) -> StreamOffsets:
    try:
        numbers, ids = partition_numbers("initialOffsetsPath", path.read_text())
    except (UsageError, OSError, ValueError) as fault:
        raise KlammError(
            f"{path} does not hold the first offsets of a stream: {fault}. "
            "Remove it, and the query begins at startingOffsets"
        ) from None
    return StreamOffsets(numbers, ids)


def commit_to_group(lookup: Lookup, group: str | None, offsets: Offsets) -> None:
    """Commits offsets as a group without members."""
    assert group is not None, "options refuse commitOffsets without a group"
    lookup.commit(group, {tp: Committed(o) for tp, o in offsets.items()})
