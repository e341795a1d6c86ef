"""Quotas and throttles as clients and followers feel them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.wire import BROKER, SET, TOPIC, Wire, check, codes, topic
from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode as E
from klamm.model.names import ZERO_ID
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from klamm.protocol.frames import encode_request_frame
from klamm.protocol.messages import alter_client_quotas, describe_client_quotas, list_groups
from klamm.protocol.messages import metadata as metadata_message


def limit(wire: Wire, entity: dict[str, str | None], **rates: float | None) -> Any:
    """Set quotas of an entity, or with None lift them."""
    entry = alter_client_quotas.EntryData(
        [alter_client_quotas.EntityData(kind, name) for kind, name in entity.items()],
        [
            alter_client_quotas.OpData(key, rate or 0.0, remove=rate is None)
            for key, rate in rates.items()
        ],
    )
    request = alter_client_quotas.Request([entry])
    (answer,) = wire.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request).entries
    wire.settle()
    return answer


def described(wire: Wire, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = describe_client_quotas.Request(
        [describe_client_quotas.ComponentData(*each) for each in components], strict
    )
    return wire.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)


def as_dicts(response: Any) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    assert response.error_code == 0, response
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]


def test_quotas_are_set_described_and_lifted() -> None:
    with Cluster(2) as cluster:
        wire = Wire(cluster)
        both: dict[str, str | None] = {"user": "ann/2", "client-id": None}
        check(limit(wire, both, producer_byte_rate=100.0, request_percentage=2.5), E.NONE, None)
        check(limit(wire, {"ip": "10.0.0.1"}, connection_creation_rate=3.0), E.NONE, None)
        everything = as_dicts(described(wire))
        assert everything == [
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0}),
            (both, {"producer_byte_rate": 100.0, "request_percentage": 2.5}),
        ]
        assert as_dicts(described(wire, ("user", 0, "ann/2"))) == everything[1:]
        assert as_dicts(described(wire, ("user", 0, "ann/2"), strict=True)) == []
        check(limit(wire, both, producer_byte_rate=None, request_percentage=None), E.NONE, None)
        assert as_dicts(described(wire)) == everything[:1]
        check(limit(wire, {"user": "u"}, bytes=1.0), E.INVALID_REQUEST, "not a quota")
        check(limit(wire, {}, producer_byte_rate=1.0), E.INVALID_REQUEST, "at least one")
        refused = described(wire, ("planet", 2, None))
        check(refused, E.UNSUPPORTED_VERSION, "not a type")
        assert refused.entries is None


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One broker that measures over two seconds, and a topic with 300 kB in batches of 10 kB."""
    settings = {"quota.window.num": 2, "quota.window.size.seconds": 1}
    with Cluster(1, settings=settings) as cluster:
        cluster.create_topic("t", 1, 1)
        send(cluster, 30)
        yield cluster


Throttled = list[float]  # the seconds that a client was told to wait, each time it was


def told(throttled: Throttled) -> dict[str, Any]:
    """What makes a client of confluent-kafka remember what it is told."""
    return {"throttle_cb": lambda event: throttled.append(event.throttle_time)}


def send(cluster: Cluster, count: int, size: int = 10_000) -> Throttled:
    """Produce records, each in a request of its own."""
    throttled: Throttled = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "busy",
            "batch.num.messages": 1,
            "acks": 1,
            **told(throttled),
        }
    )
    for _ in range(count):
        producer.produce("t", bytes(size), partition=0)
    assert producer.flush(60) == 0
    return throttled


def read(cluster: Cluster, count: int) -> Throttled:
    """Consume records from the beginning."""
    throttled: Throttled = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "busy",
            "group.id": "none",
            **told(throttled),
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    seen = 0
    while seen < count:
        message = consumer.poll(30)
        assert message is not None, f"{seen} of {count}"
        assert message.error() is None, message.error()
        seen += 1
    consumer.close()
    return throttled


def test_a_producer_over_its_quota_is_slowed_down(cluster: Cluster) -> None:
    wire = Wire(cluster)
    assert send(cluster, 20) == []
    limit(wire, {"client-id": "busy"}, producer_byte_rate=100_000.0)
    # 200 kB at 100 kB a second, the first second of which is free.
    throttled = send(cluster, 20)
    limit(wire, {"client-id": "busy"}, producer_byte_rate=None)
    assert throttled
    assert max(throttled) <= 2
    assert send(cluster, 1) == []


