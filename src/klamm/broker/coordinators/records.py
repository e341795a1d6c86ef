"""Between the cores' values and the records of the internal topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from klamm.groups.classic.records import GroupRecord, MemberRecord
from klamm.groups.offsets import CommittedOffset
from klamm.groups.transactions import Transaction, TxnState
from klamm.model.names import TopicPartition
from klamm.protocol import internal
from klamm.protocol.batch import Record, encode_batch

KeyValue = tuple[bytes, bytes | None]


def batch_of(
    pairs: Iterable[KeyValue],
    *,
    now_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """One uncompressed batch of these keys and values."""
    records = [
        Record(offset=i, timestamp=now_ms, key=key, value=value, headers=())
        for i, (key, value) in enumerate(pairs)
    ]
    return encode_batch(
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=transactional,
    )


def group_pair(record: GroupRecord) -> KeyValue:
    members = tuple(
        internal.GroupMemberValue(
            id=m.id,
            instance_id=m.instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            rebalance_timeout_ms=m.rebalance_timeout_ms,
            session_timeout_ms=m.session_timeout_ms,
            subscription=m.subscription,
            assignment=m.assignment,
        )
        for m in record.members
    )
    value = internal.GroupValue(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        state_time_ms=record.state_time_ms,
        members=members,
    )
    return internal.encode_group_key(internal.GroupKey(record.group)), internal.encode_group_value(
        value
    )


def group_tombstone(group: str) -> KeyValue:
    return internal.encode_group_key(internal.GroupKey(group)), None


def group_record(group: str, data: bytes) -> GroupRecord:
    value = internal.decode_group_value(data)
    return GroupRecord(
        group=group,
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        state_time_ms=value.state_time_ms,
        members=tuple(
            MemberRecord(
                id=m.id,
                instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout_ms=m.rebalance_timeout_ms,
                session_timeout_ms=m.session_timeout_ms,
                subscription=m.subscription,
                assignment=m.assignment,
            )
            for m in value.members
        ),
    )


def offset_pairs(
    group: str, offsets: Mapping[TopicPartition, CommittedOffset | None]
) -> list[KeyValue]:
    """A record an offset; None makes a tombstone."""
    return [
        (
            internal.encode_offset_key(internal.OffsetKey(group, at.topic, at.partition)),
            None if offset is None else _offset_value(offset),
        )
        for at, offset in offsets.items()
    ]


def _offset_value(offset: CommittedOffset) -> bytes:
    return internal.encode_offset_value(
        internal.OffsetValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_time_ms=offset.commit_time_ms,
        )
    )


def committed_offset(data: bytes, log_offset: int) -> CommittedOffset:
    value = internal.decode_offset_value(data)
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_time_ms=value.commit_time_ms,
        expire_time_ms=value.expire_time_ms,
        log_offset=log_offset,
    )


def transaction_pair(txn: Transaction) -> KeyValue:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for at in sorted(txn.partitions):
        by_topic[at.topic].append(at.partition)
    value = internal.TransactionValue(
        producer_id=txn.producer_id,
        epoch=txn.epoch,
        timeout_ms=txn.timeout_ms,
        state=int(txn.state),
        # Kafka writes no list at all for an id without a transaction.
        partitions=None
        if txn.state is TxnState.EMPTY
        else tuple((topic, tuple(numbers)) for topic, numbers in by_topic.items()),
        updated_ms=txn.updated_ms,
        started_ms=txn.started_ms,
    )
    return internal.encode_transaction_key(txn.id), internal.encode_transaction_value(value)


def transaction_tombstone(transactional_id: str) -> KeyValue:
    return internal.encode_transaction_key(transactional_id), None


def transaction(transactional_id: str, data: bytes) -> Transaction:
    value = internal.decode_transaction_value(data)
    return Transaction(
        id=transactional_id,
        producer_id=value.producer_id,
        epoch=value.epoch,
        timeout_ms=value.timeout_ms,
        state=TxnState(value.state),
        partitions=frozenset(
            TopicPartition(topic, number)
            for topic, numbers in value.partitions or ()
            for number in numbers
        ),
        updated_ms=value.updated_ms,
        started_ms=value.started_ms,
    )
