"""The picture of a cluster that all viewers share: plain values, and the words for them.

Only the reader changes it. Everything a view shows is taken from here, so that fifty viewers cost
the cluster what one costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from klamm.console.reading.progress import Copied

LINES_MAX: Final = 10_000
ILLEGAL_MAX: Final = 200

# A cell of the matrix: its letter, and the word for it. The worst comes first.
CANNOT, OFFLINE, LEAVING, BEHIND, NEW, REMOVED, IN_SYNC, LEADER = "!x-~+o.L"
CELL_WORDS: Final[Mapping[str, str]] = {
    CANNOT: "cannot be removed",
    OFFLINE: "offline",
    LEAVING: "being removed",
    BEHIND: "behind",
    NEW: "new",
    REMOVED: "removed",
    IN_SYNC: "in sync",
    LEADER: "leader",
}
_ORDER: Final = {letter: rank for rank, letter in enumerate(CELL_WORDS)}
_DOOMED: Final = frozenset({"queued for deletion", "halted", "deleting"})
_DYING: Final[Mapping[str, str]] = {
    "DeletionStarted": LEAVING,
    "DeletionSuccessful": REMOVED,
    "DeletionIneligible": CANNOT,
    "NonExistent": REMOVED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition; the states of its replicas are in the order of the assignment."""

    index: int
    state: str
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    replica_states: tuple[str, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas without those that a running move adds."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def is_short(self) -> bool:
        """Whether a copy is missing that is not just on its way to a new place."""
        return not set(self.origin) <= set(self.isr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic with its cells: a letter for each replica, and the worst of each partition."""

    name: str
    id: str
    state: str
    partitions: tuple[Partition, ...]
    internal: bool = False
    cells: tuple[str, ...] = ()  # one string a partition, a letter a replica
    squares: str = ""  # one letter a partition
    # Counted once, for every look of every viewer needs them.
    worst: str = IN_SYNC
    offline_count: int = 0
    short_count: int = 0

    @property
    def is_doomed(self) -> bool:
        return self.state in _DOOMED

    @property
    def replicas_count(self) -> int:
        return sum(len(p.replicas) for p in self.partitions)

    @property
    def in_sync_count(self) -> int:
        return sum(len(p.isr) for p in self.partitions)

    @property
    def factor(self) -> int:
        return max((len(p.origin) for p in self.partitions), default=0)


def illness(topic: Topic) -> int:
    """The rank of a topic among ill ones: the lower, the worse."""
    return _ORDER[topic.worst]


def cell(topic_state: str, partition: Partition, place: int) -> str:
    """The letter of one replica."""
    broker, state = partition.replicas[place], partition.replica_states[place]
    if state in _DYING:
        return _DYING[state]
    if state == "Offline":
        return CANNOT if topic_state in _DOOMED else OFFLINE
    if topic_state in _DOOMED:
        return LEAVING
    if broker == partition.leader:
        return LEADER
    if broker in partition.isr:
        return IN_SYNC
    return NEW if state == "New" or broker in partition.adding else BEHIND


def pictured(
    name: str, id: str, state: str, partitions: Iterable[Partition], *, internal: bool
) -> Topic:
    """A topic with its cells."""
    kept = tuple(partitions)
    cells = tuple("".join(cell(state, p, n) for n in range(len(p.replicas))) for p in kept)
    squares = "".join(_square(row, p) for row, p in zip(cells, kept, strict=True))
    return Topic(
        name=name,
        id=id,
        state=state,
        partitions=kept,
        internal=internal,
        cells=cells,
        squares=squares,
        worst=min(squares, key=_ORDER.__getitem__, default=IN_SYNC),
        offline_count=sum(p.leader < 0 for p in kept),
        short_count=sum(p.leader >= 0 and p.is_short for p in kept),
    )


def _square(letters: str, partition: Partition) -> str:
    worst = min(letters, key=_ORDER.__getitem__, default=OFFLINE)
    if worst in (IN_SYNC, LEADER):
        return IN_SYNC if partition.leader >= 0 else OFFLINE
    return worst


@dataclass(slots=True)
class Source:
    """One thing that is asked of the cluster again and again."""

    name: str
    at_ms: int | None = None  # when it last answered
    error: str | None = None
    took_ms: float = 0.0
    every_s: float = 0.0
    asked: int = 0
    asked_at: float = 0.0
    saved_s: float = 0.0  # of a broker's time, that it may use at once
    used_s: float = 0.0  # of a broker's time in the last minute, what is older fading out


@dataclass(frozen=True, slots=True)
class Offsets:
    """The first and the next offset of a partition, and how many records come in a second."""

    start: int
    end: int
    rate: float | None = None


@dataclass(slots=True)
class Picture:
    """All that is known of one cluster; `rev` rises with each change."""

    rev: int = 0
    is_klamm: bool | None = None  # None before anybody answered
    cluster_id: str | None = None
    topics: dict[str, Topic] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    place: tuple[int, int] | None = None
    machines: list[dict[str, Any]] = field(default_factory=list)
    lines: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LINES_MAX))
    illegal: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=ILLEGAL_MAX))
    waits: list[dict[str, Any]] = field(default_factory=list)  # explanations by topic
    offsets: dict[tuple[str, int], Offsets] = field(default_factory=dict)
    sizes: dict[tuple[str, int, int], int] = field(default_factory=dict)  # by partition and broker
    dirs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)  # on this machine, by broker
    copied: dict[str, Copied] = field(default_factory=dict)  # of moves under way, by partition
    limits: dict[int, int] = field(default_factory=dict)  # bytes a second that a broker may copy

    def touch(self) -> None:
        """Something changed."""
        self.rev += 1

    @property
    def brokers(self) -> list[dict[str, Any]]:
        """Every broker that is there, or that an assignment names."""
        found: list[dict[str, Any]] = self.status.get("brokers", [])
        return found

    @property
    def live(self) -> frozenset[int]:
        """The brokers that are up."""
        return frozenset(b["id"] for b in self.brokers if b["presence"] in ("up", "shutting down"))

    def size(self, topic: Topic) -> int | None:
        """The bytes of all copies of a topic; None where nothing is known."""
        known = [
            self.sizes[topic.name, p.index, broker]
            for p in topic.partitions
            for broker in p.replicas
            if (topic.name, p.index, broker) in self.sizes
        ]
        return sum(known) if known or not topic.partitions else None

    def records(self, topic: Topic) -> int | None:
        """The records of a topic, at most: what compaction took is counted too."""
        known = [self.offsets.get((topic.name, p.index)) for p in topic.partitions]
        if any(each is None for each in known):
            return None
        return sum(each.end - each.start for each in known if each is not None)

    def rate(self, topic: Topic) -> float | None:
        """The records that come in a second."""
        known = [self.offsets.get((topic.name, p.index)) for p in topic.partitions]
        rates = [each.rate for each in known if each is not None and each.rate is not None]
        return sum(rates) if rates else None

    def readers(self, topic: str) -> list[tuple[str, int | None]]:
        """The groups that have offsets in a topic, and the lag of each."""
        found = []
        for name, group in self.groups.items():
            lags = [row["lag"] for row in group.get("offsets", ()) if row["topic"] == topic]
            if lags:
                known = [lag for lag in lags if lag is not None]
                found.append((name, sum(known) if known else None))
        return found
