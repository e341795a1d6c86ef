"""The oldest versions that Kafka 3.9 serves, asked over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from interop.wire import TOPIC, Wire, codes, topic
from klamm import Cluster
from klamm.model.errors import ErrorCode as E
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    describe_acls,
    describe_configs,
    describe_log_dirs,
    find_coordinator,
    list_offsets,
    offset_commit,
    offset_for_leader_epoch,
)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(1) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, 1))) == [E.NONE]
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for _ in range(3):
            producer.produce("t", b"v")
        assert producer.flush(10) == 0
        yield wire


@pytest.mark.parametrize(
    ("timestamp", "room", "offsets"),
    [(-1, 1, [3]), (-2, 5, [0]), (0, 1, [0]), (1 << 60, 1, [3]), (-1, 0, [])],
)
def test_offsets_are_a_list(wire: Wire, timestamp: int, room: int, offsets: list[int]) -> None:
    wanted = list_offsets.ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=room)
    request = list_offsets.Request(-1, topics=[list_offsets.ListOffsetsTopic("t", [wanted])])
    (answer,) = wire.ask(ApiKey.LIST_OFFSETS, 0, request).topics
    (found,) = answer.partitions
    assert (found.error_code, found.old_style_offsets) == (E.NONE, offsets)


def test_topics_come_and_go(wire: Wire) -> None:
    for version in (0, 1):
        name = f"brief-{version}"
        assert codes(wire.create(topic(name, 1, 1), version=version)) == [E.NONE]
        (again,) = wire.create(topic(name, 1, 1), version=version)
        assert again.error_code == E.TOPIC_ALREADY_EXISTS
        assert again.error_message == (f"Topic '{name}' already exists." if version else None)
        assert codes(wire.delete(name, version=0)) == [E.NONE]


def test_settings_are_described_without_their_source(wire: Wire) -> None:
    resource = describe_configs.DescribeConfigsResource(TOPIC, "t", ["flush.ms"])
    (found,) = wire.ask(ApiKey.DESCRIBE_CONFIGS, 0, describe_configs.Request([resource])).results
    (config,) = found.configs
    assert (config.name, config.is_default, config.synonyms) == ("flush.ms", True, [])


def test_the_rest_is_answered(wire: Wire) -> None:
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(0, leader_epoch=0)
    epochs = offset_for_leader_epoch.Request(
        topics=[offset_for_leader_epoch.OffsetForLeaderTopic("t", [partition])]
    )
    for version in (0, 1):
        (answer,) = wire.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, epochs).topics
        assert answer.partitions[0].end_offset == 3
    dirs = wire.ask(ApiKey.DESCRIBE_LOG_DIRS, 0, describe_log_dirs.Request(None))
    assert [each.error_code for each in dirs.results] == [E.NONE]
    anything = describe_acls.Request(1, operation=1, permission_type=1)
    acls = wire.ask(ApiKey.DESCRIBE_ACLS, 0, anything)
    assert acls.error_code == E.SECURITY_DISABLED


def test_an_offset_is_committed_with_a_timestamp(wire: Wire) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(0, 2, commit_timestamp=1)
    request = offset_commit.Request(
        "old", topics=[offset_commit.OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    wire.ask(ApiKey.FIND_COORDINATOR, 0, find_coordinator.Request(key="old"))
    wire.cluster.wait_for_topic("__consumer_offsets")
    code = E.COORDINATOR_LOAD_IN_PROGRESS
    while code in (E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS):
        (answer,) = wire.ask(ApiKey.OFFSET_COMMIT, 1, request).topics
        code = E(answer.partitions[0].error_code)
    assert code is E.NONE
