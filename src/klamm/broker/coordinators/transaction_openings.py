"""Batches that open a transaction in a partition, and whether they may (KIP-890).

A guard is taken from the log before the coordinator is asked and shown when the batch is appended.
If a marker came in between, the log knows the guard no more, and the batch is refused although the
coordinator had said yes. Between that look and the append nothing else runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.broker.coordinators.verification import TRY_AGAIN, PartitionsQuestion, Verifier
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.partition import Partition
from klamm.log.producers.tracking import Guard
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.batch import HEADER_SIZE, MAGIC, parse_header
from klamm.protocol.produce import ProduceRequest

NOT_VERIFIED: Final = "it could not be verified that the partition is part of a transaction"
_ATTRIBUTES_LOW_BYTE: Final = 22  # of a batch
_MAGIC: Final = 16  # of a batch, and of a message set
_TRANSACTIONAL: Final = 0x10
_NOT_OPEN: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
_KNOWS_ABORTABLE: Final = 11  # the Produce version whose clients know TRANSACTION_ABORTABLE


@dataclass(slots=True)
class Opening:
    """One producer that would open a transaction in one partition, and the coordinator's word."""

    producer_id: int
    epoch: int
    guard: Guard
    verdict: ErrorCode = ErrorCode.NETWORK_EXCEPTION

    def outcome(self, partition: Partition) -> ErrorCode:
        """The verdict on the batch, just before it is appended."""
        if self.verdict is not ErrorCode.NONE or partition.log is None:
            return self.verdict
        producers = partition.log.producers
        if producers.admits(self.producer_id, self.guard):
            return ErrorCode.NONE
        is_open = producers.guard(self.producer_id, self.epoch) is None
        return ErrorCode.NONE if is_open else ErrorCode.INVALID_TXN_STATE

    def told_to_producers(self, partition: Partition, version: int) -> ErrorCode:
        """The outcome in codes that producers of this version understand."""
        code = self.outcome(partition)
        if code in TRY_AGAIN:
            # Old clients try this one again without looking for another leader.
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return not_open(code, knows_abortable=version >= _KNOWS_ABORTABLE)


def not_open(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The code for a partition that is not part of an open transaction, as the asker knows it.

    Coordinators of other ages say it in either way; another code stays what it is.
    """
    if code not in _NOT_OPEN:
        return code
    return ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE


def is_transactional(records: memoryview) -> bool:
    """Whether a batch says that it is part of a transaction."""
    # A message set has something else there; that is looked at last, for hardly one has this bit.
    return len(records) > _ATTRIBUTES_LOW_BYTE and bool(
        records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL and records[_MAGIC] == MAGIC
    )


def openings(hosting: Hosting, request: ProduceRequest) -> dict[TopicPartition, Opening]:
    """The partitions led here in which this request would open a transaction."""
    found: dict[TopicPartition, Opening] = {}
    if not hosting.settings.bool("transaction.partition.verification.enable"):
        return found
    for name, partitions in request.topics:
        for index, records in partitions:
            if records is None or len(records) < HEADER_SIZE or not is_transactional(records):
                continue
            at = TopicPartition(name, index)
            header = parse_header(records, 0)
            opening = opening_in(hosting, at, header.producer_id, header.producer_epoch)
            if opening is not None:
                found[at] = opening
    return found


def opening_in(
    hosting: Hosting, at: TopicPartition, producer_id: int, epoch: int
) -> Opening | None:
    """The question a producer's batch raises in a partition; None when it raises none."""
    partition = hosting.replicas.find_leader(at)
    if producer_id < 0 or not isinstance(partition, Partition) or partition.log is None:
        return None
    guard = partition.log.producers.guard(producer_id, epoch)
    return None if guard is None else Opening(producer_id, epoch, guard)


async def ask_coordinator(
    verifier: Verifier, transactional_id: str, opening: Mapping[TopicPartition, Opening]
) -> None:
    """Put the coordinator's verdicts into these openings."""
    by_producer: defaultdict[tuple[int, int], list[TopicPartition]] = defaultdict(list)
    for at, each in opening.items():
        by_producer[each.producer_id, each.epoch].append(at)
    for (producer_id, epoch), partitions in by_producer.items():
        question = PartitionsQuestion(
            transactional_id=transactional_id,
            producer_id=producer_id,
            epoch=epoch,
            partitions=tuple(partitions),
        )
        verdicts = await verifier.verify(question)
        for at in partitions:
            opening[at].verdict = verdicts.get(at, ErrorCode.NETWORK_EXCEPTION)
