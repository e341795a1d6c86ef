"""Brokers that are not klamm's in one cluster with klamm's, byte for byte as they would speak.

They cannot prove what they are, so the cluster admits this machine's addresses. Their side is
spoken by hand: no Apache Kafka is needed here.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from interop.foreign import ForeignBroker, error, foreign_broker
from interop.wire import BROKER, SET, Wire
from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.client.aio.cluster import TRANSACTION_KEY, Client
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode as E
from klamm.model.names import ZERO_ID, TopicPartition
from klamm.protocol import fetch
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from klamm.protocol.messages import (
    add_partitions_to_txn,
    alter_partition,
    api_versions,
    create_topics,
    init_producer_id,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from klamm.store import layout
from klamm.store.port import Session

T = TypeVar("T")
ADMITTED = {"klamm.internal.requests.from": "proof,127.0.0.0/8"}
Topic = add_partitions_to_txn.AddPartitionsToTxnTopic


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {**ADMITTED, "transaction.state.log.num.partitions": "1"}
    with Cluster(2, settings=settings) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=2)
        yield cluster


@pytest.fixture
def wire(cluster: Cluster) -> Wire:
    return Wire(cluster)


def with_client(cluster: Cluster, work: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Client(cluster.bootstrap_servers) as client:
            return await work(client)

    return asyncio.run(run())


def offered(wire: Wire, broker: int | None = None) -> dict[int, tuple[int, int]]:
    """The versions that a client is told of, by API."""
    request = api_versions.Request("apache-kafka-java", "3.9.1")
    answer = wire.ask(ApiKey.API_VERSIONS, 3, request, broker=broker)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


@pytest.mark.parametrize(
    ("version", "not_added"), [(4, E.INVALID_TXN_STATE), (5, E.TRANSACTION_ABORTABLE)]
)
def test_a_leader_of_another_kind_can_verify_a_transaction(
    cluster: Cluster, wire: Wire, version: int, not_added: E
) -> None:
    assert offered(wire)[ApiKey.ADD_PARTITIONS_TO_TXN] == (0, 5)
    name = f"verified-by-{version}"

    async def open_one(client: Client) -> tuple[int, int]:
        request = init_producer_id.Request(name, 60_000)
        got = await client.at_coordinator(
            name, ApiKey.INIT_PRODUCER_ID, request, kind=TRANSACTION_KEY
        )
        assert got.error_code == 0
        added = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=got.producer_id,
            v3_and_below_producer_epoch=got.producer_epoch,
            v3_and_below_topics=[Topic("t", [0])],
        )
        answer = await client.at_coordinator(
            name, ApiKey.ADD_PARTITIONS_TO_TXN, added, kind=TRANSACTION_KEY
        )
        (topic,) = answer.results_by_topic_v3_and_below
        assert [p.partition_error_code for p in topic.results_by_partition] == [0]
        return got.producer_id, got.producer_epoch

    producer = with_client(cluster, open_one)
    coordinator = cluster.partition("__transaction_state")
    assert coordinator is not None
    asked = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        name, *producer, True, [Topic("t", [0, 1])]
    )
    answer = wire.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        add_partitions_to_txn.Request(transactions=[asked]),
        broker=coordinator.leader,
    )
    (result,) = answer.results_by_transaction
    (topic,) = result.topic_results
    assert [p.partition_error_code for p in topic.results_by_partition] == [E.NONE, not_added]


class Foreign:
    """The side of a foreign controller, spoken by hand."""

    def __init__(self, cluster: Cluster, broker: ForeignBroker, to: int = 0) -> None:
        self.cluster = cluster
        self.broker = broker
        self.to = to
        self.parts = cluster._app.brokers[to].parts

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        endpoint = self.parts.endpoint
        connection = await Connection.open(endpoint.host, endpoint.port, "foreign")
        try:
            return await connection.request(key, version, request)
        finally:
            await connection.close()

    async def order(self, topic: str, *, version: int = 4, **state: Any) -> list[int]:
        """Order one partition as a controller would; the codes of the answer."""
        topic_id = state.pop("topic_id", ZERO_ID)
        controller_id = state.pop("controller_id", self.broker.id)
        order = leader_and_isr.LeaderAndIsrPartitionState(
            partition_index=0, controller_epoch=self.parts.replicas.controller_epoch, **state
        )
        request = leader_and_isr.Request(
            controller_id=controller_id,
            controller_epoch=self.parts.replicas.controller_epoch,
            topic_states=[leader_and_isr.LeaderAndIsrTopicState(topic, topic_id, [order])],
            live_leaders=[
                leader_and_isr.LeaderAndIsrLiveLeader(self.broker.id, "127.0.0.1", self.broker.port)
            ],
        )
        answer = await self.ask(ApiKey.LEADER_AND_ISR, version, request)
        assert answer.error_code == 0, answer
        if version < 5:
            return [each.error_code for each in answer.partition_errors]
        return [each.error_code for t in answer.topics for each in t.partition_errors]

    async def stop(self, topic: str) -> None:
        """Have the replica stopped and deleted."""
        state = stop_replica.StopReplicaPartitionState(0, -1, True)
        request = stop_replica.Request(
            controller_id=self.broker.id,
            controller_epoch=self.parts.replicas.controller_epoch,
            topic_states=[stop_replica.StopReplicaTopicState(topic, [state])],
        )
        answer = await self.ask(ApiKey.STOP_REPLICA, 3, request)
        assert answer.error_code == 0, answer

    async def take_over(self) -> None:
        """Let the broker take the foreign one for the controller."""
        request = update_metadata.Request(
            controller_id=self.broker.id,
            controller_epoch=self.parts.replicas.controller_epoch,
            live_brokers=[
                update_metadata.UpdateMetadataBroker(
                    id=broker_id,
                    endpoints=[
                        update_metadata.UpdateMetadataEndpoint(port, "127.0.0.1", "PLAINTEXT", 0)
                    ],
                )
                for broker_id, port in (
                    (self.to, self.parts.endpoint.port),
                    (self.broker.id, self.broker.port),
                )
            ],
        )
        answer = await self.ask(ApiKey.UPDATE_METADATA, 6, request)
        assert answer.error_code == 0, answer


BATCH = bytes(encode_batch([Record(0, 1_000, None, b"from a foreign leader")]))


def one_batch(version: int, request: FetchRequest) -> FetchResponse:
    """The batch to whoever asks for offset 0; nothing behind it."""
    topics = [
        fetch.TopicData(
            t.name,
            t.topic_id,
            [
                fetch.PartitionData(p.partition, 0, 1, 1, 0, records=BATCH)
                for p in t.partitions
                if p.fetch_offset == 0
            ],
        )
        for t in request.topics
    ]
    return FetchResponse(
        session_id=request.session_id or 77, topics=[t for t in topics if t.partitions]
    )


def test_a_topic_without_an_id_is_fetched_by_its_name_until_it_has_one(cluster: Cluster) -> None:
    async def run() -> None:
        async with foreign_broker(cluster) as broker:
            foreign = Foreign(cluster, broker)
            broker.answer_fetch = one_batch
            state = {"leader": 10, "leader_epoch": 3, "isr": [10], "replicas": [10, 0]}
            assert await foreign.order("old", **state) == [E.NONE]
            await broker.until(lambda: len(_asked_from(broker, 1)) > 0)
            assert {version for version, _ in broker.of(ApiKey.FETCH)} == {12}
            (topic,) = broker.of(ApiKey.FETCH)[0][1].topics
            assert (topic.name, topic.topic_id) == ("old", ZERO_ID)
            replica = foreign.parts.replicas.partition(TopicPartition("old", 0))
            assert replica is not None
            assert replica.log is not None
            assert (replica.log.log_end_offset, replica.log.high_watermark) == (1, 1)

            # A later controller gives it an id, and leaves the leader epoch as it is.
            topic_id = uuid.uuid4()
            codes = await foreign.order("old", version=7, topic_id=topic_id, **state)
            assert codes == [E.NONE]
            assert replica.log.topic_id == topic_id
            await broker.until(lambda: broker.of(ApiKey.FETCH)[-1][0] == 17)
            last = next(r for v, r in broker.of(ApiKey.FETCH) if v == 17)
            assert (last.session_id, last.session_epoch) == (0, 0)
            assert [t.topic_id for t in last.topics] == [topic_id]

            # And one from before ids takes over again, which is no election either.
            assert await foreign.order("old", **state) == [E.NONE]
            await broker.until(lambda: broker.of(ApiKey.FETCH)[-1][0] == 12)
            assert replica.log.topic_id == topic_id
            assert await foreign.order("old", **state) == [E.STALE_CONTROLLER_EPOCH]
            await foreign.stop("old")

    asyncio.run(run())


def _asked_from(broker: ForeignBroker, offset: int) -> list[FetchPartition]:
    return [
        partition
        for _, request in broker.of(ApiKey.FETCH)
        for topic in request.topics
        for partition in topic.partitions
        if partition.fetch_offset == offset
    ]


def test_a_leader_of_a_topic_without_an_id_asks_for_its_in_sync_set_by_name(
    cluster: Cluster,
) -> None:
    async def run() -> None:
        async with foreign_broker(cluster) as broker:
            foreign = Foreign(cluster, broker)
            await foreign.take_over()
            state = {"leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0, 10]}
            assert await foreign.order("led", is_new=True, **state) == [E.NONE]
            wanted = FetchPartition(0, 0, 0, -1, 0, 1 << 20)
            request = FetchRequest(
                replica_id=10,
                max_wait_ms=0,
                session_epoch=0,
                topics=[FetchTopic("led", ZERO_ID, [wanted])],
            )
            endpoint = foreign.parts.endpoint
            connection = await Connection.open(endpoint.host, endpoint.port, "follower")
            first = await connection.fetch(12, request)
            assert first.topics[0].partitions[0].error_code == 0
            await broker.until(lambda: bool(broker.of(ApiKey.ALTER_PARTITION)))
            version, asked = broker.of(ApiKey.ALTER_PARTITION)[-1]
            assert version == 1
            (topic,) = asked.topics
            assert topic.topic_name == "led"
            assert sorted(topic.partitions[0].new_isr) == [0, 10]

            # A session that began by names does not go on by ids.
            more = FetchRequest(
                replica_id=10, max_wait_ms=0, session_id=first.session_id, session_epoch=1
            )
            by_id = await connection.fetch(17, more)
            assert by_id.error_code == E.FETCH_SESSION_TOPIC_ID_ERROR
            await connection.close()
            await foreign.stop("led")

    asyncio.run(run())


@pytest.mark.parametrize("version", [0, 1])
def test_a_leader_from_before_topic_ids_changes_its_in_sync_set(
    cluster: Cluster, wire: Wire, version: int
) -> None:
    name = f"theirs-{version}"

    async def run() -> None:
        async with foreign_broker(cluster) as broker:
            assignment = [create_topics.CreatableReplicaAssignment(0, [10, 0])]
            topic = create_topics.CreatableTopic(name, -1, -1, assignments=assignment)
            (made,) = await asyncio.to_thread(lambda: wire.create(topic))
            assert made.error_code == 0, made
            (order,) = [
                state
                for _, request in broker.of(ApiKey.LEADER_AND_ISR)
                for each in request.topic_states
                for state in each.partition_states
                if each.topic_name == name
            ]
            asked = alter_partition.PartitionData(
                partition_index=0, leader_epoch=order.leader_epoch, new_isr=[10]
            )
            asked.partition_epoch = order.partition_epoch
            node = await asyncio.to_thread(lambda: wire.in_store(_registration))
            request = alter_partition.Request(
                10, node, [alter_partition.TopicData(name, partitions=[asked])]
            )
            answer = await asyncio.to_thread(
                lambda: wire.ask(ApiKey.ALTER_PARTITION, version, request)
            )
            assert answer.error_code == 0, answer
            (told,) = answer.topics
            assert told.topic_name == name
            assert (told.partitions[0].error_code, told.partitions[0].isr) == (0, [10])

    asyncio.run(run())


async def _registration(session: Session) -> int:
    node = await session.get(layout.broker_path(10))  # type: ignore[arg-type]
    assert node is not None
    return node.stat.czxid


def test_an_error_that_a_leader_repeats_takes_the_partition_out_of_the_session(
    cluster: Cluster,
) -> None:
    """Kafka's leaders tell it with every answer, at once, and end a session that has nothing."""

    async def run() -> None:
        async with foreign_broker(cluster, 12) as broker:
            foreign = Foreign(cluster, broker)
            wanted: list[FetchRequest] = []  # what is in the session
            story: list[str] = []

            def refuse(version: int, request: FetchRequest) -> FetchResponse:
                if request.session_id == 0 and request.session_epoch != 0:
                    story.append("asked in no session")
                    return FetchResponse(error_code=E.FETCH_SESSION_ID_NOT_FOUND)
                if request.topics:
                    story.append("named")
                    wanted[:] = [request]
                if request.forgotten:
                    story.append("taken out")
                    wanted.clear()
                if not wanted:
                    story.append("asked for nothing")
                    return FetchResponse()
                story.append("refused")
                return error(version, request, E.UNKNOWN_LEADER_EPOCH, wanted[0])

            broker.answer_fetch = refuse
            state = {"leader": 12, "leader_epoch": 3, "isr": [12], "replicas": [12, 0]}
            assert await foreign.order("paused", **state) == [E.NONE]
            await broker.until(lambda: story.count("named") >= 3)
            once = ["named", "refused", "refused", "taken out", "asked for nothing"]
            assert story[:11] == [*once, *once, "named"]

            # The error is over: what is named again is fetched.
            broker.answer_fetch = one_batch
            await broker.until(lambda: len(_asked_from(broker, 1)) > 0)
            await foreign.stop("paused")

    asyncio.run(run())


