"""Shares the steps of both kinds of offset commits: sort partitions, commit the good ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable

from klamm.broker.coordinators.groups import GroupCoordinator
from klamm.broker.ground import Ground
from klamm.broker.net.turns import in_turns
from klamm.groups.offsets import CommittedOffset
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages import offset_commit, txn_offset_commit

_Partition = (
    offset_commit.OffsetCommitRequestPartition | txn_offset_commit.TxnOffsetCommitRequestPartition
)
Topics = Iterable[
    offset_commit.OffsetCommitRequestTopic | txn_offset_commit.TxnOffsetCommitRequestTopic
]


async def commit(
    ground: Ground,
    groups: GroupCoordinator,
    group_id: str,
    topics: Topics,
    refusal: Callable[[], Awaitable[ErrorCode | None]],
    *,
    readable: Container[str],
    producer: tuple[int, int] | None = None,
) -> dict[TopicPartition, ErrorCode]:
    """The result for each partition.

    One whose topic the caller may not read, or that does not exist, is told so. For the others the
    group is asked whether it has a reason to refuse them all; it does not come into being for those
    that do not exist.
    """
    errors: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, CommittedOffset] = {}
    now_ms = ground.clock.now_ms()
    longest = ground.settings.int("offset.metadata.max.bytes")
    async for topic in in_turns(topics):
        # The two kinds of partitions have these fields in common.
        partitions: Iterable[_Partition] = topic.partitions
        async for partition in in_turns(partitions):
            at = TopicPartition(topic.name, partition.partition_index)
            if topic.name not in readable:
                errors[at] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif ground.metadata.snapshot.partition(at) is None:
                errors[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offsets[at] = CommittedOffset(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_time_ms=now_ms,
                )
    fault = await refusal() if offsets else None
    if fault is not None:
        return errors | dict.fromkeys(offsets, fault)
    wordy = [at for at, offset in offsets.items() if len(offset.metadata) > longest]
    for at in wordy:
        del offsets[at]
        errors[at] = ErrorCode.OFFSET_METADATA_TOO_LARGE
    if offsets:
        outcome = await groups.offsets.commit(group_id, offsets, producer=producer)
        errors |= dict.fromkeys(offsets, outcome)
    return errors
