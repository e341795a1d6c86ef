"""Views of the brokers of a running cluster, and predicates to wait for.

A predicate looks at one `ClusterView` and says yes or no; `Cluster.wait_until` asks it again
whenever a broker's metadata changed. Views are read from the brokers' own caches: what a client
that asked that broker would be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from klamm.broker.metadata_cache import MetadataSnapshot, PartitionInfo

Predicate = Callable[["ClusterView"], bool]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """The metadata that one broker would give a client."""

    _snapshot: MetadataSnapshot

    @property
    def controller_id(self) -> int:
        return self._snapshot.controller_id

    @property
    def live(self) -> frozenset[int]:
        """The brokers it holds to be alive."""
        return frozenset(self._snapshot.brokers)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._snapshot.topics)

    def is_older_than(self, snapshot: MetadataSnapshot) -> bool:
        """Whether the broker has been told something since."""
        return snapshot is not self._snapshot

    def partitions(self, topic: str) -> Mapping[int, PartitionInfo]:
        """The partitions of one topic; none where the broker does not know it."""
        return self._snapshot.topics.get(topic, {})


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The metadata of every running broker, at one moment."""

    brokers: Mapping[int, BrokerView]
    controller_id: int  # the broker that acts as the controller; -1: none

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """One partition as the controller's broker sees it, or any broker while there is none."""
        broker = self.brokers.get(self.controller_id) or next(iter(self.brokers.values()), None)
        return broker.partitions(topic).get(partition) if broker else None


def topic_is_led(topic: str, partitions: int | None = None) -> Predicate:
    """Every broker knows the topic, and each of its partitions has a live leader."""

    def holds(view: ClusterView) -> bool:
        for broker in view.brokers.values():
            found = broker.partitions(topic)
            if not found or (partitions is not None and len(found) != partitions):
                return False
            if not all(p.leader in view.brokers for p in found.values()):
                return False
        return True

    return _called(f"topic_is_led({topic!r}, {partitions})", holds)


def topic_is_gone(topic: str) -> Predicate:
    """No broker knows the topic."""

    def holds(view: ClusterView) -> bool:
        return not any(topic in broker.topics for broker in view.brokers.values())

    return _called(f"topic_is_gone({topic!r})", holds)


def isr_has(topic: str, partition: int | None = None, size: int | None = None) -> Predicate:
    """Every broker sees `size` (None: all) replicas in sync, of one partition or of each."""

    def enough(seen: PartitionInfo) -> bool:
        return len(seen.isr) == (len(seen.replicas) if size is None else size)

    def holds(view: ClusterView) -> bool:
        for broker in view.brokers.values():
            found = broker.partitions(topic)
            chosen = found.values() if partition is None else [found.get(partition)]
            if not found or not all(seen is not None and enough(seen) for seen in chosen):
                return False
        return True

    return _called(f"isr_has({topic!r}, {partition}, {size})", holds)


def leader_is_agreed(topic: str, partition: int, other_than: int | None = None) -> Predicate:
    """Every broker names the same live leader, and it is not the one excluded."""

    def holds(view: ClusterView) -> bool:
        seen = [broker.partitions(topic).get(partition) for broker in view.brokers.values()]
        leaders = {p.leader if p else -1 for p in seen}
        return len(leaders) == 1 and leaders <= view.brokers.keys() and other_than not in leaders

    return _called(f"leader_is_agreed({topic!r}, {partition}, {other_than})", holds)


def controller_is_agreed(other_than: int | None = None) -> Predicate:
    """Every broker names the broker that acts as the controller, and it is not the excluded one."""

    def holds(view: ClusterView) -> bool:
        named = {broker.controller_id for broker in view.brokers.values()}
        return named == {view.controller_id} and view.controller_id not in (-1, other_than)

    return _called(f"controller_is_agreed({other_than})", holds)


def all_are_acquainted(everyone: Iterable[int]) -> Predicate:
    """Every broker holds all of these to be alive."""
    wanted = frozenset(everyone)

    def holds(view: ClusterView) -> bool:
        return all(wanted <= broker.live for broker in view.brokers.values())

    return _called(f"all_are_acquainted({sorted(wanted)})", holds)


def all_are_in_sync() -> Predicate:
    """Every broker sees all replicas of every partition in sync."""

    def holds(view: ClusterView) -> bool:
        return bool(view.brokers) and not any(map(lagging, view.brokers.values()))

    return _called("all_are_in_sync()", holds)


def lagging(broker: BrokerView) -> int:
    """The number of partitions that lack replicas in sync, as one broker sees it."""
    return sum(
        len(seen.isr) < len(seen.replicas)
        for topic in broker.topics
        for seen in broker.partitions(topic).values()
    )


def _called(name: str, predicate: Predicate) -> Predicate:
    """The predicate under a name that says what it waits for, for the one who waits in vain."""
    predicate.__qualname__ = name
    return predicate