def test_an_answer_that_crosses_the_pause_leaves_nobody_out(cluster: Cluster) -> None:
    """An error, the same again, and then an answer without one that was already on its way."""

    async def run() -> None:
        async with foreign_broker(cluster) as broker:
            foreign = Foreign(cluster, broker)
            first: list[FetchRequest] = []

            def twice_wrong(version: int, request: FetchRequest) -> FetchResponse:
                if request.topics:
                    first.append(request)
                if len(broker.of(ApiKey.FETCH)) <= 2:
                    return error(version, request, E.NOT_LEADER_OR_FOLLOWER, first[0])
                if request.forgotten:
                    # It was on its way before the leader heard that nobody wants it.
                    return error(version, request, E.NONE, first[0])
                return one_batch(version, request)

            broker.answer_fetch = twice_wrong
            state = {"leader": 10, "leader_epoch": 3, "isr": [10], "replicas": [10, 0]}
            assert await foreign.order("crossed", **state) == [E.NONE]
            await broker.until(lambda: len(_asked_from(broker, 1)) > 0)
            await foreign.stop("crossed")

    asyncio.run(run())


def test_the_new_group_protocol_is_offered_only_where_all_brokers_have_it(
    cluster: Cluster, wire: Wire
) -> None:
    new = {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}

    async def run() -> None:
        async with foreign_broker(cluster):
            for broker in cluster.running:
                assert new.isdisjoint(await asyncio.to_thread(offered, wire, broker))

    assert new <= offered(wire).keys()
    asyncio.run(run())
    assert new <= offered(wire).keys()


