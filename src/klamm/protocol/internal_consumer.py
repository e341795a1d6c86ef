"""The records of consumer groups of the new protocol in `__consumer_offsets`, in Kafka's schemas.

The version in front of a key says what kind of record it is; the key itself is in the old encoding.
Values have a version of their own, 0, and are flexible. A value of None is a tombstone.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Final

from klamm.model.errors import ProtocolError
from klamm.protocol.compiler import compile_reader, compile_writer
from klamm.protocol.schema import array, int8, int32, string, uuid_

_VALUE_VERSION: Final = 0
_READ_FAULTS: Final = (IndexError, struct.error, UnicodeDecodeError, OverflowError)


class RecordKind(IntEnum):
    """The kind of a record: the version of its key."""

    GROUP_METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_METADATA = 6
    TARGET_MEMBER = 7
    CURRENT_MEMBER = 8


_OF_A_MEMBER: Final = frozenset(
    {RecordKind.MEMBER_METADATA, RecordKind.TARGET_MEMBER, RecordKind.CURRENT_MEMBER}
)


@dataclass(frozen=True, slots=True)
class ConsumerKey:
    """The key of a record; `member` is empty where it is about the whole group."""

    kind: RecordKind
    group: str
    member: str = ""


@dataclass(slots=True)
class GroupMetadata:
    epoch: int = int32()


@dataclass(slots=True)
class PartitionRacks:
    partition: int = int32()
    racks: list[str] = array("string")


@dataclass(slots=True)
class TopicMetadata:
    topic_id: uuid.UUID = uuid_()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionRacks] = array(PartitionRacks)


@dataclass(slots=True)
class PartitionMetadata:
    topics: list[TopicMetadata] = array(TopicMetadata)


@dataclass(slots=True)
class MemberMetadata:
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class TargetMetadata:
    assignment_epoch: int = int32()


@dataclass(slots=True)
class TopicPartitions:
    topic_id: uuid.UUID = uuid_()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class TargetMember:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@dataclass(slots=True)
class CurrentMember:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


Value = (
    GroupMetadata
    | PartitionMetadata
    | MemberMetadata
    | TargetMetadata
    | TargetMember
    | CurrentMember
)

_CLASSES: Final[dict[RecordKind, type]] = {
    RecordKind.GROUP_METADATA: GroupMetadata,
    RecordKind.PARTITION_METADATA: PartitionMetadata,
    RecordKind.MEMBER_METADATA: MemberMetadata,
    RecordKind.TARGET_METADATA: TargetMetadata,
    RecordKind.TARGET_MEMBER: TargetMember,
    RecordKind.CURRENT_MEMBER: CurrentMember,
}


def encode_key(key: ConsumerKey) -> bytes:
    names = (key.group, key.member) if key.kind in _OF_A_MEMBER else (key.group,)
    texts = (name.encode() for name in names)
    return struct.pack(">h", key.kind) + b"".join(struct.pack(">h", len(t)) + t for t in texts)


def decode_key(data: bytes) -> ConsumerKey | None:
    """The key of a record, None when it is not about a consumer group."""
    try:
        (version,) = struct.unpack_from(">h", data)
        if version not in RecordKind._value2member_map_:
            return None
        kind, at, names = RecordKind(version), 2, []
        for _ in range(2 if kind in _OF_A_MEMBER else 1):
            (size,) = struct.unpack_from(">h", data, at)
            names.append(data[at + 2 : at + 2 + size].decode())
            at += 2 + size
        if at > len(data):
            raise ProtocolError("the key of an internal record ends too early")
    except (struct.error, UnicodeDecodeError) as fault:
        raise ProtocolError(f"the key of an internal record: {fault}") from fault
    return ConsumerKey(kind, *names)


def encode_value(kind: RecordKind, value: Value) -> bytes:
    return struct.pack(">h", _VALUE_VERSION) + _writer(kind)(value)


def decode_value(kind: RecordKind, data: bytes) -> Any:
    """The value under a key of this kind."""
    try:
        (version,) = struct.unpack_from(">h", data)
        if version != _VALUE_VERSION:
            raise ProtocolError(f"records {kind.name} of version {version} are not known")
        return _reader(kind)(data[2:])
    except _READ_FAULTS as fault:
        raise ProtocolError(f"a record {kind.name}: {fault}") from fault


@cache
def _writer(kind: RecordKind) -> Callable[[Any], bytes]:
    return compile_writer(_CLASSES[kind], _VALUE_VERSION, True)


@cache
def _reader(kind: RecordKind) -> Callable[[bytes], Any]:
    return compile_reader(_CLASSES[kind], _VALUE_VERSION, True)
