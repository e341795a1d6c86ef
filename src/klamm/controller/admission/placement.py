"""Places the replicas of new partitions on brokers.

Leaders go round the brokers in turn. The followers of a partition stand behind its leader, at a
distance that grows by one with every full round, so that the partitions led by one broker do not
all have the same followers. With racks, the brokers are first arranged so that neighbours are in
different racks, and a follower is taken only from a rack that the partition does not use yet, as
long as there is one.

The two random numbers of Kafka's algorithm are an argument: equal numbers give equal replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId

Racks = Mapping[BrokerId, str | None]
Placement = dict[int, tuple[BrokerId, ...]]


class MixedRacks(StrEnum):
    """The policy for clusters in which only some brokers have a rack."""

    FAIL = "fail"  # as Kafka: the client learns nothing from the code
    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Start:
    """The broker that leads partition 0, and the distance to its first follower."""

    index: int
    shift: int

    @classmethod
    def fixed(cls, at: int) -> Start:
        return cls(at, at)


def place(
    racks: Racks,
    *,
    count: int,
    factor: int,
    start: Start,
    first: int = 0,
    mixed: MixedRacks = MixedRacks.FAIL,
) -> Placement | Refused:
    """The replicas of `count` partitions from number `first`, or why they cannot be placed."""
    if count <= 0:
        return Refused(
            f"Number of partitions must be larger than 0. {count} were asked for.",
            ErrorCode.INVALID_PARTITIONS,
        )
    if factor <= 0:
        return Refused(
            f"Replication factor must be larger than 0. {factor} was asked for.",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    if factor > len(racks):
        return Refused(
            f"Replication factor: {factor} larger than available brokers: {len(racks)}.",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    aware = rack_awareness(racks, mixed)
    if isinstance(aware, Refused):
        return aware
    partitions = range(first, first + count)
    if not aware:
        return _spread(sorted(racks), partitions, factor, start)
    return _spread_over_racks(racks, partitions, factor, start)


def rack_awareness(racks: Racks, mixed: MixedRacks) -> bool | Refused:
    """Whether racks count: when all brokers have one."""
    missing = sorted(broker for broker, rack in racks.items() if rack is None)
    if not missing:
        return bool(racks)
    if len(missing) == len(racks) or mixed is MixedRacks.IGNORE:
        return False
    code = ErrorCode.UNKNOWN_SERVER_ERROR if mixed is MixedRacks.FAIL else ErrorCode.INVALID_REQUEST
    names = ", ".join(map(str, missing))
    return Refused(f"either all brokers or none must have a rack; without one: {names}", code)


def _spread(brokers: Sequence[BrokerId], partitions: range, factor: int, start: Start) -> Placement:
    n = len(brokers)
    placement: Placement = {}
    for partition, shift in _shifts(partitions, n, start.shift):
        leader = (partition + start.index) % n
        followers = (brokers[_behind(leader, shift + step, n)] for step in range(factor - 1))
        placement[partition] = (brokers[leader], *followers)
    return placement


def _spread_over_racks(racks: Racks, partitions: range, factor: int, start: Start) -> Placement:
    brokers = alternated(racks)
    n, rack_count = len(brokers), len(set(racks.values()))
    placement: Placement = {}
    for partition, shift in _shifts(partitions, n, start.shift):
        leader = (partition + start.index) % n
        ring = (brokers[_behind(leader, shift * rack_count + step, n)] for step in _count_up())
        placement[partition] = _one_a_rack(brokers[leader], ring, racks, rack_count, factor)
    return placement


def _one_a_rack(
    leader: BrokerId, ring: Iterator[BrokerId], racks: Racks, rack_count: int, factor: int
) -> tuple[BrokerId, ...]:
    """The leader and the next brokers of the ring, a used rack only once all are used."""
    chosen, used = [leader], {racks[leader]}
    while len(chosen) < factor:
        broker = next(ring)
        new_rack = racks[broker] not in used or len(used) == rack_count
        if new_rack and broker not in chosen:
            chosen.append(broker)
            used.add(racks[broker])
    return tuple(chosen)


def alternated(racks: Racks) -> list[BrokerId]:
    """The brokers, one of each rack in turn; racks by name, brokers of a rack by id."""
    by_rack: dict[str | None, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack, key=str)]
    depth = max(map(len, columns), default=0)
    return [column[row] for row in range(depth) for column in columns if row < len(column)]


def _shifts(partitions: range, n: int, shift: int) -> Iterator[tuple[int, int]]:
    for partition in partitions:
        if partition > 0 and partition % n == 0:
            shift += 1
        yield partition, shift


def _behind(leader: int, distance: int, n: int) -> int:
    """An index other than the leader's; n - 1 distances reach all others once."""
    return (leader + 1 + distance % (n - 1)) % n if n > 1 else leader


def _count_up() -> Iterator[int]:
    step = 0
    while True:
        yield step
        step += 1


def expansion_start(brokers: Iterable[BrokerId], first_replica: BrokerId) -> Start:
    """The start of placement when a topic grows, as in Kafka: the broker that leads partition 0."""
    ids = sorted(brokers)
    return Start.fixed(next((at for at, broker in enumerate(ids) if broker >= first_replica), 0))


def even_start(racks: Racks, leaders: Iterable[BrokerId], *, first: int, count: int) -> Start:
    """Go on with the stretch of brokers that lead the fewest partitions of the topic."""
    order = alternated(racks) if None not in racks.values() else sorted(racks)
    led, n = Counter(leaders), max(len(order), 1)

    def already_led(at: int) -> tuple[int, int]:
        # Whole rounds give every broker the same, so only the rest counts.
        stretch = [led[order[(at + step) % n]] for step in range(count % n)]
        return max(stretch, default=0), sum(stretch)

    at = min(range(len(order)), key=already_led, default=0)
    return Start((at - first) % n, first // n)
