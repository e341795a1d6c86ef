"""Quotas and throttles as clients and followers feel them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from interop.wire import BROKER, SET, TOPIC, Wire, check, codes, topic
from klamm import Cluster
from klamm.model.errors import ErrorCode as E
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import alter_client_quotas, describe_client_quotas


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


def send(cluster: Cluster, name: str, count: int, size: int) -> float:
    """How long it takes to produce so many records, each a request of its own."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "busy",
            "batch.num.messages": 1,
            "acks": 1,
        }
    )
    producer.list_topics(name)
    started = time.monotonic()
    for _ in range(count):
        producer.produce(name, bytes(size), partition=0)
    assert producer.flush(60) == 0
    return time.monotonic() - started


def test_a_producer_over_its_quota_is_slowed_down() -> None:
    settings = {"quota.window.num": 2, "quota.window.size.seconds": 1}
    with Cluster(1, settings=settings) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, 1))) == [E.NONE]
        assert send(cluster, "t", 30, 10_000) < 2
        limit(wire, {"client-id": "busy"}, producer_byte_rate=100_000.0)
        # 300 kB at 100 kB a second, the first second of which is free.
        assert send(cluster, "t", 30, 10_000) > 1.5
        limit(wire, {"client-id": "busy"}, producer_byte_rate=None)
        assert send(cluster, "t", 30, 10_000) < 2


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
        send(cluster, "t", 60, 10_000)
        cluster.start_broker(lagging)
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            cluster.wait_for_isr("t", size=2, timeout_s=2.5)
        check(wire.alter(BROKER, "", (rate, SET, str(2**40))), E.NONE, None)
        cluster.wait_for_isr("t", size=2, timeout_s=10)
        assert time.monotonic() - started < 10
