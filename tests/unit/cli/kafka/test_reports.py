"""The lines of kafka-topics --describe, to the tab."""

from __future__ import annotations

import uuid

from klamm.cli.facts import PartitionFacts, TopicFacts
from klamm.cli.kafka.reports import lines
from klamm.model.names import ZERO_ID
from klamm.protocol.messages.describe_configs import DescribeConfigsResourceResult

ID = uuid.UUID(bytes=bytes(range(16)))
HEALTHY = PartitionFacts(0, 1, 5, (1, 2), (1, 2))
SHRUNK = PartitionFacts(1, 2, 5, (2, 1), (2,))
LOST = PartitionFacts(2, -1, 6, (1, 2), (1,))
MOVING = PartitionFacts(3, 1, 7, (3, 1, 2), (1, 2), adding=(3,), removing=(2,))
LIVE = frozenset({1, 2, 3})


def topic(*partitions: PartitionFacts, minimum: str | None = None) -> TopicFacts:
    configs = []
    if minimum is not None:
        entry = DescribeConfigsResourceResult("min.insync.replicas", minimum, config_source=1)
        configs.append(entry)
    return TopicFacts("t", ID, False, partitions, configs)


def numbers(facts: TopicFacts, *flags: str) -> list[str]:
    return [line.split("\t")[2] for line in lines(facts, LIVE, frozenset(flags))]


def test_a_header_and_a_line_a_partition() -> None:
    assert list(lines(topic(HEALTHY, minimum="2"), LIVE, frozenset())) == [
        "Topic: t\tTopicId: AAECAwQFBgcICQoLDA0ODw\tPartitionCount: 1\tReplicationFactor: 2"
        "\tConfigs: min.insync.replicas=2",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: N/A\tLastKnownElr: N/A",
    ]


def test_no_leader_is_none_and_a_zero_id_is_left_out() -> None:
    header, line = lines(TopicFacts("t", ZERO_ID, False, (LOST,)), LIVE, frozenset())
    assert "TopicId" not in header
    assert "\tLeader: none\t" in line


def test_a_move_shows_what_comes_and_goes() -> None:
    header, line = lines(topic(MOVING), LIVE, frozenset())
    assert "ReplicationFactor: 2" in header
    assert "\tAdding Replicas: 3\tRemoving Replicas: 2\tElr" in line


def test_the_reports_choose_partitions_and_drop_the_header() -> None:
    facts = topic(HEALTHY, SHRUNK, LOST, minimum="2")
    assert numbers(facts, "under-replicated-partitions") == ["Partition: 1", "Partition: 2"]
    assert numbers(facts, "unavailable-partitions") == ["Partition: 2"]
    assert numbers(facts, "under-min-isr-partitions") == ["Partition: 1", "Partition: 2"]
    assert numbers(facts, "at-min-isr-partitions") == ["Partition: 0"]
    both = numbers(facts, "unavailable-partitions", "at-min-isr-partitions")
    assert both == ["Partition: 0", "Partition: 2"]


def test_a_leader_that_is_not_alive_is_unavailable() -> None:
    (line,) = lines(topic(HEALTHY), frozenset({2}), frozenset({"unavailable-partitions"}))
    assert "Partition: 0" in line


def test_topics_with_overrides_shows_headers_only() -> None:
    flags = frozenset({"topics-with-overrides"})
    assert list(lines(topic(HEALTHY), LIVE, flags)) == []
    (header,) = lines(topic(HEALTHY, minimum="2"), LIVE, flags)
    assert header.startswith("Topic: t\t")
