"""Between the changes of a consumer group of the new protocol and their records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from klamm.broker.coordinators.records import KeyValue
from klamm.groups.consumer.state import (
    Change,
    ConsumerMember,
    EpochSet,
    MemberProgress,
    MemberSet,
    Partitions,
    Standing,
    StandingSet,
    TargetEpochSet,
    TargetSet,
    TopicIdPartition,
    TopicShape,
    TopicsSeen,
)
from klamm.protocol import internal_consumer as wire
from klamm.protocol.internal_consumer import ConsumerKey, RecordKind


def pair(group: str, change: Change) -> KeyValue:
    """The record of a change."""
    key, value = _key_and_value(group, change)
    return wire.encode_key(key), None if value is None else wire.encode_value(key.kind, value)


def _key_and_value(group: str, change: Change) -> tuple[ConsumerKey, wire.Value | None]:
    match change:
        case EpochSet(epoch):
            key = ConsumerKey(RecordKind.GROUP_METADATA, group)
            return key, None if epoch is None else wire.GroupMetadata(epoch)
        case TopicsSeen(topics):
            key = ConsumerKey(RecordKind.PARTITION_METADATA, group)
            if topics is None:
                return key, None
            return key, wire.PartitionMetadata(
                [wire.TopicMetadata(t.id, name, t.partitions) for name, t in topics.items()]
            )
        case MemberSet(member_id, member):
            key = ConsumerKey(RecordKind.MEMBER_METADATA, group, member_id)
            return key, None if member is None else _member(member)
        case TargetEpochSet(epoch):
            key = ConsumerKey(RecordKind.TARGET_METADATA, group)
            return key, None if epoch is None else wire.TargetMetadata(epoch)
        case TargetSet(member_id, partitions):
            key = ConsumerKey(RecordKind.TARGET_MEMBER, group, member_id)
            return key, None if partitions is None else wire.TargetMember(grouped(partitions))
        case StandingSet(member_id, standing):
            key = ConsumerKey(RecordKind.CURRENT_MEMBER, group, member_id)
            return key, None if standing is None else _standing(standing)
        case _:
            assert_never(change)


def _member(member: ConsumerMember) -> wire.MemberMetadata:
    return wire.MemberMetadata(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
    )


def _standing(standing: Standing) -> wire.CurrentMember:
    return wire.CurrentMember(
        member_epoch=standing.epoch,
        previous_member_epoch=standing.previous_epoch,
        state=standing.progress,
        assigned_partitions=grouped(standing.assigned),
        partitions_pending_revocation=grouped(standing.revoking),
    )


def grouped(partitions: Partitions) -> list[wire.TopicPartitions]:
    """The partitions by topic, in order."""
    by_topic: dict[object, wire.TopicPartitions] = {}
    for topic_id, number in sorted(partitions, key=lambda p: (p.topic_id.int, p.partition)):
        found = by_topic.setdefault(topic_id, wire.TopicPartitions(topic_id, []))
        found.partitions.append(number)
    return list(by_topic.values())


def change(key: ConsumerKey, data: bytes | None) -> Change:
    """The change that a record tells of."""
    value = None if data is None else wire.decode_value(key.kind, data)
    match key.kind:
        case RecordKind.GROUP_METADATA:
            return EpochSet(value and value.epoch)
        case RecordKind.PARTITION_METADATA:
            return TopicsSeen(
                value
                and {
                    topic.topic_name: TopicShape(topic.topic_id, topic.num_partitions)
                    for topic in value.topics
                }
            )
        case RecordKind.MEMBER_METADATA:
            return MemberSet(key.member, value and _read_member(key.member, value))
        case RecordKind.TARGET_METADATA:
            return TargetEpochSet(value and value.assignment_epoch)
        case RecordKind.TARGET_MEMBER:
            return TargetSet(key.member, value and _flat(value.topic_partitions))
        case RecordKind.CURRENT_MEMBER:
            return StandingSet(key.member, value and _read_standing(value))
        case _:
            assert_never(key.kind)


def _read_member(member_id: str, value: wire.MemberMetadata) -> ConsumerMember:
    return ConsumerMember(
        id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        pattern=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
    )


def _read_standing(value: wire.CurrentMember) -> Standing:
    return Standing(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        progress=MemberProgress(value.state),
        assigned=_flat(value.assigned_partitions),
        revoking=_flat(value.partitions_pending_revocation),
    )


def _flat(topics: Iterable[wire.TopicPartitions]) -> Partitions:
    return frozenset(TopicIdPartition(t.topic_id, n) for t in topics for n in t.partitions)
