"""The lines of `kafka-topics --describe`, to the tab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from klamm.cli.facts import PartitionFacts, TopicFacts
from klamm.model.names import ZERO_ID, id_text


def lines(topic: TopicFacts, live: frozenset[int], flags: frozenset[str]) -> Iterator[str]:
    """The lines that describe one topic, for these flags of the command."""
    reports = [name for name in _REPORTS if name in flags]
    minimum = _min_insync(topic)
    if not reports and ("topics-with-overrides" not in flags or topic.settings):
        yield _header(topic)
    if "topics-with-overrides" in flags:
        return
    for partition in topic.partitions:
        if not reports or any(_REPORTS[name](partition, live, minimum) for name in reports):
            yield _line(topic.name, partition)


def _header(topic: TopicFacts) -> str:
    parts = [f"Topic: {topic.name}"]
    if topic.id != ZERO_ID:
        parts.append(f"TopicId: {id_text(topic.id)}")
    configs = ",".join(f"{config.name}={config.value}" for config in topic.settings)
    parts += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {topic.replication_factor}",
        f"Configs: {configs}",
    ]
    return "\t".join(parts)


def _line(topic: str, partition: PartitionFacts) -> str:
    parts = [
        f"\tTopic: {topic}",
        f"Partition: {partition.index}",
        f"Leader: {partition.leader if partition.leader >= 0 else 'none'}",
        f"Replicas: {_ids(partition.replicas)}",
        f"Isr: {_ids(partition.isr)}",
    ]
    if partition.adding or partition.removing:
        parts += [
            f"Adding Replicas: {_ids(partition.adding)}",
            f"Removing Replicas: {_ids(partition.removing)}",
        ]
    # Eligible leader replicas exist in KRaft mode only.
    parts += ["Elr: N/A", "LastKnownElr: N/A"]
    return "\t".join(parts)


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def _min_insync(topic: TopicFacts) -> int:
    """The topic's min.insync.replicas; 1 is Kafka's default and so not among the entries."""
    values = [c.value for c in topic.settings if c.name == "min.insync.replicas" and c.value]
    return int(values[0]) if values else 1


def _has_no_leader(partition: PartitionFacts, live: frozenset[int]) -> bool:
    return partition.leader not in live


Report = Callable[[PartitionFacts, frozenset[int], int], bool]
_REPORTS: Final[dict[str, Report]] = {
    "under-replicated-partitions": lambda p, _live, _min: p.replication_factor > len(p.isr),
    "unavailable-partitions": lambda p, live, _min: _has_no_leader(p, live),
    "under-min-isr-partitions": lambda p, _live, low: p.leader < 0 or len(p.isr) < low,
    "at-min-isr-partitions": lambda p, _live, low: len(p.isr) == low,
}
