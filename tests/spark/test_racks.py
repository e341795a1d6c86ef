"""A reader that names its rack reads from the replica there, and from the leader when it must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from klamm import Cluster
from klamm.client.blocking import wire
from klamm.pipelines.source.fetcher import read_range
from klamm.pipelines.source.options import ReadOptions, parse_read
from klamm.pipelines.source.planning import plan_batch

from .conftest import FOREIGN

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COUNT = 500


@pytest.fixture
def two_racks() -> Iterator[tuple[Cluster, int]]:
    """A cluster with a broker in each rack, a topic on both of them, and its leader."""
    settings = {"replica.selector.class": RACK_AWARE}
    with Cluster(brokers=2, racks=("east", "west"), settings=settings) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        cluster.wait_for_isr("t", size=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.size": 1000})
        for number in range(COUNT):
            producer.produce("t", b"%d" % number)
        assert producer.flush(30) == 0
        wire.close_idle()
        yield cluster, cluster.wait_for_leader("t")
    wire.close_idle()


def _options(cluster: Cluster, **more: str) -> ReadOptions:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "t",
        "kafka.max.partition.fetch.bytes": "2000",
    }
    return parse_read(given | more, streaming=False)


def _values(frames: Iterator[Any]) -> list[int]:
    return [int(v) for frame in frames for v in frame.column("value").to_pylist()]


@pytest.mark.skipif(FOREIGN is not None, reason="needs brokers in racks")
def test_a_reader_that_names_its_rack(two_racks: tuple[Cluster, int]) -> None:
    cluster, leader = two_racks
    near = 1 - leader
    options = _options(cluster, **{"kafka.client.rack": ("east", "west")[near]})
    ((piece,),) = plan_batch(options)
    wire.close_idle()
    assert _values(read_range(options, piece, ("value",))) == list(range(COUNT))
    asked = {port for (_, port), _ in wire._idle}
    assert len(asked - {piece.port}) == 1, "nobody but the leader was asked"

    frames = read_range(options, piece, ("value",))
    begun = _values(iter([next(frames)]))
    cluster.kill_broker(near)  # in the midst of it: the leader has the rest
    assert begun + _values(frames) == list(range(COUNT))
