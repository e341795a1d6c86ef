"""Questions to the coordinators of transactions: where they go, and how they go together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from klamm.broker.coordinators.verification import PartitionsQuestion, Verdicts, Verifier
from klamm.broker.metadata_cache import MetadataCache, MetadataSnapshot, PartitionInfo
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import TRANSACTION_STATE, BrokerId, TopicPartition
from klamm.protocol.messages import add_partitions_to_txn as messages

T0 = TopicPartition("t", 0)
B0, B1 = BrokerId(0), BrokerId(1)


def question(name: str) -> PartitionsQuestion:
    return PartitionsQuestion(transactional_id=name, producer_id=7, epoch=0, partitions=(T0,))


class World:
    """Broker 0 asks; the coordinator's answers wait until they are let go."""

    def __init__(self, coordinator: BrokerId = B1, alive: tuple[BrokerId, ...] = (B0, B1)) -> None:
        self.metadata = MetadataCache()
        info = PartitionInfo(coordinator, 0, (coordinator,), (coordinator,), (), 0)
        brokers = {
            b: Registration(id=b, epoch=-1, endpoints=(Endpoint("h", 1),), rack=None) for b in alive
        }
        self.metadata.snapshot = MetadataSnapshot({TRANSACTION_STATE: {0: info}}, brokers=brokers)
        self.asked: list[list[str]] = []
        self.go = asyncio.Event()
        self.fails = False
        self.verifier = Verifier(
            lambda: B0, self.metadata, here=lambda q: q.all(ErrorCode.NONE), ask=self.ask
        )

    async def ask(self, to: BrokerId, request: messages.Request) -> messages.Response:
        assert to == B1
        assert all(txn.verify_only for txn in request.transactions)
        self.asked.append([txn.transactional_id for txn in request.transactions])
        await self.go.wait()
        if self.fails:
            raise KlammError("gone")
        return messages.Response(
            results_by_transaction=[
                messages.AddPartitionsToTxnResult(
                    txn.transactional_id,
                    [
                        messages.AddPartitionsToTxnTopicResult(
                            "t", [messages.AddPartitionsToTxnPartitionResult(0, code)]
                        )
                    ],
                )
                for txn in request.transactions
                for code in [ErrorCode.NONE if txn.transactional_id == "good" else 48]
            ]
        )


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.parametrize(
    ("coordinator", "alive", "verdict"),
    [
        (B0, (B0, B1), ErrorCode.NONE),
        (B1, (B0,), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
    ids=["it is this broker", "it is away"],
)
def test_nobody_is_asked(
    coordinator: BrokerId, alive: tuple[BrokerId, ...], verdict: ErrorCode
) -> None:
    async def work() -> None:
        world = World(coordinator, alive)
        assert await world.verifier.verify(question("good")) == {T0: verdict}
        assert world.asked == []

    run(work())


def test_questions_that_come_meanwhile_are_asked_together() -> None:
    async def work() -> None:
        world = World()
        names = ["good", "bad", "good", "bad"]
        asking = [asyncio.create_task(world.verifier.verify(question(n))) for n in names]
        await asyncio.sleep(0)
        world.go.set()
        answers: list[Verdicts] = await asyncio.gather(*asking)
        good, bad = {T0: ErrorCode.NONE}, {T0: ErrorCode.INVALID_TXN_STATE}
        assert answers == [good, bad, good, bad]
        assert sorted(map(len, world.asked)) in ([1, 3], [4])

    run(work())


def test_who_gives_up_leaves_the_others_their_answers() -> None:
    async def work() -> None:
        world = World()
        first = asyncio.create_task(world.verifier.verify(question("bad")))
        others = [asyncio.create_task(world.verifier.verify(question("good"))) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        world.go.set()
        assert await asyncio.gather(*others) == [{T0: ErrorCode.NONE}] * 2
        with pytest.raises(asyncio.CancelledError):
            await first

    run(work())


def test_a_coordinator_that_cannot_be_reached_is_asked_again_by_the_client() -> None:
    async def work() -> None:
        world = World()
        world.fails = True
        world.go.set()
        assert await world.verifier.verify(question("good")) == {T0: ErrorCode.NETWORK_EXCEPTION}

    run(work())
