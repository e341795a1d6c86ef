"""A transactional producer that does exactly what it is told, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import TRANSACTION_KEY, Client
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


class ByHand:
    """A transactional producer that does exactly what it is told."""

    def __init__(self, client: Client, name: str, partitions: Sequence[TopicPartition]) -> None:
        self.client = client
        self.name = name
        self.id = self.epoch = -1
        self._partitions = partitions
        self._topic = partitions[0].topic
        self._sequences = dict.fromkeys(partitions, 0)

    async def begin(self) -> None:
        request = init_producer_id.Request(self.name, 60_000)
        answer = await self._ask(ApiKey.INIT_PRODUCER_ID, request)
        while answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = await self._ask(ApiKey.INIT_PRODUCER_ID, request)
        assert answer.error_code == 0, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    async def add(self, *partitions: TopicPartition) -> None:
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(
            self._topic, [at.partition for at in partitions]
        )
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        answer = await self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, request)
        (result,) = answer.results_by_topic_v3_and_below
        assert not any(p.partition_error_code for p in result.results_by_partition), answer

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
            leader = (await self.client.refresh([self._topic])).leader(at)
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
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(self._topic, [partition])],
        )
        code: int = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # until all know the offsets topic
        while code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            answer = await self.client.at_coordinator(group, ApiKey.TXN_OFFSET_COMMIT, request)
            code = answer.topics[0].partitions[0].error_code
        return code

    async def open_in(self) -> list[TopicPartition]:
        """Where this producer has a transaction that is not ended."""
        found = await Admin(self.client).producers(self._partitions)
        return [
            at
            for at, answer in found.items()
            for each in answer.active_producers
            if each.producer_id == self.id and each.current_txn_start_offset >= 0
        ]

    async def _ask(self, key: ApiKey, request: Any) -> Any:
        return await self.client.at_coordinator(self.name, key, request, kind=TRANSACTION_KEY)
