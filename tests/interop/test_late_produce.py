"""A batch that comes when its transaction has ended opens no other one (KIP-890), byte for byte."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator

import pytest

from interop.by_hand import ByHand
from klamm import Cluster
from klamm.client.aio.admin import Admin, ConfigChange, ConfigResource
from klamm.client.aio.cluster import Client
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

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


def by_hand(cluster: Cluster, work: Callable[[ByHand], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            producer = ByHand(client, next(names), PARTITIONS)
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
        change = ConfigChange(
            SettingOperation.SET, "transaction.partition.verification.enable", "false"
        )
        everybody = ConfigResource(ConfigResourceType.BROKER, "")
        (changed,) = await Admin(producer.client).change_configs({everybody: [change]})
        assert changed.error_code == 0, changed
        while await producer.write(PARTITIONS[0]) != 0:
            pass  # brokers hear of settings one after the other
        # So this is what the question is good for: nobody will ever end this one.
        assert await producer.open_in() == [PARTITIONS[0]]

    by_hand(cluster, work)