def test_a_consumer_over_its_quota_is_slowed_down_and_misses_nothing(cluster: Cluster) -> None:
    wire = Wire(cluster)
    assert read(cluster, 30) == []
    limit(wire, {"client-id": "busy"}, consumer_byte_rate=150_000.0)
    throttled = read(cluster, 30)
    limit(wire, {"client-id": "busy"}, consumer_byte_rate=None)
    assert throttled
    assert max(throttled) <= 2


def test_a_consumer_over_its_quota_is_sent_nothing_for_now(cluster: Cluster) -> None:
    wire = Wire(cluster)
    limit(wire, {"client-id": "reader"}, consumer_byte_rate=1.0)
    first, second = (fetched(cluster, "reader") for _ in range(2))
    limit(wire, {"client-id": "reader"}, consumer_byte_rate=None)
    # One batch is more than is allowed in all: it comes alone, and the next has to wait.
    assert [len(p.records) > 0 for t in first.topics for p in t.partitions] == [True]
    assert second.topics == []
    assert second.throttle_time_ms == 2000
    assert fetched(cluster, "reader").throttle_time_ms == 0


def fetched(cluster: Cluster, client_id: str) -> FetchResponse:
    host, _, port = cluster.bootstrap_servers.partition(":")

    async def ask() -> FetchResponse:
        connection = await Connection.open(host, int(port), client_id)
        try:
            wanted = FetchTopic("t", ZERO_ID, [FetchPartition(0, -1, 0)])
            return await connection.fetch(12, FetchRequest(max_wait_ms=0, topics=[wanted]))
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_a_client_that_keeps_the_broker_busy_is_told_to_wait(cluster: Cluster) -> None:
    wire = Wire(cluster)
    limit(wire, {"client-id": "busy"}, request_percentage=0.001)
    throttled = send(cluster, 2)
    metadata = wire.ask(ApiKey.METADATA, 12, metadata_message.Request(), name="busy")
    listed = wire.ask(ApiKey.LIST_GROUPS, 4, list_groups.Request(), name="busy")
    other = wire.ask(ApiKey.LIST_GROUPS, 4, list_groups.Request(), name="quiet")
    limit(wire, {"client-id": "busy"}, request_percentage=None)
    assert throttled
    assert max(throttled) <= 1  # never longer than one window
    assert 0 < metadata.throttle_time_ms <= 1000
    assert 0 < listed.throttle_time_ms <= 1000
    assert other.throttle_time_ms == 0
    assert send(cluster, 1) == []


def is_answered(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(4))
    except ConnectionResetError:
        return False


def test_an_address_that_connects_too_often_is_turned_away(cluster: Cluster) -> None:
    wire = Wire(cluster)
    host, _, port = cluster.bootstrap_servers.partition(":")
    limit(wire, {"ip": "127.0.0.2"}, connection_creation_rate=2.0)
    versions = encode_request_frame(ApiKey.API_VERSIONS, 0, 1, "c", b"")
    answers = []
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            address, source = (host, int(port)), ("127.0.0.2", 0)
            stack.enter_context(sock := socket.create_connection(address, 10, source))
            sock.sendall(versions)
            answers.append(sock)
        # Whoever was turned away is served nothing, and sees the connection end.
        served = [is_answered(sock) for sock in answers]
    limit(wire, {"ip": "127.0.0.2"}, connection_creation_rate=None)
    assert served[0]
    assert not all(served)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_catches_up_slowly_until_the_throttle_is_lifted(side: str) -> None:
    settings = {
        "replication.quota.window.num": 2,
        "replication.quota.window.size.seconds": 1,
        "replica.fetch.max.bytes": 50_000,
        "replica.fetch.response.max.bytes": 50_000,
    }
    with Cluster(2, settings=settings) as cluster:
        wire = Wire(cluster)
        lagging = wire.other
        leading = next(b for b in cluster.running if b != lagging)
        assert codes(wire.create(topic("t", assigned={0: [leading, lagging]}))) == [E.NONE]
        replicas, rate = (f"{side}.replication.throttled.{what}" for what in ("replicas", "rate"))
        check(wire.alter(TOPIC, "t", (replicas, SET, "*")), E.NONE, None)
        check(wire.alter(BROKER, "", (rate, SET, "100000")), E.NONE, None)
        cluster.stop_broker(lagging)
        send(cluster, 60)
        cluster.start_broker(lagging)
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            cluster.wait_for_isr("t", size=2, timeout_s=2.5)
        check(wire.alter(BROKER, "", (rate, SET, str(2**40))), E.NONE, None)
        cluster.wait_for_isr("t", size=2, timeout_s=10)
        assert time.monotonic() - started < 10
