"""The JSON files that Kafka's tools take, read with care, and the names that they print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from klamm.client.errors import code_of
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

T = TypeVar("T")

_FIELDS: Final[Mapping[type, str]] = {str: "a text", int: "a number", list: "a list"}
# Java's exceptions whose names do not follow from the code.
_ODD: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
}


def read(path: str | None) -> str:
    """The text of a file."""
    try:
        return Path(path or "").read_text(encoding="utf-8")
    except OSError as fault:
        raise ValueError(f"Unable to read file {path}") from fault
    except UnicodeDecodeError as fault:
        raise ValueError(f"Unable to read file {path}: it is not UTF-8") from fault


def document(text: str) -> dict[str, Any]:
    """The JSON object of a file, in the one version that there is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("The input string is not a valid JSON") from None
    if not isinstance(found, dict):
        raise ValueError("The input string is not a valid JSON object")
    if found.get("version", 1) != 1:
        raise ValueError(f"Not supported version field value {found['version']}")
    return found


def entries(document: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """The objects of a list in a document; none where there is no such list."""
    found = document.get(name, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f'"{name}" must be a list of objects')
    yield from found


def field(entry: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """One field of an entry, of the type that it must have."""
    if name not in entry:
        raise ValueError(f'No such field exists: "{name}" in {json.dumps(entry)}')
    value = entry[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f'"{name}" must be {_FIELDS[kind]}, not {json.dumps(value)}')
    return value


def partition(entry: Mapping[str, Any]) -> TopicPartition:
    """The partition that an entry names."""
    return TopicPartition(field(entry, "topic", str), field(entry, "partition", int))


def repeated(items: Iterable[T]) -> list[T]:
    """Those that come more than once, each once."""
    seen: set[T] = set()
    twice: dict[T, None] = {}
    for item in items:
        if item in seen:
            twice[item] = None
        seen.add(item)
    return list(twice)


def exception(code: int) -> str:
    """The name of Java's exception for a code."""
    name = code_of(code)
    plain = "".join(word.capitalize() for word in name.name.split("_")) + "Exception"
    return f"org.apache.kafka.common.errors.{_ODD.get(name, plain)}"
