"""Records as lines: plain text for people, JSON that `consume` prints and `produce` takes.

A JSON line has `key`, `value`, `headers` and `partition`. Bytes that are not text stand under
`key_base64` or `value_base64`, so that nothing is lost on the way through a pipe.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from klamm.client.consumer import Consumed
from klamm.model.errors import UsageError
from klamm.model.text import json_text, printable

Header = tuple[str, bytes | None]


class NewRecord(NamedTuple):
    """A record to write, parsed from one line."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None


def from_text(line: bytes, separator: bytes | None) -> NewRecord:
    """The line is the value; with a separator, what stands before it is the key."""
    if separator is None:
        return NewRecord(None, line)
    key, found, value = line.partition(separator)
    if not found:
        raise UsageError(f"this line has no key separator {separator.decode()!r}: {_shown(line)}")
    return NewRecord(key, value)


def from_json(line: bytes) -> NewRecord:
    """The inverse of `to_json`; offset and timestamp are not looked at."""
    try:
        entry = json.loads(line)
        partition = entry.get("partition")
        headers = tuple(
            (str(header["name"]), _bytes(header, "value")) for header in entry.get("headers", ())
        )
        return NewRecord(
            _bytes(entry, "key"),
            _bytes(entry, "value"),
            headers,
            None if partition is None else int(partition),
        )
    except (ValueError, TypeError, AttributeError, KeyError) as fault:
        raise UsageError(f"this line is not a record in JSON ({fault}): {_shown(line)}") from None


def to_json(record: Consumed) -> dict[str, object]:
    """All of a record."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_entry("key", record.key),
        **_entry("value", record.value),
        "headers": [{"name": name, **_entry("value", data)} for name, data in record.headers],
    }


def to_line(record: Consumed, _separator: str | None = None) -> bytes:
    """All of a record, as a line of JSON."""
    return json_text(to_json(record)).encode() + b"\n"


def to_raw(record: Consumed, separator: str | None) -> bytes:
    """A record's value, and before a separator its key, byte by byte."""
    head = b"" if separator is None else (record.key or b"") + separator.encode()
    return head + (record.value or b"") + b"\n"


def to_text(record: Consumed, separator: str | None) -> bytes:
    """The same as one line to look at: what is not text, or steers a terminal, by its code."""
    head = "" if separator is None else _visible(record.key) + separator
    return f"{head}{_visible(record.value)}\n".encode()


def _visible(data: bytes | None) -> str:
    return printable((data or b"").decode(errors="backslashreplace"), keep="\t")


def _entry(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _bytes(entry: Mapping[str, Any], name: str) -> bytes | None:
    coded = entry.get(f"{name}_base64")
    if coded is not None:
        return base64.b64decode(coded, validate=True)
    text = entry.get(name)
    return None if text is None else str(text).encode()


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
