"""Records as lines: plain text for people, JSON that `consume` prints and `produce` takes.

A JSON line has `key`, `value`, `headers` and `partition`. Bytes that are not text stand under
`key_base64` or `value_base64`, so that nothing is lost on the way through a pipe. A key or value
that is not a text, such as an object, is written as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from klamm.client.aio.consumer import Consumed
from klamm.model.errors import UsageError
from klamm.model.text import json_text, printable

Header = tuple[str, bytes | None]

_VALUES: Final = ("key", "key_base64", "value", "value_base64")
_FIELDS: Final = (*_VALUES, "headers", "partition", "topic", "offset", "timestamp")
_HEADER_FIELDS: Final = ("name", "value", "value_base64")
_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


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


def from_json(line: bytes, number: int) -> NewRecord:
    """The inverse of `to_json`; topic, offset and timestamp are not looked at."""
    try:
        entry = json.loads(line)
    except ValueError as fault:
        raise _fault(number, f"this is not JSON ({fault}): {_shown(line)}") from None
    _check_fields(number, "the record", entry, _FIELDS)
    headers = entry.get("headers") or []
    if not isinstance(headers, list):
        raise _fault(number, f"field 'headers' must be a list, not {_kind(headers)}")
    partition = entry.get("partition")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool)):
        raise _fault(number, f"field 'partition' must be a whole number, not {_kind(partition)}")
    return NewRecord(
        _bytes(number, entry, "key"),
        _bytes(number, entry, "value"),
        tuple(_header(number, header) for header in headers),
        partition,
    )


def _header(number: int, header: Any) -> Header:
    _check_fields(number, "a header", header, _HEADER_FIELDS)
    if not isinstance(header.get("name"), str):
        raise _fault(number, "each of 'headers' needs a field 'name' with a text")
    return header["name"], _bytes(number, header, "value")


def _check_fields(number: int, what: str, entry: Any, known: Sequence[str]) -> None:
    if not isinstance(entry, dict):
        raise _fault(number, f"{what} must be an object, not {_kind(entry)}")
    for name in entry:
        if name not in known:
            raise _fault(number, f"{what} has no field {name!r}; it may have {', '.join(known)}")


def _fault(number: int, why: str) -> UsageError:
    return UsageError(f"line {number}: {why}")


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "null")


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


def _bytes(number: int, entry: Mapping[str, Any], name: str) -> bytes | None:
    """A text as it is, anything else as the JSON it was written in."""
    coded = entry.get(f"{name}_base64")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (ValueError, TypeError):
            raise _fault(number, f"field '{name}_base64' is not base64") from None
    value = entry.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json_text(value).encode()


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
