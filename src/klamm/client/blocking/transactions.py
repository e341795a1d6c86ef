"""Transactions at their coordinators. Blocking.

A transactional id has one coordinator, which decides what became of its transactions; a group whose
offsets are part of one has a coordinator of its own. Both may move or die at any moment, so every
request is tried again until a deadline: all of them may be sent twice without harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from klamm.client import metadata, requests
from klamm.client.addresses import Address
from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.wire import lease
from klamm.client.errors import Answered, Unreachable, check
from klamm.client.metadata import TRANSACTION_KEY
from klamm.client.requests import Committed
from klamm.client.retries import may_pass, pauses
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

T = TypeVar("T")

# From 4 on the request is one between brokers.
_ADD_PARTITIONS_OF_CLIENTS: Final = 3
_FENCING: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


@dataclass(frozen=True, slots=True)
class Holder:
    """The one that may write under a transactional id now."""

    transactional_id: str
    producer_id: int
    epoch: int


def is_fenced(fault: Exception) -> bool:
    """Whether somebody else has taken the transactional id over, or its transaction timed out."""
    return isinstance(fault, Answered) and fault.code in _FENCING


@dataclass(slots=True)
class Transactions(Lookup):
    """Takes transactional ids, and ends what was written under them."""

    patience_ms: int = 120_000
    _coordinators: dict[tuple[str, int], Address] = field(default_factory=dict)

    def take(self, transactional_id: str, timeout_ms: int) -> Holder:
        """Takes an id over: whoever held it is fenced, and what it left open is aborted."""
        request = init_producer_id.Request(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )

        def talk() -> Holder:
            answer = self._tell(transactional_id, ApiKey.INIT_PRODUCER_ID, request)
            check(answer.error_code, f"taking the transactional id {transactional_id}")
            return Holder(transactional_id, answer.producer_id, answer.producer_epoch)

        return self._patiently(talk)

    def add(self, holder: Holder, partitions: Iterable[TopicPartition]) -> None:
        """Makes partitions part of the open transaction: records may go to them from now on."""
        topics = [
            add_partitions_to_txn.AddPartitionsToTxnTopic(name, numbers)
            for name, numbers in requests.by_topic(sorted(partitions)).items()
        ]
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=holder.transactional_id,
            v3_and_below_producer_id=holder.producer_id,
            v3_and_below_producer_epoch=holder.epoch,
            v3_and_below_topics=topics,
        )

        def talk() -> None:
            answer = self._tell(
                holder.transactional_id,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                request,
                at_most=_ADD_PARTITIONS_OF_CLIENTS,
            )
            found = [
                (f"{topic.name}-{p.partition_index}", p.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for p in topic.results_by_partition
            ]
            # One that fails makes the others fail as not attempted: the cause is told, not these.
            found.sort(key=lambda f: f[1] == ErrorCode.OPERATION_NOT_ATTEMPTED)
            for name, code in found:
                check(code, f"{name} in a transaction of {holder.transactional_id}")

        self._patiently(talk)

    def add_offsets(
        self, holder: Holder, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> None:
        """Commits offsets of a group that count only if the transaction is committed."""
        about = f"offsets of {group} in a transaction of {holder.transactional_id}"
        joining = add_offsets_to_txn.Request(
            holder.transactional_id, holder.producer_id, holder.epoch, group
        )

        def join() -> None:
            answer = self._tell(holder.transactional_id, ApiKey.ADD_OFFSETS_TO_TXN, joining)
            check(answer.error_code, about)

        self._patiently(join)
        request = _offsets_request(holder, group, offsets)

        def talk() -> None:
            answer = self._tell(group, ApiKey.TXN_OFFSET_COMMIT, request, kind=metadata.GROUP_KEY)
            for found in requests.per_partition(answer.topics).values():
                check(found.error_code, about)

        self._patiently(talk)

    def end(self, holder: Holder, *, commit: bool) -> None:
        """Commits or aborts the open transaction."""
        request = end_txn.Request(
            holder.transactional_id, holder.producer_id, holder.epoch, committed=commit
        )

        def talk() -> None:
            answer = self._tell(holder.transactional_id, ApiKey.END_TXN, request)
            check(answer.error_code, f"the end of a transaction of {holder.transactional_id}")

        self._patiently(talk)

    def stable_offset(self, group: str, tp: TopicPartition) -> Committed | None:
        """The offset that a group has committed, when no transaction with a newer one is open."""
        request = requests.group_offsets(group, [tp], stable=True)

        def talk() -> Committed | None:
            answer = self._tell(
                group,
                ApiKey.OFFSET_FETCH,
                request,
                kind=metadata.GROUP_KEY,
                at_most=requests.OFFSETS_BY_NAME,
            )
            found = requests.group_offsets_of(group, answer)[tp]
            check(found.error_code, f"the offset of {group} in {tp}")
            if found.committed_offset < 0:
                return None
            return Committed(
                found.committed_offset, found.committed_leader_epoch, found.metadata or ""
            )

        return self._patiently(talk)

    def _tell(
        self,
        name: str,
        key: ApiKey,
        request: Any,
        *,
        kind: int = TRANSACTION_KEY,
        at_most: int | None = None,
    ) -> Any:
        address = self._coordinators.get((name, kind))
        if address is None:
            question = metadata.coordinator_request(name, kind)
            answer = self._any(lambda wire: wire.call(ApiKey.FIND_COORDINATOR, question))
            address = metadata.coordinator_of(name, answer).address
            self._coordinators[name, kind] = address
        with lease(address, self.options) as wire:
            return wire.call(key, request, at_most=at_most)

    def _patiently(self, talk: Callable[[], T]) -> T:
        deadline = time.monotonic() + self.patience_ms / 1000
        for pause in pauses(0.01):
            try:
                return talk()
            except (Unreachable, Answered) as fault:
                if not may_pass(fault) or time.monotonic() > deadline:
                    raise
                # Nothing but the end of another transaction is waited for at the same place.
                if not isinstance(fault, Answered) or (
                    fault.code is not ErrorCode.CONCURRENT_TRANSACTIONS
                ):
                    self._coordinators.clear()
                time.sleep(pause)
        raise AssertionError("pauses never end")


def _offsets_request(
    holder: Holder, group: str, offsets: Mapping[TopicPartition, Committed]
) -> txn_offset_commit.Request:
    topics: dict[str, list[txn_offset_commit.TxnOffsetCommitRequestPartition]] = {}
    for tp, committed in sorted(offsets.items()):
        topics.setdefault(tp.topic, []).append(
            txn_offset_commit.TxnOffsetCommitRequestPartition(
                tp.partition,
                committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return txn_offset_commit.Request(
        transactional_id=holder.transactional_id,
        group_id=group,
        producer_id=holder.producer_id,
        producer_epoch=holder.epoch,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(name, partitions)
            for name, partitions in topics.items()
        ],
    )
