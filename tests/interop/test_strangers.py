"""Strangers at the brokers' own door: every request that is for brokers only, in every version."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from interop.wire import Wire
from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.client.errors import ConnectionLost
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.messages import (
    add_partitions_to_txn,
    leader_and_isr,
    list_offsets,
    offset_for_leader_epoch,
    stop_replica,
    update_metadata,
    write_txn_markers,
)
from klamm.protocol.private import PrivateKey
from klamm.protocol.produce import PartitionRecords, ProduceRequest, TopicRecords
from wire.messages import random_message

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
HUGE = 2**30
CONTROL = [
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.WRITE_TXN_MARKERS,
]
VERSIONS = [
    pytest.param(key, version, id=f"{APIS[key].title}-v{version}")
    for key in CONTROL
    for version in range(APIS[key].served.low, APIS[key].served.high + 1)
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        running.create_topic("t", 2, 2)
        yield running


@pytest.fixture(scope="module")
def wire(cluster: Cluster) -> Wire:
    return Wire(cluster)


def facts(cluster: Cluster) -> Any:
    """All that a stranger could have changed."""
    brokers = cluster._app.brokers.values()
    return {
        broker.id: (
            broker.parts.replicas.controller_epoch,
            broker.parts.metadata.snapshot.topics,
            broker.parts.metadata.snapshot.brokers.keys(),
            {
                at: (p.role, p.leader_epoch, p.log and (p.log.log_end_offset, p.log.high_watermark))
                for at, p in broker.parts.replicas.partitions.items()
            },
        )
        for broker in brokers
    }


def forged(key: ApiKey, version: int, epoch: int) -> Any:
    """A request that would do harm if it were believed."""
    request = random_message(key, version, "Request", random.Random(f"{key} {version}"))
    if hasattr(request, "controller_epoch"):
        request.controller_epoch = epoch
    if hasattr(request, "broker_epoch"):
        request.broker_epoch = -1
    match request:
        case stop_replica.Request():
            request.delete_partitions = True
            if version >= 3:
                doomed = stop_replica.StopReplicaPartitionState(0, -1, True)
                request.topic_states = [stop_replica.StopReplicaTopicState("t", [doomed])]
            elif version >= 1:
                request.topics = [stop_replica.StopReplicaTopicV1("t", [0])]
            else:
                request.ungrouped_partitions = [stop_replica.StopReplicaPartitionV0("t", 0)]
        case write_txn_markers.Request():
            topic = write_txn_markers.WritableTxnMarkerTopic("t", [0, 1])
            request.markers = [write_txn_markers.WritableTxnMarker(7, 0, True, [topic], 0)]
    return request


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_what_only_brokers_may_ask_is_refused_and_changes_nothing(
    cluster: Cluster, wire: Wire, key: ApiKey, version: int
) -> None:
    before = facts(cluster)
    epoch = cluster._app.brokers[0].parts.replicas.controller_epoch
    for broker, claimed in ((0, HUGE), (1, HUGE), (0, epoch), (1, epoch)):
        answer = wire.ask(key, version, forged(key, version, claimed), broker=broker)
        if key is ApiKey.WRITE_TXN_MARKERS:
            told = [p.error_code for m in answer.markers for t in m.topics for p in t.partitions]
            assert told == [REFUSED, REFUSED]
        else:
            assert answer.error_code == REFUSED
    assert facts(cluster) == before


def test_a_batch_of_transactions_is_refused(wire: Wire) -> None:
    asked = add_partitions_to_txn.AddPartitionsToTxnTransaction("x", 1, 0, True, [])
    for version in (4, 5):
        request = add_partitions_to_txn.Request(transactions=[asked])
        answer = wire.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
        assert answer.error_code == REFUSED


def ask_privately(wire: Wire, key: int, *bodies: dict[str, Any], broker: int = 0) -> Any:
    endpoint = wire.cluster._app.brokers[broker].endpoint

    async def exchange() -> Any:
        connection = await Connection.open(endpoint.host, endpoint.port, "stranger")
        try:
            return [await connection.ask(key, body) for body in bodies]
        finally:
            await connection.close()

    return asyncio.run(exchange())


def test_a_roll_call_of_a_stranger_fences_nobody(cluster: Cluster, wire: Wire) -> None:
    before = facts(cluster)
    body = {"controller": 9, "controller_epoch": HUGE, "broker_epoch": HUGE}
    (answer,) = ask_privately(wire, PrivateKey.ROLL_CALL, body)
    assert answer["error_code"] == REFUSED
    assert "replicas" not in answer
    assert facts(cluster) == before


def test_a_stranger_writes_nobody_elses_name_into_the_ledger(wire: Wire) -> None:
    controller = wire.cluster.controller_id
    assert controller is not None
    body = {"kind": "creation", "topics": ["t"], "by": "User:ada"}
    (answer,) = ask_privately(wire, PrivateKey.NOTE, body, broker=controller)
    assert answer["error_code"] == REFUSED


def test_what_the_command_line_asks_is_open(wire: Wire) -> None:
    controller = wire.cluster.controller_id
    assert controller is not None
    (story,) = ask_privately(wire, PrivateKey.STORY, {"topic": "t"}, broker=controller)
    assert story["error_code"] == 0
    (explained,) = ask_privately(wire, PrivateKey.EXPLAIN, {"topic": "t"}, broker=controller)
    assert explained["error_code"] == 0
    (rest,) = ask_privately(wire, PrivateKey.AT_REST, {"topics": ["t"]})
    assert rest["error_code"] == 0


def test_a_claim_without_the_secret_gets_nowhere(wire: Wire) -> None:
    claim, noise = {"broker": 1, "nonce": "00" * 32}, {"proof": "00" * 32}
    told, refused = ask_privately(wire, PrivateKey.PROVE, claim, noise)
    assert set(told) == {"error_code", "nonce"}, "nothing but a random number"
    assert refused["error_code"] == REFUSED
    assert "proof" not in refused
    with pytest.raises(ConnectionLost):
        ask_privately(wire, PrivateKey.PROVE, claim, noise, claim)
    with pytest.raises(ConnectionLost):
        ask_privately(wire, PrivateKey.PROVE, claim | {"more": "x" * 600})


def test_who_calls_itself_a_follower_learns_no_offsets(cluster: Cluster, wire: Wire) -> None:
    leader, denied = cluster.wait_for_leader("t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(0, -1, -1)])
    for version in range(1, 10):
        answer = wire.ask(
            ApiKey.LIST_OFFSETS, version, list_offsets.Request(1, 0, [topic]), broker=leader
        )
        assert answer.topics[0].partitions[0].error_code == denied
    asked = offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)
    epochs = offset_for_leader_epoch.OffsetForLeaderTopic("t", [asked])
    for version in (3, 4):
        request = offset_for_leader_epoch.Request(1, [epochs])
        answer = wire.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request, broker=leader)
        assert answer.topics[0].partitions[0].error_code == denied


async def test_a_name_alone_opens_no_internal_topic(cluster: Cluster, wire: Wire) -> None:
    broker = cluster._app.brokers[0]
    batch = memoryview(encode_batch([Record(0, 1, b"k", b"v")]))

    async def exchange(name: str, *, proven: bool = False) -> int:
        connection = (
            await broker.parts.peers.connect(broker.id, broker.endpoint, name)
            if proven
            else await Connection.open(broker.endpoint.host, broker.endpoint.port, name)
        )
        try:
            topics = [TopicRecords("__consumer_offsets", [PartitionRecords(0, batch)])]
            answer = await connection.produce(11, ProduceRequest(None, 1, 1000, topics))
            assert answer is not None
            return answer.topics[0].partitions[0].error_code
        finally:
            await connection.close()

    assert await exchange("anybody") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await exchange("__admin_client") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    proven = cluster._run(exchange("__admin_client", proven=True))
    assert proven == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a broker may; there is none yet"


def test_a_controller_that_nobody_elected_is_not_obeyed(cluster: Cluster, wire: Wire) -> None:
    """Even where it comes from a broker of this cluster, the store has the last word."""
    broker, before = cluster._app.brokers[0], facts(cluster)

    async def exchange() -> list[int]:
        connection = await broker.parts.peers.connect(broker.id, broker.endpoint, "controller-9")
        try:
            told = update_metadata.Request(controller_id=9, controller_epoch=HUGE)
            order = leader_and_isr.Request(controller_id=9, controller_epoch=HUGE)
            stop = stop_replica.Request(controller_id=9, controller_epoch=HUGE)
            answers = [
                await connection.request(ApiKey.UPDATE_METADATA, 8, told),
                await connection.request(ApiKey.LEADER_AND_ISR, 7, order),
                await connection.request(ApiKey.STOP_REPLICA, 4, stop),
            ]
            body = {"controller": 9, "controller_epoch": HUGE, "broker_epoch": broker.parts.epoch}
            called = await connection.ask(PrivateKey.ROLL_CALL, body)
            return [*(answer.error_code for answer in answers), called["error_code"]]
        finally:
            await connection.close()

    assert cluster._run(exchange()) == [REFUSED] * 4
    assert facts(cluster) == before
    name = f"after-{uuid.uuid4().hex}"
    cluster.create_topic(name, 1, 2)
    cluster.wait_for_isr(name)


def test_the_secret_is_in_the_store_and_nowhere_else(cluster: Cluster, wire: Wire) -> None:
    assert "/klamm/secret" in cluster.store_paths()

    async def read(session: Any) -> bytes:
        node = await session.get("/klamm/secret")
        assert node is not None
        return bytes(node.data)

    stored = wire.in_store(read)
    assert len(stored) > 40
    assert repr(cluster._app.brokers[0].parts.secret) == "Secret(hidden)"


def test_peers_that_cannot_prove_are_admitted_by_address_where_the_operator_says_so() -> None:
    setting = {"klamm.internal.requests.from": "proof,127.0.0.0/8"}
    with Cluster(brokers=1, settings=setting) as running:
        epoch = running._app.brokers[0].parts.replicas.controller_epoch
        request = update_metadata.Request(controller_id=0, controller_epoch=epoch)
        answer = Wire(running).ask(ApiKey.UPDATE_METADATA, 8, request, broker=0)
        assert answer.error_code == 0
        stranger = update_metadata.Request(controller_id=0, controller_epoch=HUGE)
        answer = Wire(running).ask(ApiKey.UPDATE_METADATA, 8, stranger, broker=0)
        assert answer.error_code == REFUSED, "not even they may make up an epoch"
