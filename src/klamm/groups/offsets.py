"""Keeps the committed offsets of a group.

An offset counts once it is durable. One that was committed inside a transaction waits beside the
others until its producer commits, and is dropped when it aborts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.groups.classic.group import Group
from klamm.groups.classic.requests import GroupState
from klamm.model.names import TopicPartition

_OFFSET_BYTES: Final = 450  # about what a position takes beside what is said of it
_OFFSETS_BYTES: Final = 300  # and a group's offsets, without any


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One committed position."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_time_ms: int = 0
    expire_time_ms: int = -1  # only in records of old brokers; -1 = by the broker's rule
    log_offset: int = -1  # where its record stands: a later record wins over an earlier one

    @property
    def weight(self) -> int:
        return _OFFSET_BYTES + len(self.metadata)


@dataclass(slots=True)
class GroupOffsets:
    """All offsets of one group."""

    committed: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    # producer id -> what it will have committed when its transaction commits
    pending: dict[int, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Offsets of an ordinary commit are durable."""
        self.committed.update(offsets)

    def stage(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Offsets of a transaction are durable, but their transaction is still open."""
        self.pending.setdefault(producer_id, {}).update(offsets)

    def finish(self, producer_id: int, *, commit: bool) -> bool:
        """The transaction has ended here. Says whether it concerned this group."""
        staged = self.pending.pop(producer_id, None)
        if staged is None:
            return False
        if commit:
            for partition, offset in staged.items():
                known = self.committed.get(partition)
                # An ordinary commit made after the transactional one is newer than it.
                if known is None or known.log_offset < offset.log_offset:
                    self.committed[partition] = offset
        return True

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether an open transaction may still change this offset."""
        return any(partition in staged for staged in self.pending.values())

    def forget(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Drop offsets; the answer names those that were there and need a tombstone."""
        gone = [partition for partition in partitions if partition in self.committed]
        for partition in gone:
            del self.committed[partition]
        return gone

    def more_for(self, offsets: Mapping[TopicPartition, CommittedOffset], *, stage: bool) -> int:
        """About how many bytes of memory more these need, beside those that they replace."""
        known = {} if stage else self.committed
        replaced = (known[at].weight for at in offsets if at in known)
        return sum(each.weight for each in offsets.values()) - sum(replaced)

    @property
    def weight(self) -> int:
        """About how many bytes of memory all of them take."""
        parts = (self.committed, *self.pending.values())
        return _OFFSETS_BYTES + sum(each.weight for part in parts for each in part.values())

    @property
    def is_empty(self) -> bool:
        return not self.committed and not self.pending


def expired(
    group: Group,
    offsets: GroupOffsets,
    subscribed: frozenset[str] | None,
    *,
    now_ms: int,
    retention_ms: int,
) -> list[TopicPartition]:
    """The offsets of a classic group that nobody will ask for again (KIP-211).

    `subscribed` are the topics that the members read, None where that cannot be known.
    """

    def unused_since(partition: TopicPartition, offset: CommittedOffset) -> int | None:
        if group.protocol_type is None:
            return offset.commit_time_ms
        if group.state is GroupState.EMPTY:
            return max(group.state_time_ms, offset.commit_time_ms)
        if subscribed is not None and partition.topic not in subscribed:
            return offset.commit_time_ms
        return None

    return _due(offsets, unused_since, now_ms=now_ms, retention_ms=retention_ms)


def expired_unread(
    offsets: GroupOffsets, subscribed: frozenset[str], *, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The same for a group of the new protocol: what no member reads ages from its commit on."""

    def unused_since(partition: TopicPartition, offset: CommittedOffset) -> int | None:
        return None if partition.topic in subscribed else offset.commit_time_ms

    return _due(offsets, unused_since, now_ms=now_ms, retention_ms=retention_ms)


def _due(
    offsets: GroupOffsets,
    unused_since: Callable[[TopicPartition, CommittedOffset], int | None],
    *,
    now_ms: int,
    retention_ms: int,
) -> list[TopicPartition]:
    due: list[TopicPartition] = []
    for partition, offset in offsets.committed.items():
        since = unused_since(partition, offset)
        if since is None or offsets.is_unstable(partition):
            continue
        ends_ms = offset.expire_time_ms if offset.expire_time_ms >= 0 else since + retention_ms
        if ends_ms <= now_ms:
            due.append(partition)
    return due