def test_a_story_is_told_without_those_who_keep_none(
    cluster: Cluster, wire: Wire, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*words: str) -> tuple[int, str, str]:
        async with foreign_broker(cluster):
            code = await asyncio.to_thread(
                main, ["story", "t", "-b", cluster.bootstrap_servers, *words]
            )
        return code, *capsys.readouterr()

    code, out, err = asyncio.run(run())
    assert (code, err) == (
        0,
        "no story from broker 10, not klamm's: what it decided as the controller is missing here\n",
    )
    assert "the topic was created" in out
    code, out, err = asyncio.run(run("--output", "json"))
    assert code == 0
    assert json.loads(out)[0]["subject"]


def test_a_lost_log_is_a_failed_disk_to_a_controller_of_another_kind() -> None:
    settings = {**ADMITTED, "klamm.election.remember.disk": "true"}

    async def run(cluster: Cluster) -> None:
        async with foreign_broker(cluster) as broker:
            foreign = Foreign(cluster, broker)
            # In sync, not new, under a later epoch: its records should be here.
            state = {"leader": 0, "leader_epoch": 5, "isr": [0], "replicas": [0]}
            assert await foreign.order("lost", **state) == [E.KAFKA_STORAGE_ERROR]
            assert await foreign.order("lost", controller_id=0, **state) == [E.LOG_DIR_NOT_FOUND]

    with Cluster(1, settings=settings) as cluster:
        asyncio.run(run(cluster))


def test_settings_of_klamm_stay_out_of_the_node_that_kafka_reads(wire: Wire) -> None:
    name = "klamm.leader.rebalance.batch"
    answer = wire.alter(BROKER, "", (name, SET, "7"), ("log.cleaner.threads", SET, "2"))
    assert answer.error_code == 0, answer

    async def stored(session: Session) -> list[dict[str, str] | None]:
        every = layout.ConfigEntity(layout.ConfigKind.BROKER, None)
        nodes = await session.get_many(every.paths)
        return [layout.decode_config(node.data) if node else None for node in nodes]

    assert wire.in_store(stored) == [{"log.cleaner.threads": "2"}, {name: "7"}]
    brokers = wire.cluster._app.brokers.values()
    caught_up = [broker.parts.dynamic_config.caught_up for broker in brokers]
    for each in caught_up:
        wire.cluster._run(each())
    assert {broker.parts.settings.int(name) for broker in brokers} == {7}
