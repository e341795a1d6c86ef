"""Topics that are imported: closed to clients, filled with batches that have their offsets."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from klamm import Cluster
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.importing import ImportLink, ImportTarget
from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.wire import Wire, lease
from klamm.client.errors import Answered
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol import private
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.private import PrivateKey

IMPORTING = {"klamm.importing": "true", "klamm.import.leader.epoch": "9"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def lookup(cluster: Cluster) -> Lookup:
    return Lookup(ConnectionOptions(bootstrap=parse_bootstrap(cluster.bootstrap_servers)))


def target(lookup: Lookup, name: str, log_start: int = 0) -> ImportTarget:
    return ImportTarget(
        connection=lookup.options,
        place=TopicPartition(name, 0),
        topic_id=lookup.view([name]).topics[name].id,
        log_start=log_start,
    )


def batch(first: int, last: int, epoch: int) -> bytes:
    records = [Record(n, 1000 + n, b"k%d" % n, b"v%d" % n) for n in range(first, last + 1, 2)]
    return encode_batch(records, base_offset=first, last_offset=last, leader_epoch=epoch)


def epochs(cluster: Cluster, broker: int, name: str) -> Any:
    """Of one broker's copy: its offsets, and which leader epoch begins where."""
    replicas = cluster._app.brokers[broker].parts.replicas
    local = replicas.partitions[TopicPartition(name, 0)].log
    assert local is not None
    return local.log_start_offset, local.log_end_offset, local.epochs.entries


def test_batches_keep_their_offsets_whoever_leads(cluster: Cluster, lookup: Lookup) -> None:
    name = "moved"
    lookup.create(name, 1, replicas=3, configs=IMPORTING)
    with ImportLink(target(lookup, name, 100)) as link:
        assert link.ask() == 100
        link.send([batch(100, 109, 2), batch(115, 120, 4)])
        link.flush()
        assert (link.log_start, link.log_end) == (100, 121)
    led = cluster.partition(name)
    assert led is not None
    assert led.leader_epoch == 9
    cluster.stop_broker(led.leader)
    cluster.wait_for_leader(name, other_than=led.leader)
    with ImportLink(target(lookup, name, 100)) as link:
        assert link.ask() == 121
        # What is there already is passed over.
        link.send([batch(115, 120, 4), batch(121, 129, 4), batch(130, 130, 7)])
        link.flush()
    cluster.start_broker(led.leader)
    cluster.wait_for_isr(name)
    lookup.alter(name, dict.fromkeys(IMPORTING))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    told: list[int] = []
    producer.produce(name, b"next", on_delivery=lambda _, m: told.append(m.offset()))
    assert producer.flush(30) == 0
    assert told == [131]
    cluster.wait_for_isr(name)
    copies = {broker: epochs(cluster, broker, name) for broker in range(3)}
    assert copies[0] == copies[1] == copies[2]
    start, end, found = copies[0]
    assert (start, end) == (100, 132)
    assert found[:3] == ((2, 100), (4, 115), (7, 130))
    assert found[3][0] > 9
    assert found[3][1] == 131


def test_producers_wait_until_it_has_ended(cluster: Cluster, lookup: Lookup) -> None:
    name = "waited"
    lookup.create(name, 1, replicas=2, configs=IMPORTING)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    told: list[int] = []
    producer.produce(name, b"early", on_delivery=lambda _, m: told.append(m.offset()))
    assert producer.flush(0.5) == 1
    changing = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    changing.init_transactions(30)
    changing.begin_transaction()
    changing.produce(name, b"never")
    changing.poll(0.5)
    changing.abort_transaction(30)  # and its marker is not in the way of what is imported
    with ImportLink(target(lookup, name)) as link:
        assert link.ask() == 0
        link.send([batch(0, 4, 0)])
        link.flush()
        lookup.alter(name, dict.fromkeys(IMPORTING))
        assert producer.flush(30) == 0
        assert told == [5]
        with pytest.raises(Answered, match="is not being imported"):
            link.ask()


def test_a_topic_that_serves_is_not_imported(cluster: Cluster, lookup: Lookup) -> None:
    lookup.create("serves", 1, configs={})
    change = ConfigEntry("klamm.importing", "true", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, "serves", incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (done,) = admin.incremental_alter_configs([wanted]).values()
    with pytest.raises(KafkaException) as refused:
        done.result(30)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert "can only be set when a topic is created" in refused.value.args[0].str()


def asked(lookup: Lookup, name: str, head: dict[str, Any]) -> dict[str, Any]:
    """The answer of a leader to an import that begins so."""
    wire = Wire.open(lookup.view([name]).leader(TopicPartition(name, 0)).address, lookup.options)
    try:
        raw = json.dumps(head).encode()
        wire.post(PrivateKey.IMPORT_RECORDS, private.VERSION, struct.pack(">I", len(raw)), raw)
        return private.decode(wire.take())
    finally:
        wire.close()


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"topic_id": "A" * 22}, "is another one now"),
        ({"topic_id": "A"}, "the topic's id is none"),
        ({"partition": 7}, "elsewhere-7 is not led here"),
        ({"topic": "__consumer_offsets"}, "__consumer_offsets is internal"),
        ({"log_start": -1}, "no log begins at -1"),
        ({"topic": 5}, "topic must be a text"),
        ({"timeout_ms": "x"}, "timeout_ms must be a whole number"),
    ],
)
def test_batches_for_something_else_are_refused(
    lookup: Lookup, head: dict[str, Any], words: str
) -> None:
    if "elsewhere" not in lookup.view(["elsewhere"]).topics:
        lookup.create("elsewhere", 1, configs=IMPORTING)
    known = lookup.view(["elsewhere"]).topics["elsewhere"].id
    whole = {"topic": "elsewhere", "topic_id": known, "partition": 0}
    answer = asked(lookup, "elsewhere", {**whole, **head})
    assert answer["error_code"] != 0
    assert words in answer["error_message"]


def test_only_who_acts_for_the_cluster_imports() -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:nobody",
    }
    with Cluster(brokers=1, settings=settings) as guarded:
        options = ConnectionOptions(bootstrap=parse_bootstrap(guarded.bootstrap_servers))
        with lease(options.bootstrap[0], options) as wire:
            wire.post(PrivateKey.IMPORT_RECORDS, private.VERSION, struct.pack(">I", 2), b"{}")
            answer = private.decode(wire.take())
        assert answer["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
