"""Topics that come into being because a client asks for them, through every broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from interop.wire import Wire, codes, topic
from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode as E
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    settings = {"num.partitions": 3, "default.replication.factor": 2}
    with Cluster(3, settings=settings) as cluster:
        yield Wire(cluster)


def ask(
    wire: Wire, *names: str, broker: int | None = None, create: bool = True, version: int = 12
) -> list[metadata.MetadataResponseTopic]:
    request = metadata.Request(
        [metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )
    response: metadata.Response = wire.ask(ApiKey.METADATA, version, request, broker=broker)
    return response.topics


@pytest.mark.parametrize("version", [0, 3, 4, 12])
@pytest.mark.parametrize("at_controller", [True, False])
def test_asking_any_broker_creates_and_answers_with_the_topic(
    wire: Wire, version: int, at_controller: bool
) -> None:
    name = f"asked-{version}-{at_controller}"
    broker = None if at_controller else wire.other
    (answer,) = ask(wire, name, broker=broker, version=version)
    assert E(answer.error_code) is E.NONE
    assert [len(p.replica_nodes) for p in answer.partitions] == [2, 2, 2]
    assert all(p.leader_id >= 0 for p in answer.partitions)


def test_whoever_does_not_want_a_topic_does_not_create_it(wire: Wire) -> None:
    (answer,) = ask(wire, "unwanted", create=False)
    assert E(answer.error_code) is E.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.cluster.partition("unwanted") is None


def test_an_impossible_name_is_refused_and_its_neighbour_is_not(wire: Wire) -> None:
    answers = ask(wire, "not possible", "possible", broker=wire.other)
    assert codes(answers) == [E.INVALID_TOPIC_EXCEPTION, E.NONE]


async def test_all_brokers_asked_at_once_create_one_topic(wire: Wire) -> None:
    endpoints = [broker.endpoint for broker in wire.cluster._app.brokers.values()]
    request = metadata.Request([metadata.MetadataRequestTopic(name="rush")])

    async def one(host: str, port: int) -> metadata.MetadataResponseTopic:
        connection = await Connection.open(host, port, "rush")
        try:
            response = await connection.request(ApiKey.METADATA, 12, request)
        finally:
            await connection.close()
        found: metadata.MetadataResponseTopic = response.topics[0]
        return found

    async def all_at_once() -> list[metadata.MetadataResponseTopic]:
        return await asyncio.gather(*(one(e.host, e.port) for e in endpoints for _ in range(5)))

    answers = await all_at_once()
    assert set(codes(answers)) <= {E.NONE, E.LEADER_NOT_AVAILABLE}
    wire.cluster.wait_for_topic("rush")
    ids = {a.topic_id for a in answers if a.error_code == E.NONE}
    assert len(ids) == 1


def test_a_producer_needs_no_other_introduction(wire: Wire) -> None:
    producer = Producer({"bootstrap.servers": wire.cluster.bootstrap_servers})
    producer.produce("introduced", b"hello")
    assert producer.flush(20) == 0
    assert wire.cluster.partition("introduced") is not None


def test_defaults_that_cannot_be_met_are_told() -> None:
    with Cluster(2, **{"default.replication.factor": 3}) as cluster:
        wire = Wire(cluster)
        for broker in cluster.running:
            (answer,) = ask(wire, "t", broker=broker)
            assert E(answer.error_code) is E.INVALID_REPLICATION_FACTOR


def test_it_can_be_switched_off() -> None:
    with Cluster(1, **{"auto.create.topics.enable": "false"}) as cluster:
        (answer,) = ask(Wire(cluster), "t")
        assert E(answer.error_code) is E.UNKNOWN_TOPIC_OR_PARTITION


def test_it_can_be_kept_to_some_names() -> None:
    with Cluster(1, **{"klamm.auto.create.prefixes": "dev-"}) as cluster:
        answers = ask(Wire(cluster), "prod-1", "dev-1")
        assert codes(answers) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]


def test_a_deleted_topic_does_not_come_back_at_once() -> None:
    with Cluster(2, **{"klamm.auto.create.quarantine.ms": 60_000}) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t"))) == [E.NONE]
        cluster.wait_for_topic("t")
        assert codes(wire.delete("t")) == [E.NONE]
        cluster.wait_for_no_topic("t")
        for broker in cluster.running:
            (answer,) = ask(wire, "t", broker=broker)
            assert E(answer.error_code) is E.UNKNOWN_TOPIC_OR_PARTITION
        # Whoever creates it on purpose may.
        cluster.create_topic("t")


@pytest.mark.parametrize("at_controller", [True, False])
def test_a_name_that_is_being_deleted_keeps_nobody_waiting(wire: Wire, at_controller: bool) -> None:
    name = f"leaving-{at_controller}"
    ask(wire, name)
    away = next(at for at in (0, 1, 2) if at not in (wire.cluster.controller_id, wire.other))
    wire.cluster.stop_broker(away)
    try:
        assert codes(wire.delete(name)) == [E.NONE]
        begun = time.monotonic()
        (answer,) = ask(wire, name, broker=None if at_controller else wire.other)
        assert E(answer.error_code) is E.LEADER_NOT_AVAILABLE
        # It used to wait a whole second in the hope of a topic that could not come.
        assert time.monotonic() - begun < 0.9
    finally:
        wire.cluster.start_broker(away)
