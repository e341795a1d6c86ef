"""The internal topics as the coordinators see them: append durably, read back after a failover."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

log = logging.getLogger(__name__)

_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The result of an append.

    The offset is that of the first record. With an error it says that the records are in this
    broker's log all the same, and may or may not stay there.
    """

    error: ErrorCode
    base_offset: int = -1


class Journal(Protocol):
    """The services a coordinator needs of the replicas it leads."""

    async def append(self, partition: TopicPartition, batch: bytes) -> AppendResult:
        """Append one batch and wait until all in-sync replicas have it."""
        ...

    def batches(self, partition: TopicPartition) -> AsyncIterator[memoryview]:
        """Everything in the partition, oldest first, batch by batch."""
        ...


async def until_read_back(
    read_back: Callable[[], Awaitable[None]],
    partition: TopicPartition,
    is_wanted: Callable[[], bool],
) -> None:
    """Read a partition back, again if that fails: until then nobody else serves what it keeps."""
    while is_wanted():
        try:
            await read_back()
        except Exception:  # what one partition has must not end the coordinator of all others
            log.exception("cannot load %s, and will try again", partition)
            await asyncio.sleep(_AGAIN_S)
        else:
            return


_LOWEST: Final = -(2**31)
_TRY_LATER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_FETCH_SIZE,
    }
)


def told_to_clients(error: ErrorCode, *, too_large: ErrorCode) -> ErrorCode:
    """An error of the internal topic in words that a client of the coordinator understands."""
    if error in _TRY_LATER:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _MOVED:
        return ErrorCode.NOT_COORDINATOR
    if error in _TOO_LARGE:
        return too_large
    return error


def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic that keeps this key.

    It is Java's hash of the string without its sign, so that brokers of Kafka look in the same
    place. The lowest of all numbers, which has no counterpart, counts as zero.
    """
    value = 0
    for unit in _utf16_units(key):
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (value >> 31 << 32)
    return abs(signed) % partitions if signed != _LOWEST else 0


def _utf16_units(key: str) -> list[int]:
    raw = key.encode("utf-16-be")
    return [raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2)]
