"""Every way in which CreateTopics says no, over the wire: its code and its words."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from interop.wire import Wire, check, codes, topic
from klamm import Cluster
from klamm.controller.admission import Proposal
from klamm.model.errors import ErrorCode as E
from klamm.model.names import ZERO_ID
from klamm.protocol.messages.create_topics import CreatableTopic


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    settings = {"num.partitions": 2, "klamm.delete.topic.wait.for.completion": "true"}
    with Cluster(3, settings=settings) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("taken"), topic("with.dot"))) == [E.NONE, E.NONE]
        yield wire


REFUSED = [
    (topic("taken"), E.TOPIC_ALREADY_EXISTS, "Topic 'taken' already exists."),
    (
        topic("n", configs={"flush.ms": None}),
        E.INVALID_CONFIG,
        "Null value not supported for topic configs: flush.ms",
    ),
    (
        topic("n", 1, assigned={0: [0]}),
        E.INVALID_REQUEST,
        "Both numPartitions or replicationFactor and ",
    ),
    (
        topic("n", -1, 1, assigned={0: [0]}),
        E.INVALID_REQUEST,
        "Both numPartitions or replicationFactor and ",
    ),
    (topic("n", 0, 1), E.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
    (topic("n", -5, 1), E.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
    (topic("n", 2_000_000_000, 1), E.INVALID_PARTITIONS, "the limit is 1015808"),
    (topic("n", 100_000, 3), E.INVALID_PARTITIONS, "cannot have 100000 partitions"),
    (topic("n", 1, 0), E.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
    (topic("n", 1, -3), E.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
    (
        topic("n", 1, 4),
        E.INVALID_REPLICATION_FACTOR,
        "Replication factor: 4 larger than available brokers: 3.",
    ),
    (
        topic(""),
        E.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: the empty string is not allowed",
    ),
    (topic("."), E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '.' is not allowed"),
    (topic(".."), E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
    (topic("x" * 250), E.INVALID_TOPIC_EXCEPTION, "is longer than the max allowed length 249"),
    (
        topic("a/b"),
        E.INVALID_TOPIC_EXCEPTION,
        "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    ),
    (topic("grün"), E.INVALID_TOPIC_EXCEPTION, "characters other than"),
    (
        topic("with_dot"),
        E.INVALID_TOPIC_EXCEPTION,
        "Topic 'with_dot' collides with existing topics: with.dot",
    ),
    (
        topic("n", assigned={0: [0, 1], 1: [0]}),
        E.INVALID_REPLICA_ASSIGNMENT,
        "All partitions should have the same number of replicas",
    ),
    (
        topic("n", assigned={0: [1, 1]}),
        E.INVALID_REPLICA_ASSIGNMENT,
        "Duplicate replica assignment found: ",
    ),
    (
        topic("n", assigned={1: [1]}),
        E.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        topic("n", configs={"flush.msx": "1"}),
        E.INVALID_CONFIG,
        "Unknown topic config name: flush.msx; did you mean flush.ms?",
    ),
    (
        topic("n", configs={"flush.ms": "soon"}),
        E.INVALID_CONFIG,
        "Invalid value soon for configuration flush.ms: Not a number of type LONG",
    ),
    (
        topic("n", configs={"segment.bytes": "13"}),
        E.INVALID_CONFIG,
        "Invalid value 13 for configuration segment.bytes: Value must be at least 14",
    ),
    (
        topic("n", configs={"cleanup.policy": "shred"}),
        E.INVALID_CONFIG,
        "for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (
        topic("n", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
        E.INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (2) > max.compaction.lag.ms (1)",
    ),
    (topic("n", configs={"remote.storage.enable": "true"}), E.INVALID_CONFIG, "remote.log.storage"),
    (
        topic("__cluster_metadata"),
        E.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
]


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    ("ask", "code", "words"), REFUSED, ids=[f"{c.name}-{w[:20]}" for _, c, w in REFUSED]
)
def test_a_topic_is_refused_and_its_neighbour_is_not(
    wire: Wire, ask: CreatableTopic, code: E, words: str, validate_only: bool
) -> None:
    neighbour = topic("neighbour", 1, 1)
    refused, fine = wire.create(ask, neighbour, validate_only=validate_only)
    check(refused, code, words)
    assert (refused.num_partitions, refused.replication_factor, refused.configs) == (-1, -1, [])
    assert refused.topic_id == ZERO_ID
    check(fine, E.NONE, None)
    if not validate_only:
        assert codes(wire.delete("neighbour")) == [E.NONE]


def test_only_the_controller_creates(wire: Wire) -> None:
    for version in range(2, 8):
        (result,) = wire.create(topic("elsewhere"), broker=wire.other, version=version)
        check(result, E.NOT_CONTROLLER, None)


def test_a_name_given_twice_is_refused_both_times(wire: Wire) -> None:
    results = wire.create(topic("twice"), topic("once", 1, 1), topic("twice"), validate_only=True)
    assert codes(results) == [E.INVALID_REQUEST, E.NONE, E.INVALID_REQUEST]
    assert "2 times" in (results[0].error_message or "")


def test_no_time_to_wait_creates_and_says_so(wire: Wire) -> None:
    (result,) = wire.create(topic("hasty"), timeout_ms=0)
    check(result, E.REQUEST_TIMED_OUT, "no time to wait")
    wire.cluster.wait_for_topic("hasty", partitions=2)


def test_a_topic_on_absent_brokers_is_stored_but_has_no_leader() -> None:
    absent = topic("absent", assigned={0: [98, 99]})
    with Cluster(1, **{"klamm.placement.strict.assignment": "false"}) as cluster:
        wire = Wire(cluster)
        (result,) = wire.create(absent, timeout_ms=100)
        check(result, E.REQUEST_TIMED_OUT, None)
        # It is in no metadata, so this is the store's word.
        (again,) = wire.create(topic("absent"))
        check(again, E.TOPIC_ALREADY_EXISTS, "Topic 'absent' already exists.")


def test_a_created_topic_is_described_in_the_answer(wire: Wire) -> None:
    ask = topic("described", 3, 2, configs={"retention.ms": "77"})
    for version in range(2, 8):
        (result,) = wire.create(ask, version=version, validate_only=True)
        check(result, E.NONE, None)
        assert result.topic_id == ZERO_ID
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 2)
            own = {c.name: c.value for c in result.configs or [] if c.config_source == 1}
            assert own == {"retention.ms": "77"}
    (result,) = wire.create(ask)
    wire.cluster.wait_for_topic("described")
    assert (
        result.topic_id
        == wire.cluster._app.brokers[0].parts.metadata.snapshot.topic_ids["described"]
    )


def few_partitions(proposal: Proposal) -> str | None:
    return "two partitions are enough" if (proposal.partitions or 0) > 2 else None


def test_a_policy_refuses_with_its_own_words() -> None:
    with Cluster(1, **{"create.topic.policy.class.name": f"{__name__}:few_partitions"}) as cluster:
        wire = Wire(cluster)
        refused, fine = wire.create(topic("many", 3), topic("few", 2))
        check(refused, E.POLICY_VIOLATION, "two partitions are enough")
        check(fine, E.NONE, None)


@pytest.mark.parametrize(
    ("choice", "code", "words"),
    [
        ("fail", E.UNKNOWN_SERVER_ERROR, "without one: 1"),
        ("refuse", E.INVALID_REQUEST, "without one: 1"),
        ("ignore", E.NONE, None),
    ],
)
def test_racks_of_some_brokers_only(choice: str, code: E, words: str | None) -> None:
    settings = {"klamm.placement.mixed.racks": choice}
    with Cluster(2, settings=settings, racks=("north", "")) as cluster:
        (result,) = Wire(cluster).create(topic("t", 1, 1))
        check(result, code, words)


def test_replicas_go_to_brokers_that_are_there_or_were() -> None:
    with Cluster(2) as cluster:
        wire = Wire(cluster)
        (result,) = wire.create(topic("t", assigned={0: [0, 9]}))
        check(result, E.INVALID_REPLICA_ASSIGNMENT, "Unknown broker(s) in replica assignment: 9.")
        assert codes(wire.create(topic("held", 1, 2))) == [E.NONE]
        cluster.kill_broker(wire.other)
        cluster.wait_until(lambda view: all(len(b.live) == 1 for b in view.brokers.values()))
        assert codes(wire.create(topic("u", assigned={0: [0, 1]}))) == [E.NONE]


def test_a_name_is_taken_until_its_deletion_is_complete() -> None:
    with Cluster(2) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, 2))) == [E.NONE]
        cluster.kill_broker(wire.other)
        cluster.wait_until(lambda view: all(len(b.live) == 1 for b in view.brokers.values()))
        assert codes(wire.delete("t")) == [E.NONE]
        begun = time.monotonic()
        (result,) = wire.create(topic("t"))
        check(result, E.TOPIC_ALREADY_EXISTS, "marked for deletion")
        assert time.monotonic() - begun < 1.5, "nobody waits for what is held up"


def test_a_name_whose_deletion_is_under_way_is_waited_for() -> None:
    with Cluster(2) as cluster:
        wire = Wire(cluster)
        for _ in range(10):
            assert codes(wire.create(topic("t", 40, 2))) == [E.NONE]
            assert codes(wire.delete("t")) == [E.NONE]


def test_a_quota_of_changes_is_strict_from_version_6_on() -> None:
    with Cluster(1) as cluster:
        wire = Wire(cluster)
        wire.limit_changes("busy")
        # The bucket holds 11, and may be overdrawn once.
        results = wire.create(topic("a", 12), topic("b", 1), name="busy")
        assert codes(results) == [E.NONE, E.THROTTLING_QUOTA_EXCEEDED]
        assert "too many topic changes" in (results[1].error_message or "")
        assert codes(wire.create(topic("b", 1), name="busy", version=5)) == [E.NONE]
        assert codes(wire.create(topic("c", 1), name="idle")) == [E.NONE]
