"""Paths and payloads: Kafka's literal bytes, old versions, nonsense, and round trips."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.model.assignment import Assignment
from klamm.model.brokers import Endpoint, Registration
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, TopicPartition, id_from_text
from klamm.model.topics import ProducerIdBlock
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind, ForgottenReplica, TopicNode

ID_TEXT = "nqhyV2sDT1yGLFRLDxuWxg"
ID = id_from_text(ID_TEXT)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


BROKER = Registration(
    id=BrokerId(1),
    epoch=77,
    endpoints=(
        Endpoint("host1", 9092, "CLIENT", "PLAINTEXT"),
        Endpoint("::1", 9093, "REPLICATION", "SSL"),
    ),
    rack="dc1",
    features={"f": (1, 3)},
)
USER_CLIENT = ConfigEntity(ConfigKind.CLIENT, None, ConfigEntity(ConfigKind.USER, "a*b ~ü/"))

# What Kafka writes, and what it means.
LITERALS: list[tuple[bytes, bytes]] = [
    (
        layout.encode_controller(layout.ControllerNode(BrokerId(1), 1700000000000)),
        b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}',
    ),
    (layout.encode_controller_epoch(7), b"7"),
    (layout.encode_cluster_id(ID_TEXT), b'{"version":"1","id":"nqhyV2sDT1yGLFRLDxuWxg"}'),
    (
        layout.encode_broker(BROKER, timestamp_ms=5),
        b'{"version":5,"host":"host1","port":9092,'
        b'"endpoints":["CLIENT://host1:9092","REPLICATION://[::1]:9093"],'
        b'"jmx_port":-1,"timestamp":"5","rack":"dc1",'
        b'"listener_security_protocol_map":{"CLIENT":"PLAINTEXT","REPLICATION":"SSL"},'
        b'"features":{"f":{"min_version":1,"max_version":3}}}',
    ),
    (
        layout.encode_broker(
            Registration(id=BrokerId(2), epoch=1, endpoints=(Endpoint("h", 1, "SSL", "SSL"),)),
            timestamp_ms=5,
            jmx_port=9999,
        ),
        b'{"version":5,"host":null,"port":-1,"endpoints":["SSL://h:1"],"jmx_port":9999,'
        b'"timestamp":"5","listener_security_protocol_map":{"SSL":"SSL"},"features":{}}',
    ),
    (
        layout.encode_topic(
            TopicNode(
                ID,
                {
                    1: Assignment(ids(2, 3, 1)),
                    0: Assignment(ids(4, 2, 3, 1), ids(4), ids(1)),
                },
            )
        ),
        b'{"version":3,"topic_id":"nqhyV2sDT1yGLFRLDxuWxg",'
        b'"partitions":{"0":[4,2,3,1],"1":[2,3,1]},'
        b'"adding_replicas":{"0":[4]},"removing_replicas":{"0":[1]}}',
    ),
    (
        layout.encode_topic(TopicNode(None, {0: Assignment(ids(1))})),
        b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}',
    ),
    (
        layout.encode_state(
            Leadership(leader=BrokerId(-1), leader_epoch=3, isr=ids(1, 2), controller_epoch=7)
        ),
        b'{"version":1,"leader":-1,"leader_epoch":3,"controller_epoch":7,"isr":[1,2]}',
    ),
    (
        layout.encode_state(
            Leadership(
                leader=BrokerId(1),
                leader_epoch=4,
                isr=ids(1),
                controller_epoch=7,
                recovery=Recovery.RECOVERING,
            )
        ),
        b'{"version":1,"leader":1,"leader_epoch":4,"controller_epoch":7,"isr":[1],'
        b'"leader_recovery_state":1}',
    ),
    (layout.encode_config({}), b'{"version":1,"config":{}}'),
    (
        layout.encode_config({"retention.ms": "1000", "cleanup.policy": "delete"}),
        b'{"version":1,"config":{"cleanup.policy":"delete","retention.ms":"1000"}}',
    ),
    (
        layout.encode_config_change(ConfigEntity(ConfigKind.TOPIC, "T")),
        b'{"version":2,"entity_path":"topics/T"}',
    ),
    (
        layout.encode_config_change(USER_CLIENT),
        b'{"version":2,"entity_path":"users/a%2Ab%20%7E%C3%BC%2F/clients/<default>"}',
    ),
    (
        layout.encode_reassignment({TopicPartition("T", 0): ids(3, 1)}),
        b'{"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[3,1]}]}',
    ),
    (
        layout.encode_partitions([TopicPartition("T", 0)]),
        b'{"version":1,"partitions":[{"topic":"T","partition":0}]}',
    ),
    (layout.encode_log_dir_event(BrokerId(3)), b'{"version":1,"broker":3,"event":1}'),
    (
        layout.encode_producer_id_block(ProducerIdBlock(BrokerId(2), 0, 999)),
        b'{"version":1,"broker":2,"block_start":"0","block_end":"999"}',
    ),
    (
        layout.encode_feature(layout.FeatureNode(True, {"f": 3})),
        b'{"version":2,"status":1,"features":{"f":{"max_version_level":3}}}',
    ),
]

DECODERS: list[Callable[[bytes | None], Any]] = [
    layout.decode_controller,
    layout.decode_controller_epoch,
    layout.decode_cluster_id,
    lambda data: layout.decode_broker(BrokerId(1), data, 1),
    layout.decode_topic,
    lambda data: layout.decode_state(data, 0),
    layout.decode_config,
    layout.decode_config_change,
    layout.decode_reassignment,
    layout.decode_partitions,
    layout.decode_log_dir_event,
    layout.decode_producer_id_block,
    layout.decode_feature,
    layout.decode_forgotten,
]


@pytest.mark.parametrize(
    ("written", "kafka"), LITERALS, ids=[text.decode() for _, text in LITERALS]
)
def test_writers_emit_the_bytes_of_kafka(written: bytes, kafka: bytes) -> None:
    assert written == kafka


def test_paths_are_those_of_kafka() -> None:
    partition = TopicPartition("T", 3)
    assert layout.broker_path(BrokerId(1)) == "/brokers/ids/1"
    assert layout.topic_path("T") == "/brokers/topics/T"
    assert layout.partitions_path("T") == "/brokers/topics/T/partitions"
    assert layout.partition_path(partition) == "/brokers/topics/T/partitions/3"
    assert layout.state_path(partition) == "/brokers/topics/T/partitions/3/state"
    assert layout.delete_topic_path("T") == "/admin/delete_topics/T"
    assert layout.topic_config_path("T") == "/config/topics/T"
    assert ConfigEntity(ConfigKind.TOPIC, "T").path == layout.topic_config_path("T")
    assert ConfigEntity(ConfigKind.BROKER, None).path == "/config/brokers/<default>"


def test_parents_come_before_their_children_and_once() -> None:
    assert layout.with_parents(["/a/b/c", "/a/d", "/e"]) == ("/a", "/a/b", "/a/b/c", "/a/d", "/e")
    every = layout.with_parents(layout.ROOTS)
    assert len(set(every)) == len(every)
    for path in every:
        above = layout.parent(path)
        assert above == "/" or above in every[: every.index(path)]


def test_the_sequence_is_the_last_ten_digits() -> None:
    assert layout.sequence("config_change_0000000042") == 42
    assert layout.sequence("x-0000000007") == 7


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"brokerid":4,"timestamp":"9"}',
        b'{"version":2,"brokerid":4,"timestamp":"9","kraftControllerEpoch":-1,"more":[]}',
    ],
)
def test_a_controller_of_any_version_is_read(data: bytes) -> None:
    assert layout.decode_controller(data) == layout.ControllerNode(BrokerId(4), 9, -1)


PLAIN = Endpoint("localhost", 9092)
TWO = (Endpoint("host1", 9092), Endpoint("host1", 9093, "SSL", "SSL"))
NAMED = (Endpoint("host1", 9092, "CLIENT", "PLAINTEXT"), Endpoint("fe80::1", 1, "IN", "SASL_SSL"))


@pytest.mark.parametrize(
    ("more", "endpoints", "rack", "features"),
    [
        ({"version": 1}, (PLAIN,), None, {}),
        (
            {"version": 2, "endpoints": ["PLAINTEXT://host1:9092", "SSL://host1:9093"]},
            TWO,
            None,
            {},
        ),
        (
            {"version": 3, "endpoints": ["PLAINTEXT://localhost:9092"], "rack": "r"},
            (PLAIN,),
            "r",
            {},
        ),
        (
            {
                "version": 5,
                "endpoints": ["CLIENT://host1:9092", "IN://[fe80::1]:1"],
                "listener_security_protocol_map": {"CLIENT": "PLAINTEXT", "IN": "SASL_SSL"},
                "rack": None,
                "features": {"f": {"min_version": 1, "first_active_version": 2, "max_version": 3}},
            },
            NAMED,
            None,
            {"f": (1, 3)},
        ),
    ],
)
def test_a_broker_of_any_version_is_read(
    more: dict[str, object],
    endpoints: tuple[Endpoint, ...],
    rack: str | None,
    features: dict[str, tuple[int, int]],
) -> None:
    common = {"host": "localhost", "port": 9092, "jmx_port": 9999, "timestamp": "2233345666"}
    data = json.dumps(common | more).encode()
    assert layout.decode_broker(BrokerId(6), data, 12) == Registration(
        id=BrokerId(6), epoch=12, endpoints=endpoints, rack=rack, features=features
    )


def test_a_topic_of_any_version_is_read() -> None:
    plain = {0: Assignment(ids(1, 2)), 10: Assignment(ids(2, 1))}
    moving = {0: Assignment(ids(3, 1), ids(3), ids(1))}
    one = b'{"version":1,"partitions":{"10":[2,1],"0":[1,2]}}'
    two = (
        b'{"version":2,"partitions":{"0":[3,1]},'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    )
    three = b'{"removing_replicas":{},"partitions":{"0":[1]},"topic_id":"%s","version":3}'
    assert layout.decode_topic(one) == TopicNode(None, plain)
    assert layout.decode_topic(two) == TopicNode(None, moving)
    assert layout.decode_topic(three % ID_TEXT.encode()) == TopicNode(ID, {0: Assignment(ids(1))})


def test_partitions_are_read_in_the_order_of_their_numbers() -> None:
    topic = layout.decode_topic(b'{"version":1,"partitions":{"10":[1],"9":[1],"0":[1]}}')
    assert topic is not None
    assert list(topic.assignments) == [0, 9, 10]


def test_the_partition_epoch_is_the_version_of_the_node() -> None:
    data = b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":2,"isr":[1,2]}'
    assert layout.decode_state(data, 9) == Leadership(
        leader=BrokerId(1), leader_epoch=2, isr=ids(1, 2), controller_epoch=7, partition_epoch=9
    )


def test_a_legacy_change_marker_is_read() -> None:
    data = b'{"version":1,"entity_type":"topics","entity_name":"T"}'
    assert layout.decode_config_change(data) == ConfigEntity(ConfigKind.TOPIC, "T")


def test_a_user_called_default_is_not_the_default_user() -> None:
    named = ConfigEntity(ConfigKind.USER, "<default>")
    assert named.path == "/config/users/%3Cdefault%3E"
    assert layout.decode_config_change(layout.encode_config_change(named)) == named


def test_settings_written_as_numbers_are_read_as_text() -> None:
    data = b'{"version":1,"config":{"a":1,"b":true,"c":"x"}}'
    assert layout.decode_config(data) == {"a": "1", "b": "true", "c": "x"}


def test_features_of_version_one_are_read() -> None:
    data = (
        b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
    )
    assert layout.decode_feature(data) == layout.FeatureNode(False, {"f": 3})


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.none() | st.binary() | st.sampled_from([kafka for _, kafka in LITERALS]))
@example(data=None)
@example(data=b"")
@example(data=b"null")
@example(data=b"[" * 100_000)
@example(data=b'{"brokerid":1e999,"leader":1e999,"version":{}}')
@example(data=b'{"version":1,"partitions":7,"config":[],"features":[],"status":2}')
def test_no_content_makes_a_reader_raise(
    decode: Callable[[bytes | None], Any], data: bytes | None
) -> None:
    decode(data)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("data", [None, b"", b"null", b"[1]", b"{", b"\xff", b'{"version":1}'])
def test_content_that_makes_no_sense_is_none(
    decode: Callable[[bytes | None], Any], data: bytes | None
) -> None:
    assert decode(data) is None


broker_id = st.integers(0, 2**31 - 1).map(BrokerId)
replicas = st.lists(broker_id, unique=True, max_size=5).map(tuple)
partition = st.builds(TopicPartition, st.text(min_size=1, max_size=9), st.integers(0, 2**31 - 1))
name = st.text(min_size=1, max_size=9)
topics = st.builds(
    TopicNode,
    st.none() | st.uuids(),
    st.dictionaries(st.integers(0, 99), st.builds(Assignment, replicas, replicas, replicas)),
    st.dictionaries(st.integers(0, 99), replicas),
)
states = st.builds(
    Leadership,
    leader=st.integers(-1, 99).map(BrokerId),
    leader_epoch=st.integers(0, 2**31 - 1),
    isr=replicas,
    controller_epoch=st.integers(0, 2**31 - 1),
    partition_epoch=st.integers(0, 2**31 - 1),
    recovery=st.sampled_from(Recovery),
)
hosts = st.from_regex(r"[a-z0-9.-]+|[0-9a-f:]+:[0-9a-f:]*", fullmatch=True)
listeners = st.builds(
    Endpoint,
    hosts,
    st.integers(-1, 65535),
    st.from_regex(r"[A-Z_0-9]+", fullmatch=True),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL"]),
)
brokers = st.builds(
    Registration,
    id=broker_id,
    epoch=st.integers(0),
    endpoints=st.lists(listeners, min_size=1, unique_by=lambda e: e.listener).map(tuple),
    rack=st.none() | st.text(),
    features=st.dictionaries(name, st.tuples(st.integers(0, 9), st.integers(0, 9))),
)
plain_entities = st.builds(
    ConfigEntity,
    st.sampled_from([ConfigKind.TOPIC, ConfigKind.BROKER, ConfigKind.IP]),
    st.from_regex(r"[a-zA-Z0-9._-]+", fullmatch=True),
)
quota_entities = st.builds(
    ConfigEntity,
    st.just(ConfigKind.CLIENT),
    st.none() | name,
    st.none() | st.builds(ConfigEntity, st.just(ConfigKind.USER), st.none() | name),
)


@given(topics)
def test_topics_survive_the_round_trip(topic: TopicNode) -> None:
    assert layout.decode_topic(layout.encode_topic(topic)) == topic


@given(states)
def test_states_survive_the_round_trip_and_are_plain_json(state: Leadership) -> None:
    data = layout.encode_state(state)
    assert layout.decode_state(data, state.partition_epoch) == state
    assert json.dumps(json.loads(data), separators=(",", ":")).encode() == data


@given(brokers)
def test_brokers_survive_the_round_trip(broker: Registration) -> None:
    data = layout.encode_broker(broker, timestamp_ms=1)
    assert layout.decode_broker(broker.id, data, broker.epoch) == broker


@given(plain_entities | quota_entities)
def test_entities_survive_the_round_trip(entity: ConfigEntity) -> None:
    assert layout.decode_config_change(layout.encode_config_change(entity)) == entity


@given(st.dictionaries(st.text(), st.text()))
def test_settings_survive_the_round_trip(settings: dict[str, str]) -> None:
    assert layout.decode_config(layout.encode_config(settings)) == settings


@given(st.dictionaries(partition, replicas))
def test_reassignments_survive_the_round_trip(
    targets: dict[TopicPartition, tuple[BrokerId, ...]],
) -> None:
    assert layout.decode_reassignment(layout.encode_reassignment(targets)) == targets
    listed = tuple(targets)
    assert layout.decode_partitions(layout.encode_partitions(listed)) == listed


@given(st.lists(st.builds(ForgottenReplica, st.uuids(), partition)))
def test_forgotten_replicas_survive_the_round_trip(replicas: list[ForgottenReplica]) -> None:
    assert layout.decode_forgotten(layout.encode_forgotten(replicas)) == tuple(replicas)


@given(broker_id, st.integers(0, 2**63 - 1), st.uuids())
def test_single_nodes_survive_the_round_trip(
    broker: BrokerId, number: int, some: uuid.UUID
) -> None:
    block = ProducerIdBlock(broker, number, number + 999)
    controller = layout.ControllerNode(broker, number)
    features = layout.FeatureNode(number % 2 == 0, {"f": number})
    assert layout.decode_producer_id_block(layout.encode_producer_id_block(block)) == block
    assert layout.decode_controller(layout.encode_controller(controller)) == controller
    assert layout.decode_controller_epoch(layout.encode_controller_epoch(number)) == number
    assert layout.decode_cluster_id(layout.encode_cluster_id(str(some))) == str(some)
    assert layout.decode_feature(layout.encode_feature(features)) == features
    assert layout.decode_log_dir_event(layout.encode_log_dir_event(broker)) == broker
