"""From offsets to splits: what a query reads, in pieces for tasks. Pure: no Spark, no sockets.

A range is what is read of one partition, its end exclusive; a split is what one task reads, one or
more ranges. A plan depends on offsets and options alone, so that a replayed micro-batch makes the
same tasks. Losing data is an answer of its own: a start before the log's start, a start past the
end (a topic deleted and created again), a partition that vanished; never "nothing to do".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition

Offsets = Mapping[TopicPartition, int]

# Each further split of a micro-batch costs about as much as reading so many small records.
SMALL_SPLIT_RECORDS: Final = 20_000


class DataLost(KlammError):
    """Records that a query was to read are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The part of one partition to read, fully resolved: a task has to ask nobody."""

    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int
    host: str = ""
    port: int = 0
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        """The number of offsets it spans; compaction may have left fewer records."""
        return self.stop - self.start


Split = tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The position of a stream: offsets by partition, and the ids of their topics."""

    offsets: Offsets
    ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Sorted, for Spark compares offsets as text."""
        topics: dict[str, dict[str, int]] = {}
        for tp in sorted(self.offsets):
            topics.setdefault(tp.topic, {})[str(tp.partition)] = self.offsets[tp]
        return {"ids": {t: self.ids[t] for t in topics if t in self.ids}, "topics": topics, "v": 1}

    def text(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> StreamOffsets:
        """Reads its own form and that of Spark's Kafka connector."""
        ids: dict[str, str] = {}
        topics: object = found
        if set(found) == {"ids", "topics", "v"}:
            topics = found["topics"]
            assert isinstance(found["ids"], dict)
            ids = dict(found["ids"])
        assert isinstance(topics, dict)
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
        return cls(offsets, ids)


def share_limit(start: Offsets, end: Offsets, limit: int) -> dict[TopicPartition, int]:
    """Ends that take at most about `limit` offsets, shared in proportion to each backlog.

    A share below one is rounded up, so that a small partition beside a large one is never starved.
    """
    backlog = {tp: max(end[tp] - start.get(tp, 0), 0) for tp in end}
    total = sum(backlog.values())
    if total <= limit:
        return dict(end)
    ends = {}
    for tp in end:
        share = limit * backlog[tp] / total
        take = 1 if 0 < share < 1 else int(share)
        ends[tp] = min(start.get(tp, 0) + take, end[tp]) if backlog[tp] else end[tp]
    return ends


def losses(
    start: Offsets, end: Offsets, earliest: Offsets, *, gone: Iterable[TopicPartition] = ()
) -> list[str]:
    """Every way in which records between start and end can no longer be read, in words."""
    found = [f"{tp} is gone" for tp in sorted(gone)]
    for tp in sorted(end):
        begin = start.get(tp, 0)
        if begin > end[tp]:
            found.append(f"{tp} ends at {end[tp]}, before the position {begin} it was read to")
        elif begin < earliest.get(tp, 0):
            found.append(
                f"{tp} begins at {earliest[tp]}: offsets {begin} to {earliest[tp] - 1} are gone"
            )
    return found


def shortfalls(end: Offsets, latest: Offsets) -> list[str]:
    """Every end that lies past the log's, in words."""
    return [
        f"{tp} ends at {latest[tp]}, before the offset {end[tp]} it was to be read to"
        for tp in sorted(end)
        if end[tp] > latest[tp]
    ]


def cut_losses(start: Offsets, end: Offsets, earliest: Offsets) -> dict[TopicPartition, int]:
    """Starts moved to what is still there, for readers that accept a loss."""
    return {tp: min(max(start.get(tp, 0), earliest.get(tp, 0)), end[tp]) for tp in end}


def plan_splits(
    ranges: Sequence[Range],
    *,
    records_max: int | None = None,
    bytes_max: int | None = None,
    splits_min: int | None = None,
    bytes_per_offset: Mapping[TopicPartition, float] | None = None,
    group_small: bool = False,
) -> list[Split]:
    """Splits for these ranges, biggest pieces cut first, tiny ones put together."""
    pieces = [r for r in ranges if r.size > 0]
    if records_max is not None:
        pieces = [p for r in pieces for p in _cut(r, -(-r.size // records_max))]
    if bytes_max is not None and bytes_per_offset:
        pieces = [p for r in pieces for p in _cut(r, _by_bytes(r, bytes_max, bytes_per_offset))]
    if splits_min is not None and len(pieces) < splits_min:
        pieces = _share_out(pieces, splits_min)
    if group_small and splits_min is None:
        return _grouped(pieces)
    return [(piece,) for piece in pieces]


def _cut(r: Range, parts: int) -> list[Range]:
    parts = max(1, min(parts, r.size))
    edges = [r.start + r.size * i // parts for i in range(parts + 1)]
    return [replace(r, start=a, stop=b) for a, b in pairwise(edges)]


def _by_bytes(r: Range, bytes_max: int, rate: Mapping[TopicPartition, float]) -> int:
    estimate = r.size * rate.get(TopicPartition(r.topic, r.partition), 0.0)
    return int(-(-estimate // bytes_max))


def _share_out(pieces: Sequence[Range], wanted: int) -> list[Range]:
    """Small ranges stay whole; large ones share the splits that are left, by size."""
    total = sum(p.size for p in pieces)
    small = {i for i, p in enumerate(pieces) if p.size * wanted <= total}
    left = wanted - len(small)
    large = sum(p.size for i, p in enumerate(pieces) if i not in small)
    found: list[Range] = []
    for i, p in enumerate(pieces):
        found += [p] if i in small else _cut(p, round(left * p.size / large))
    return found


def _grouped(pieces: Sequence[Range]) -> list[Split]:
    groups: list[list[Range]] = []
    held = 0
    for piece in pieces:
        if groups and held + piece.size <= SMALL_SPLIT_RECORDS:
            groups[-1].append(piece)
            held += piece.size
        else:
            groups.append([piece])
            held = piece.size
    return [tuple(group) for group in groups]
