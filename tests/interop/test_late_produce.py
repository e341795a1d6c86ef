"""A batch that comes when its transaction has ended opens no other one (KIP-890), byte for byte."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from klamm import Cluster
from klamm.client.admin import Admin, ConfigChange, Resource, ResourceType
from klamm.client.cluster import TRANSACTION_KEY, Client
from klamm.model.alterations import Operation
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.messages import (
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from klamm.protocol.produce import PartitionRecords, ProduceRequest, TopicRecords

# As many partitions as brokers: some leaders coordinate the transaction, others have to ask.
PARTITIONS = [TopicPartition("t", number) for number in range(3)]
names = (f"late-{number}" for number in itertools.count())


def a_cluster(**more: str) -> Cluster:
    settings = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "3"}
    return Cluster(settings={**settings, **more})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with a_cluster() as cluster:
        cluster.create_topic("t", partitions=3, replication_factor=3)
        yield cluster


class ByHand:
    """A transactional producer that does exactly what it is told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.name = next(names)
        self.id = self.epoch = -1
        self._sequences = dict.fromkeys(PARTITIONS, 0)

    async def begin(self) -> None:
        request = init_producer_id.Request(self.name, 60_000)
        answer = await self._ask(ApiKey.INIT_PRODUCER_ID, request)
        while answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = await self._ask(ApiKey.INIT_PRODUCER_ID, request)
        assert answer.error_code == 0, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    async def add(self, *partitions: TopicPartition) -> None:
        numbers = [at.partition for at in partitions]
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic("t", numbers)],
        )
        answer = await self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, request)
        (topic,) = answer.results_by_topic_v3_and_below
        assert not any(p.partition_error_code for p in topic.results_by_partition), answer

    async def end(self, *, commit: bool) -> None:
        request = end_txn.Request(self.name, self.id, self.epoch, commit)
        answer = await self._ask(ApiKey.END_TXN, request)
        assert answer.error_code == 0, answer

    async def write(self, at: TopicPartition, *, version: int = 11) -> int:
        """The code of the answer; a code that asks for another try is answered with one."""
        record = Record(offset=0, timestamp=1, key=None, value=b"v", headers=())
        batch = encode_batch(
            [record],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[at],
            is_transactional=True,
        )
        part = PartitionRecords(at.partition, memoryview(batch))
        request = ProduceRequest(self.name, -1, 10_000, [TopicRecords(at.topic, [part])])
        code: int = ErrorCode.NOT_ENOUGH_REPLICAS
        while code == ErrorCode.NOT_ENOUGH_REPLICAS:
            leader = (await self.client.refresh(["t"])).leader(at)
            assert leader is not None, at
            connection = await self.client.to_node(leader.leader_id, self.client.deadline())
            answer = await connection.produce(version, request)
            assert answer is not None
            code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            self._sequences[at] += 1
        return code

    async def commit_offset(self, group: str) -> int:
        """The code of an offset committed without having told the transaction's coordinator."""
        partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5)
        request = txn_offset_commit.Request(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic("t", [partition])],
        )
        code: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # until all know the offsets topic
        while code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            answer = await self.client.at_coordinator(group, ApiKey.TXN_OFFSET_COMMIT, request)
            code = answer.topics[0].partitions[0].error_code
        return code

    async def open_in(self) -> list[TopicPartition]:
        """Where this producer has a transaction that is not ended."""
        found = await Admin(self.client).producers(PARTITIONS)
        return [
            at
            for at, answer in found.items()
            for each in answer.active_producers
            if each.producer_id == self.id and each.current_txn_start_offset >= 0
        ]

    async def _ask(self, key: ApiKey, request: Any) -> Any:
        return await self.client.at_coordinator(self.name, key, request, kind=TRANSACTION_KEY)


def by_hand(cluster: Cluster, work: Callable[[ByHand], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            producer = ByHand(client)
            await producer.begin()
            await work(producer)

    asyncio.run(run())


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(
    ("version", "told"),
    [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_late_batch_opens_nothing(
    cluster: Cluster, commit: bool, version: int, told: ErrorCode
) -> None:
    async def work(producer: ByHand) -> None:
        await producer.add(*PARTITIONS)
        assert [await producer.write(at, version=version) for at in PARTITIONS] == [0, 0, 0]
        assert await producer.open_in() == PARTITIONS
        await producer.end(commit=commit)
        while await producer.open_in():
            pass  # a batch that is there before the marker is still part of what it ends
        assert [await producer.write(at, version=version) for at in PARTITIONS] == [told] * 3
        assert await producer.open_in() == []

    by_hand(cluster, work)


def test_a_partition_that_was_not_added_is_refused_and_the_others_go_on(cluster: Cluster) -> None:
    async def work(producer: ByHand) -> None:
        await producer.add(PARTITIONS[0])
        assert await producer.write(PARTITIONS[0]) == 0
        assert await producer.write(PARTITIONS[1]) == ErrorCode.TRANSACTION_ABORTABLE
        await producer.add(PARTITIONS[1])
        assert await producer.write(PARTITIONS[1]) == 0
        assert await producer.write(PARTITIONS[0]) == 0
        await producer.end(commit=True)

    by_hand(cluster, work)


def test_a_fenced_producer_is_told_so(cluster: Cluster) -> None:
    async def work(producer: ByHand) -> None:
        await producer.add(PARTITIONS[0])
        old = producer.epoch
        await producer.end(commit=False)
        await producer.begin()
        producer.epoch, new = old, producer.epoch
        assert new > old
        assert await producer.write(PARTITIONS[1]) == ErrorCode.INVALID_PRODUCER_EPOCH

    by_hand(cluster, work)


def test_offsets_need_their_transaction_too(cluster: Cluster) -> None:
    async def work(producer: ByHand) -> None:
        assert await producer.commit_offset("g") == ErrorCode.TRANSACTION_ABORTABLE

    by_hand(cluster, work)


def test_an_operator_may_do_without(cluster: Cluster) -> None:
    async def work(producer: ByHand) -> None:
        change = ConfigChange(Operation.SET, "transaction.partition.verification.enable", "false")
        everybody = Resource(ResourceType.BROKER, "")
        (changed,) = await Admin(producer.client).change_configs({everybody: [change]})
        assert changed.error_code == 0, changed
        while await producer.write(PARTITIONS[0]) != 0:
            pass  # brokers hear of settings one after the other
        # So this is what the question is good for: nobody will ever end this one.
        assert await producer.open_in() == [PARTITIONS[0]]

    by_hand(cluster, work)
