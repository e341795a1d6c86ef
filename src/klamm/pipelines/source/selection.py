"""Resolves options against a cluster: which partitions a query reads, from where to where.

One Metadata and one ListOffsets a leader answer everything. What comes out is plain values, so that
planning the splits (`ranges`) needs no cluster any more.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered, Unreachable
from klamm.client.metadata import View
from klamm.model.errors import UsageError
from klamm.model.names import ZERO_ID, TopicPartition, id_text
from klamm.pipelines.source.options import Position, ReadOptions
from klamm.pipelines.source.ranges import DataLost, Offsets, Range

_NO_ID: Final = id_text(ZERO_ID)


def lookup_of(options: ReadOptions) -> Lookup:
    """The look-ups of a query, with its retries."""
    return Lookup(options.connection, options.retries, options.retry_interval_ms)


def view_of(options: ReadOptions, lookup: Lookup) -> View:
    """The topics that the options choose, as they are now."""
    if options.pattern is not None:
        everything = lookup.view(None)
        wanted = re.compile(options.pattern)
        topics = {
            name: topic
            for name, topic in everything.topics.items()
            if wanted.search(name) and not topic.is_internal
        }
        return View(everything.cluster_id, everything.brokers, everything.controller, topics)
    names = options.subscribe or tuple(sorted({tp.topic for tp in options.assign or ()}))
    return lookup.view(names)


def partitions_of(options: ReadOptions, view: View) -> list[TopicPartition]:
    """The partitions to read that are there."""
    if options.assign is not None:
        return [tp for tp in options.assign if is_there(view, tp)]
    return sorted(tp for topic in view.topics.values() for tp in topic.partitions)


def is_there(view: View, tp: TopicPartition) -> bool:
    """Whether a partition exists."""
    topic = view.topics.get(tp.topic)
    return topic is not None and tp.partition in topic.leaders


def require_topics(options: ReadOptions, view: View, lookup: Lookup) -> None:
    """A named topic or partition that does not exist is an error, not an empty table."""
    for tp in options.assign or ():
        if not is_there(view, tp):
            raise UsageError(f"option assign: there is no partition {tp}")
    missing = [name for name in options.subscribe or () if name not in view.topics]
    if missing:
        raise no_topic(lookup, missing)


def no_topic(lookup: Lookup, missing: Sequence[str]) -> UsageError:
    """The sentence about topics that do not exist, with the nearest one that does."""
    text = f"there is no topic {' or '.join(missing)}"
    near = difflib.get_close_matches(missing[0], lookup.view(None).topics, n=1)
    return UsageError(f"{text}; did you mean {near[0]}?" if near else text)


@contextmanager
def while_there(lookup: Lookup, topic: str, topic_id: str, what: str) -> Iterator[None]:
    """Holds a job to the one topic it began with: if that is gone, nothing else is worth saying."""
    try:
        yield
    except Exception:
        with suppress(Unreachable, Answered):
            _check_there(lookup, topic, topic_id, what)
        raise
    _check_there(lookup, topic, topic_id, what)


def _check_there(lookup: Lookup, topic: str, topic_id: str, what: str) -> None:
    found = lookup.topic(topic)
    if found is None:
        raise DataLost(f"topic {topic} was deleted while it was {what}")
    if found.id != topic_id:
        raise DataLost(f"topic {topic} was deleted and created again while it was {what}")


def ids_of(view: View) -> dict[str, str]:
    """Topic ids, where the cluster has them."""
    return {name: t.id for name, t in view.topics.items() if t.id != _NO_ID}


def resolve(
    name: str,
    position: Position,
    tps: Iterable[TopicPartition],
    lookup: Lookup,
    *,
    committed: bool = False,
) -> dict[TopicPartition, int]:
    """The offset of every partition that an option stands for."""
    wanted = list(tps)
    if position.time_ms is not None:
        times = dict.fromkeys(wanted, position.time_ms)
        return _by_time(name, times, position, lookup, committed=committed)
    if position.times is not None:
        _check_names(name, position.times, wanted)
        return _by_time(name, position.times, position, lookup, committed=committed)
    if position.offsets is not None:
        _check_names(name, position.offsets, wanted)
        words = {tp: o for tp, o in position.offsets.items() if o < 0}
        return {**position.offsets, **lookup.offsets(words, committed=committed)}
    return lookup.offsets(dict.fromkeys(wanted, position.word), committed=committed)


def _check_names(
    name: str, given: Mapping[TopicPartition, int], wanted: list[TopicPartition]
) -> None:
    missing = sorted(set(wanted) - set(given))
    unknown = sorted(set(given) - set(wanted))
    if missing:
        raise UsageError(
            f"option {name} must name every partition: {', '.join(map(str, missing))} is missing"
        )
    if unknown:
        raise UsageError(f"option {name} names {', '.join(map(str, unknown))}, which is not read")


def _by_time(
    name: str,
    times: Mapping[TopicPartition, int],
    position: Position,
    lookup: Lookup,
    *,
    committed: bool,
) -> dict[TopicPartition, int]:
    found = lookup.offsets(times, committed=committed)
    late = [tp for tp, offset in found.items() if offset < 0]
    if late and not position.late_is_latest:
        raise UsageError(
            f"option {name}: {late[0]} has no record at or after {times[late[0]]} "
            "(startingOffsetsByTimestampStrategy=latest would start at its end)"
        )
    return {**found, **lookup.latest(late, committed=committed)}


def check_order(ending: Position, start: Offsets, end: Offsets) -> None:
    """Ends that were given and lie before the starts are a mistake, and not lost records."""
    if ending.is_open:
        return
    for tp in sorted(end):
        if start[tp] > end[tp]:
            raise UsageError(
                f"{tp} would be read from offset {start[tp]} to {end[tp]}, which lies before it: "
                "look at what the options begin and end with"
            )


def ranges_of(view: View, ids: Mapping[str, str], start: Offsets, end: Offsets) -> list[Range]:
    """Ranges with everything a task needs to read them."""
    found = []
    for tp in sorted(end):
        if end[tp] <= start.get(tp, 0):
            continue
        topic = view.topics.get(tp.topic)
        leader = topic.leaders.get(tp.partition) if topic else None
        if leader is None:
            raise Unreachable(f"partition {tp} has no leader now")
        found.append(
            Range(
                topic=tp.topic,
                topic_id=ids.get(tp.topic, ""),
                partition=tp.partition,
                start=start.get(tp, 0),
                stop=end[tp],
                host=leader.address[0],
                port=leader.address[1],
                leader_epoch=leader.epoch,
            )
        )
    return found


def bytes_per_offset(
    lookup: Lookup, earliest: Offsets, latest: Offsets
) -> dict[TopicPartition, float]:
    """The average size of a record of each partition."""
    sizes = lookup.sizes(sorted({tp.topic for tp in latest}))
    return {tp: sizes.get(tp, 0) / max(latest[tp] - earliest.get(tp, 0), 1) for tp in latest}
