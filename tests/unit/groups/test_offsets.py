"""Committed offsets: what counts, what waits, what expires."""

from __future__ import annotations

from klamm.groups.classic.group import Group
from klamm.groups.classic.requests import GroupLimits, GroupState
from klamm.groups.offsets import CommittedOffset, GroupOffsets, expired
from klamm.model.names import TopicPartition

T0 = TopicPartition("t", 0)
U0 = TopicPartition("u", 0)


def at(offset: int, log_offset: int = -1, time_ms: int = 0) -> CommittedOffset:
    return CommittedOffset(offset=offset, log_offset=log_offset, commit_time_ms=time_ms)


def test_transactional_offset_counts_when_its_transaction_commits() -> None:
    offsets = GroupOffsets()
    offsets.commit({T0: at(1, log_offset=5)})
    offsets.stage(9, {T0: at(2, log_offset=6)})
    assert offsets.is_unstable(T0)
    assert offsets.committed[T0].offset == 1
    assert offsets.finish(9, commit=True)
    assert offsets.committed[T0].offset == 2
    assert not offsets.is_unstable(T0)


def test_transactional_offset_is_dropped_when_its_transaction_aborts() -> None:
    offsets = GroupOffsets()
    offsets.stage(9, {T0: at(2)})
    offsets.finish(9, commit=False)
    assert offsets.is_empty


def test_later_ordinary_commit_wins_over_an_earlier_transactional_one() -> None:
    offsets = GroupOffsets()
    offsets.stage(9, {T0: at(2, log_offset=6)})
    offsets.commit({T0: at(3, log_offset=7)})
    offsets.finish(9, commit=True)
    assert offsets.committed[T0].offset == 3


def test_forgetting_names_what_needs_a_tombstone() -> None:
    offsets = GroupOffsets()
    offsets.commit({T0: at(1)})
    assert offsets.forget([T0, U0]) == [T0]
    assert offsets.is_empty


def test_offsets_of_an_empty_group_expire_after_it_became_empty() -> None:
    group = Group("g", GroupLimits(), 0)
    group.protocol_type = "consumer"
    group.state_time_ms = 1_000
    offsets = GroupOffsets()
    offsets.commit({T0: at(1, time_ms=500)})
    assert expired(group, offsets, None, now_ms=10_999, retention_ms=10_000) == []
    assert expired(group, offsets, None, now_ms=11_000, retention_ms=10_000) == [T0]


def test_active_group_keeps_the_offsets_of_what_it_reads() -> None:
    group = Group("g", GroupLimits(), 0)
    group.protocol_type, group.state = "consumer", GroupState.STABLE
    offsets = GroupOffsets()
    offsets.commit({T0: at(1), U0: at(1)})
    due = expired(group, offsets, frozenset({"t"}), now_ms=10_000, retention_ms=10_000)
    assert due == [U0]
    assert expired(group, offsets, None, now_ms=10_000, retention_ms=10_000) == []


def test_offset_in_an_open_transaction_does_not_expire() -> None:
    group = Group("g", GroupLimits(), 0)
    offsets = GroupOffsets()
    offsets.commit({T0: at(1)})
    offsets.stage(9, {T0: at(2)})
    assert expired(group, offsets, None, now_ms=10_000, retention_ms=1) == []
