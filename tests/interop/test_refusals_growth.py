"""Every way in which CreatePartitions says no, over the wire: its code and its words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.wire import Wire, check, codes, growth, topic
from klamm import Cluster
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode as E
from klamm.model.names import BrokerId
from klamm.protocol.messages.create_partitions import CreatePartitionsTopic
from klamm.store import layout
from klamm.store.port import Session, SetData


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(3) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 2, 2))) == [E.NONE]
        yield wire


REFUSED = [
    (
        growth("__cluster_metadata", 2),
        E.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic '__cluster_metadata' does not exist.",
    ),
    (growth("unknown", 2), E.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'unknown' does not exist."),
    (
        growth("t", 1),
        E.INVALID_PARTITIONS,
        "Topic currently has 2 partitions, which is higher than the requested 1.",
    ),
    (growth("t", 0), E.INVALID_PARTITIONS, "higher than the requested 0."),
    (growth("t", -1), E.INVALID_PARTITIONS, "higher than the requested -1."),
    (growth("t", 2), E.INVALID_PARTITIONS, "Topic already has 2 partitions."),
    (growth("t", 2_000_000_000), E.INVALID_PARTITIONS, "the limit is 1015808"),
    (
        growth("t", 3, [[0, 9]]),
        E.INVALID_REPLICA_ASSIGNMENT,
        "Unknown broker(s) in replica assignment: 9.",
    ),
    (
        growth("t", 4, [[0, 1]]),
        E.INVALID_REPLICA_ASSIGNMENT,
        "Increasing the number of partitions by 2 but 1 assignments provided.",
    ),
    (
        growth("t", 3, []),
        E.INVALID_REPLICA_ASSIGNMENT,
        "Increasing the number of partitions by 1 but 0 assignments provided.",
    ),
    (
        growth("t", 3, [[]]),
        E.INVALID_REPLICA_ASSIGNMENT,
        "Cannot have replication factor of 0 for partition id 2.",
    ),
    (
        growth("t", 3, [[1, 1]]),
        E.INVALID_REPLICA_ASSIGNMENT,
        "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2.",
    ),
    (
        growth("t", 3, [[1]]),
        E.INVALID_REPLICA_ASSIGNMENT,
        "Inconsistent replication factor between partitions, partition 0 has 2 while "
        "partitions [2] have replication factors [1], respectively.",
    ),
    (
        growth("t", 4, [[0, 1], [0, 1, 2]]),
        E.INVALID_REPLICA_ASSIGNMENT,
        "while partitions [3] have replication factors [3], respectively.",
    ),
]


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    ("ask", "code", "words"), REFUSED, ids=[f"{c.name}-{w[:20]}" for _, c, w in REFUSED]
)
def test_growth_is_refused(
    wire: Wire, ask: CreatePartitionsTopic, code: E, words: str, validate_only: bool
) -> None:
    (result,) = wire.grow(ask, validate_only=validate_only)
    check(result, code, words)
    assert wire.cluster.partition("t", 2) is None


def test_only_the_controller_grows_topics(wire: Wire) -> None:
    for version in range(4):
        (result,) = wire.grow(growth("t", 3), broker=wire.other, version=version)
        check(result, E.NOT_CONTROLLER, None)


def test_a_name_given_twice_is_refused_both_times(wire: Wire) -> None:
    results = wire.grow(growth("t", 3), growth("t", 4))
    assert codes(results) == [E.INVALID_REQUEST, E.INVALID_REQUEST]
    assert "2 times" in (results[0].error_message or "")


def test_validating_adds_nothing(wire: Wire) -> None:
    assert codes(wire.grow(growth("t", 5), validate_only=True)) == [E.NONE]
    assert wire.cluster.partition("t", 2) is None


def rewrite(wire: Wire, name: str, **assignments: Assignment) -> None:
    """Change a topic's node behind the cluster's back."""

    async def work(session: Session) -> None:
        path = layout.topic_path(name)
        node = await session.get(path)
        stored = layout.decode_topic(node.data) if node else None
        assert stored is not None, name
        changed = {int(n.removeprefix("p")): a for n, a in assignments.items()}
        await session.multi(
            [SetData(path, layout.encode_topic(layout.TopicNode(stored.topic_id, changed)))]
        )

    wire.in_store(work)


def test_a_topic_that_is_being_moved_does_not_grow(wire: Wire) -> None:
    assert codes(wire.create(topic("moving", 1, 1))) == [E.NONE]
    replicas = (BrokerId(0), BrokerId(1))
    rewrite(wire, "moving", p0=Assignment(replicas, adding=(BrokerId(1),)))
    (result,) = wire.grow(growth("moving", 2))
    check(result, E.REASSIGNMENT_IN_PROGRESS, "being moved: 0")


def test_a_topic_without_its_first_partition_does_not_grow(wire: Wire) -> None:
    assert codes(wire.create(topic("headless", 1, 1))) == [E.NONE]
    rewrite(wire, "headless", p7=Assignment((BrokerId(0),)))
    for chosen in (None, [[0]]):
        (result,) = wire.grow(growth("headless", 2, chosen))
        check(result, E.UNKNOWN_SERVER_ERROR, "partition id 0 is missing")


def test_no_time_to_wait_grows_and_says_so(wire: Wire) -> None:
    assert codes(wire.create(topic("hasty", 1, 1))) == [E.NONE]
    (result,) = wire.grow(growth("hasty", 2), timeout_ms=0)
    check(result, E.REQUEST_TIMED_OUT, "no time to wait")
    wire.cluster.wait_for_topic("hasty", partitions=2)


def test_a_topic_grows_to_brokers_that_are_there() -> None:
    with Cluster(3) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, 3), topic("u", 1, 3))) == [E.NONE, E.NONE]
        lost = wire.other
        cluster.kill_broker(lost)
        cluster.wait_until(lambda view: all(len(b.live) == 2 for b in view.brokers.values()))
        (result,) = wire.grow(growth("t", 2))
        check(result, E.INVALID_REPLICATION_FACTOR, "larger than available brokers: 2.")
        assert codes(wire.delete("u")) == [E.NONE]
        # Its deletion waits for the lost broker.
        (result,) = wire.grow(growth("u", 2))
        check(result, E.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")


def test_a_quota_of_changes_is_strict_from_version_3_on() -> None:
    with Cluster(1) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("a", 1), topic("b", 1))) == [E.NONE, E.NONE]
        wire.limit_changes("busy")
        results = wire.grow(growth("a", 13), growth("b", 2), name="busy")
        assert codes(results) == [E.NONE, E.THROTTLING_QUOTA_EXCEEDED]
        assert codes(wire.grow(growth("b", 2), name="busy", version=2)) == [E.NONE]


def test_compacted_topics_can_be_kept_from_growing() -> None:
    with Cluster(1, **{"klamm.expansion.of.compacted.topics": "false"}) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, configs={"cleanup.policy": "compact"}))) == [E.NONE]
        (result,) = wire.grow(growth("t", 2))
        check(result, E.INVALID_PARTITIONS, "its keys would move")
