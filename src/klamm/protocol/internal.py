"""The records of `__consumer_offsets` and `__transaction_state`, in Kafka's schemas.

Keys and values begin with a version of two bytes. A value of None is a tombstone. What is written
is what Kafka 3.9 writes; what is read goes back to the first versions.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import ProtocolError

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
_OFFSET_VALUE_VERSION: Final = 3
_GROUP_VALUE_VERSION: Final = 3


class _Reader:
    """Reads the old, non-flexible encodings from front to back."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        packer = struct.Struct(">" + form)
        try:
            (value,) = packer.unpack_from(self._data, self._at)
        except struct.error as broken:
            raise ProtocolError(f"an internal record ends too early: {broken}") from None
        self._at += packer.size
        return int(value)

    def text(self) -> str | None:
        size = self.number("h")
        return None if size < 0 else self._take(size).decode("utf-8")

    def blob(self) -> bytes:
        size = self.number("i")
        return b"" if size < 0 else self._take(size)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ProtocolError("an internal record ends too early")
        taken = self._data[self._at : end]
        self._at = end
        return taken


def _text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    raw = value.encode("utf-8")
    return struct.pack(">h", len(raw)) + raw


def _blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


# --- __consumer_offsets ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """The key of a committed offset."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The key of a group's metadata."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """A committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_time_ms: int
    expire_time_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberValue:
    """A member inside a group's metadata."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValue:
    """A group's metadata."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_time_ms: int
    members: tuple[GroupMemberValue, ...]


def encode_offset_key(key: OffsetKey) -> bytes:
    return b"".join(
        (
            struct.pack(">h", OFFSET_KEY_VERSION),
            _text(key.group),
            _text(key.topic),
            struct.pack(">i", key.partition),
        )
    )


def encode_group_key(key: GroupKey) -> bytes:
    return struct.pack(">h", GROUP_KEY_VERSION) + _text(key.group)


def decode_offsets_key(data: bytes) -> OffsetKey | GroupKey | None:
    """The key of a record, or None where a newer broker wrote a kind we do not know."""
    reader = _Reader(data)
    version = reader.number("h")
    if version in (0, OFFSET_KEY_VERSION):
        return OffsetKey(reader.text() or "", reader.text() or "", reader.number("i"))
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.text() or "")
    return None


def encode_offset_value(value: OffsetValue) -> bytes:
    return b"".join(
        (
            struct.pack(">hqi", _OFFSET_VALUE_VERSION, value.offset, value.leader_epoch),
            _text(value.metadata),
            struct.pack(">q", value.commit_time_ms),
        )
    )


def decode_offset_value(data: bytes) -> OffsetValue:
    reader = _Reader(data)
    version = reader.number("h")
    offset = reader.number("q")
    leader_epoch = reader.number("i") if version == 3 else -1
    metadata = reader.text() or ""
    return OffsetValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_time_ms=reader.number("q"),
        expire_time_ms=reader.number("q") if version == 1 else -1,
    )


def encode_group_value(value: GroupValue) -> bytes:
    parts = [
        struct.pack(">h", _GROUP_VALUE_VERSION),
        _text(value.protocol_type),
        struct.pack(">i", value.generation),
        _text(value.protocol),
        _text(value.leader),
        struct.pack(">qi", value.state_time_ms, len(value.members)),
    ]
    for member in value.members:
        parts += (
            _text(member.id),
            _text(member.instance_id),
            _text(member.client_id),
            _text(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            _blob(member.subscription),
            _blob(member.assignment),
        )
    return b"".join(parts)


def decode_group_value(data: bytes) -> GroupValue:
    reader = _Reader(data)
    version = reader.number("h")
    protocol_type = reader.text() or ""
    generation = reader.number("i")
    protocol, leader = reader.text(), reader.text()
    state_time_ms = reader.number("q") if version >= 2 else -1
    members = tuple(_decode_member(reader, version) for _ in range(reader.number("i")))
    return GroupValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_time_ms=state_time_ms,
        members=members,
    )


def _decode_member(reader: _Reader, version: int) -> GroupMemberValue:
    member_id = reader.text() or ""
    instance_id = reader.text() if version >= 3 else None
    client_id, client_host = reader.text() or "", reader.text() or ""
    rebalance_timeout_ms = reader.number("i") if version >= 1 else -1
    session_timeout_ms = reader.number("i")
    return GroupMemberValue(
        id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if version < 1 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.blob(),
        assignment=reader.blob(),
    )


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics in a member's subscription of the `consumer` protocol, None if unreadable."""
    try:
        reader = _Reader(subscription)
        reader.number("h")
        return frozenset(reader.text() or "" for _ in range(reader.number("i")))
    except (ProtocolError, UnicodeDecodeError):
        return None


# --- __transaction_state -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """The recorded state of a transactional id."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None
    updated_ms: int
    started_ms: int


def encode_transaction_key(transactional_id: str) -> bytes:
    return struct.pack(">h", 0) + _text(transactional_id)


def decode_transaction_key(data: bytes) -> str | None:
    reader = _Reader(data)
    return reader.text() if reader.number("h") == 0 else None


def encode_transaction_value(value: TransactionValue) -> bytes:
    head = struct.pack(">hqhib", 0, value.producer_id, value.epoch, value.timeout_ms, value.state)
    if value.partitions is None:
        topics = struct.pack(">i", -1)
    else:
        topics = struct.pack(">i", len(value.partitions)) + b"".join(
            _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
            for topic, numbers in value.partitions
        )
    return head + topics + struct.pack(">qq", value.updated_ms, value.started_ms)


def decode_transaction_value(data: bytes) -> TransactionValue:
    reader = _Reader(data)
    if (version := reader.number("h")) != 0:
        raise ProtocolError(f"transaction records of version {version} are not known")
    producer_id, epoch = reader.number("q"), reader.number("h")
    timeout_ms, state = reader.number("i"), reader.number("b")
    count = reader.number("i")
    partitions = tuple(
        (reader.text() or "", tuple(reader.number("i") for _ in range(reader.number("i"))))
        for _ in range(max(count, 0))
    )
    return TransactionValue(
        producer_id=producer_id,
        epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=None if count < 0 else partitions,
        updated_ms=reader.number("q"),
        started_ms=reader.number("q"),
    )
