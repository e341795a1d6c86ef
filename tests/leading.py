"""Appends and searches in one go, for tests that need not share a thread with others."""

from __future__ import annotations

from klamm.log.lookup import TimedOffset, finish
from klamm.log.partition import PartitionLog
from klamm.log.writing.append import Appended, AppendRefused, Later


def append_as_leader(
    log: PartitionLog,
    batch: memoryview,
    *,
    leader_epoch: int,
    now_ms: int,
    request_version: int = 11,
    from_client: bool = True,
) -> Appended | AppendRefused:
    """Appends a batch as its leader does, however long it takes to look through it."""
    outcome = log.append_at_once(
        batch,
        leader_epoch=leader_epoch,
        now_ms=now_ms,
        request_version=request_version,
        from_client=from_client,
    )
    if not isinstance(outcome, Later):
        return outcome
    inspected = log.inspect(batch, now_ms=now_ms, request_version=request_version)
    if isinstance(inspected, AppendRefused):
        return inspected
    return log.append_inspected(inspected, leader_epoch=leader_epoch, now_ms=now_ms)


def offset_for_timestamp(
    log: PartitionLog, timestamp: int, upto: int | None = None
) -> TimedOffset | None:
    """The first record not older than a timestamp, below `upto` (the high watermark)."""
    bound = log.high_watermark if upto is None else upto
    with log.health.watched():
        return finish(log.search_timestamp(timestamp, bound), log.settings.expanded_size_max)


def offset_of_max_timestamp(log: PartitionLog, upto: int | None = None) -> TimedOffset | None:
    """The record with the largest timestamp below `upto` (the high watermark)."""
    bound = log.high_watermark if upto is None else upto
    with log.health.watched():
        return finish(log.search_max_timestamp(bound), log.settings.expanded_size_max)
