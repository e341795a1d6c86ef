"""Asks a transaction's coordinator whether a partition is part of the open transaction (KIP-890).

The first batch of a transaction in a partition opens it there, and only a marker closes it. A batch
that comes late, when the transaction has ended and its markers are written, would open one that
nobody ever ends: readers of committed records would wait for ever. So a leader asks before it
opens. Questions to one coordinator that come up while another is under way are asked together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from klamm.broker.coordinators.journal import partition_for
from klamm.broker.metadata_cache import MetadataCache
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import TRANSACTION_STATE, BrokerId, TopicPartition
from klamm.protocol.messages import add_partitions_to_txn as messages

log = logging.getLogger("klamm.transactions")

Verdicts = dict[TopicPartition, ErrorCode]
Ask = Callable[[BrokerId, messages.Request], Awaitable[messages.Response]]

# Passes by itself: the client is to try again.
TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsQuestion:
    """Are these partitions part of the open transaction of this producer?"""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]

    def all(self, code: ErrorCode) -> Verdicts:
        return dict.fromkeys(self.partitions, code)


@dataclass(slots=True)
class _Line:
    """The questions that wait for one coordinator. Whoever holds the lock asks for all."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[tuple[PartitionsQuestion, asyncio.Future[Verdicts]]] = field(default_factory=list)


class Verifier:
    """One broker's questions to the coordinators of transactions."""

    def __init__(
        self,
        broker: Callable[[], BrokerId],
        metadata: MetadataCache,
        *,
        here: Callable[[PartitionsQuestion], Verdicts],
        ask: Ask,
    ) -> None:
        self._broker = broker
        self._metadata = metadata
        self._here = here
        self._ask = ask
        self._lines: defaultdict[BrokerId, _Line] = defaultdict(_Line)

    async def verify(self, question: PartitionsQuestion) -> Verdicts:
        """The coordinator's verdict on each partition."""
        snapshot = self._metadata.snapshot
        count = len(snapshot.topics.get(TRANSACTION_STATE, ()))
        if count == 0:
            return question.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        number = partition_for(question.transactional_id, count)
        info = snapshot.partition(TopicPartition(TRANSACTION_STATE, number))
        if info is None or info.leader not in snapshot.brokers:
            return question.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if info.leader == self._broker():
            return self._here(question)
        return await self._elsewhere(info.leader, question)

    async def _elsewhere(self, coordinator: BrokerId, question: PartitionsQuestion) -> Verdicts:
        line = self._lines[coordinator]
        mine: asyncio.Future[Verdicts] = asyncio.get_running_loop().create_future()
        line.waiting.append((question, mine))
        async with line.lock:
            if not mine.done():
                await self._ask_for_all(coordinator, line)
        return mine.result()

    async def _ask_for_all(self, coordinator: BrokerId, line: _Line) -> None:
        taken, line.waiting = line.waiting, []
        try:
            answers = await self._exchange(coordinator, [question for question, _ in taken])
        except BaseException:
            # The one who asked has gone: the next in line asks again for the others.
            line.waiting = taken + line.waiting
            raise
        for (_, future), answer in zip(taken, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _exchange(
        self, coordinator: BrokerId, questions: list[PartitionsQuestion]
    ) -> list[Verdicts]:
        request = messages.Request(transactions=[_transaction(q) for q in questions])
        try:
            response = await self._ask(coordinator, request)
        except (KlammError, OSError) as unreachable:
            log.info("cannot verify", extra={"coordinator": coordinator, "why": str(unreachable)})
            return [question.all(ErrorCode.NETWORK_EXCEPTION) for question in questions]
        return [
            {
                TopicPartition(topic.name, result.partition_index): ErrorCode(
                    result.partition_error_code
                )
                for topic in answer.topic_results
                for result in topic.results_by_partition
            }
            for answer in response.results_by_transaction
        ]


def _transaction(question: PartitionsQuestion) -> messages.AddPartitionsToTxnTransaction:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for at in question.partitions:
        topics[at.topic].append(at.partition)
    return messages.AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.epoch,
        verify_only=True,
        topics=[messages.AddPartitionsToTxnTopic(*topic) for topic in topics.items()],
    )
