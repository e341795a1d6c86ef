"""Messages as trees of plain values, and the differences between two of them.

A tree has what JSON has: bytes are text that begins with `hex:`. Ids, times and addresses, which no
two clusters share, are replaced by words that begin with a dollar sign, so that their absence still
shows. Lists of structs are aligned by what names their elements, whatever their order.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafka.record import MemoryRecords

from klamm.model.names import ZERO_ID
from klamm.protocol import batch
from klamm.protocol.apis import APIS
from klamm.protocol.schema import WireField, wire_fields

Tree = Any
_MAGIC_AT: Final = 16
ABSENT: Final = "(absent)"
_OWN: Final = frozenset(
    {
        *("member_id", "leader", "producer_id", "topic_id", "cluster_id", "session_id"),
        *("host", "port", "log_dir", "usable_bytes", "total_bytes", "client_host"),
        *("log_append_time_ms", "transaction_start_time_ms", "last_timestamp"),
        *("controller_id", "coordinator_epoch"),
    }
)
# Producers here write times of 2023; what is later was stamped by a broker.
_LONG_AFTER_MS: Final = 1_750_000_000_000
_NOBODY: Final = (None, "", -1, 0, str(ZERO_ID))
_WORDS: Final = ("error_message", "batch_index_error_message", "documentation")
# What names an element among its neighbours; the first that it has.
_NAMES: Final = (
    *("name", "topic", "topic_name", "topic_id", "api_key", "resource_name", "group_id"),
    *("transactional_id", "entity_type"),
    *("partition_index", "partition", "index", "key", "user", "mechanism", "broker_id", "node_id"),
    *("partition_id", "member_id", "batch_index"),
)


class Difference(NamedTuple):
    """One place where two answers are not the same."""

    path: str
    kafka: Tree
    klamm: Tree


def to_tree(message: Any, key: int, version: int) -> Tree:
    """A message as a tree, with the fields that this version has."""
    return _struct(message, version, APIS[key].is_flexible(version))


def _struct(message: Any, version: int, flexible: bool) -> Tree:
    return {
        name: _value(getattr(message, name), wire, version, flexible)
        for name, wire in wire_fields(type(message))
        if version in wire.versions and (flexible or wire.tag is None)
    }


def _value(value: Any, wire: WireField, version: int, flexible: bool) -> Tree:
    if isinstance(value, list):
        return [_value(each, wire, version, flexible) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"hex:{bytes(value).hex()}"
    if isinstance(value, uuid.UUID):
        return str(value)
    if wire.struct is not None and value is not None:
        return _struct(value, version, flexible)
    return value


def from_tree(cls: type, tree: Mapping[str, Tree]) -> Any:
    """The message of a tree; fields that the tree does not have keep their defaults."""
    given = {
        name: _read(tree[name], wire, wire.kind) for name, wire in wire_fields(cls) if name in tree
    }
    return cls(**given)


def _read(tree: Tree, wire: WireField, kind: str) -> Any:
    if tree is None:
        return None
    match kind:
        case "array":
            return [_read(each, wire, wire.element or "") for each in tree]
        case "struct":
            assert wire.struct is not None
            return from_tree(wire.struct, tree)
        case "bytes":
            return bytes.fromhex(tree.removeprefix("hex:"))
        case "uuid":
            return uuid.UUID(tree)
        case _:
            return tree


def comparable(tree: Tree, name: str = "") -> Tree:
    """A tree without what is a cluster's own: ids, times, addresses, and the words of messages."""
    if isinstance(tree, dict):
        return {key: comparable(value, key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [comparable(each, name) for each in tree]
    if name in _OWN and not str(tree).startswith("$"):
        return "$none" if tree in _NOBODY else "$own"
    if name == "timestamp" and isinstance(tree, int) and tree > _LONG_AFTER_MS:
        return "$now"
    if name == "records" and isinstance(tree, str):
        return _batches(bytes.fromhex(tree.removeprefix("hex:")))
    if name in _WORDS:
        return tree if tree in (None, "", "NONE") else "$words"
    return tree


def _batches(data: bytes) -> list[str]:
    """Record batches in words: all that a producer decided, and of markers their places."""
    if len(data) > _MAGIC_AT and data[_MAGIC_AT] < batch.MAGIC:
        return _messages(data)
    told = []
    read = 0
    for header, whole in batch.iter_batches(data):
        read += header.size
        producer = "$own" if header.producer_id >= 0 else "$none"
        place = f"{header.base_offset}+{header.last_offset_delta} epoch {header.leader_epoch}"
        told.append(f"{place} by {producer} attributes {header.attributes}")
        if not header.is_control:
            body = bytes(whole[batch.HEADER_SIZE :]).hex()
            told[-1] += f" from {header.base_timestamp} to {header.max_timestamp}: {body}"
    return [*told, f"and {len(data) - read} bytes"] if read < len(data) else told


def _messages(data: bytes) -> list[str]:
    """Message sets in words: the messages, however they are wrapped and whatever ends them."""
    told = []
    wrappers = MemoryRecords(data)
    while (wrapper := wrappers.next_batch()) is not None:
        assert wrapper.validate_crc(), data.hex()
        for record in wrapper:
            place = f"{record.offset} at {record.timestamp} ({record.timestamp_type})"
            told.append(f"{place} {wrapper.compression_type}: {record.key!r} {record.value!r}")
    return told


def differences(kafka: Tree, klamm: Tree, path: str = "") -> Iterator[Difference]:
    """Every place where the two trees differ."""
    if isinstance(kafka, dict) and isinstance(klamm, dict):
        for name in kafka | klamm:
            at = f"{path}.{name}" if path else name
            yield from differences(kafka.get(name, ABSENT), klamm.get(name, ABSENT), at)
    elif isinstance(kafka, list) and isinstance(klamm, list):
        yield from _lists(kafka, klamm, path)
    elif kafka != klamm:
        yield Difference(path, kafka, klamm)


def _lists(kafka: list[Tree], klamm: list[Tree], path: str) -> Iterator[Difference]:
    ones, others = _by_name(kafka), _by_name(klamm)
    for name in ones | others:
        at = f"{path}[{name}]"
        yield from differences(ones.get(name, ABSENT), others.get(name, ABSENT), at)


def _by_name(items: list[Tree]) -> dict[str, Tree]:
    """The elements by their names; those of one name are counted, in an order of their own.

    A topic whose partitions are told in two places is one all the same.
    """
    found: dict[str, Tree] = {}
    for item in sorted(items, key=lambda each: json.dumps(each, sort_keys=True)):
        name = base = name_of(item) or ""
        if name in found and _are_partitions_of_one(found[name], item):
            partitions = found[name]["partitions"] + item["partitions"]
            found[name] = {**item, "partitions": partitions}
            continue
        count = 1
        while name in found:
            count += 1
            name = f"{base}#{count}"
        found[name] = item
    return found


def _are_partitions_of_one(one: Tree, other: Tree) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("partitions"), list)
        and {**one, "partitions": 0} == {**other, "partitions": 0}
    )


def name_of(item: Tree) -> str | None:
    """What tells an element from its neighbours; None when nothing does."""
    if not isinstance(item, dict):
        return str(item)
    return next((str(item[name]) for name in _NAMES if item.get(name) is not None), None)
