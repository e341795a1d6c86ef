"""Bytes of a record as people read them: text, JSON, hex, or Avro where a registry is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from klamm.client.aio.consumer import Consumed
from klamm.model.errors import KlammError

Json = dict[str, Any]
Decode = Callable[[bytes], Any]  # Avro by the schema that a value names; waits in its thread
FORMS: Final = ("text", "json", "hex", "avro")
_HEADERS: Final = 20
_HEADER_MAX: Final = 200
_LINE: Final = 16


def item(record: Consumed, most: int, form: str, decode: Decode | None) -> Json:
    """One record, as a list shows it."""
    value, fault = rendered(record.value, most, form, decode)
    is_cut = record.value is not None and len(record.value) > most
    return {
        "id": f"{record.partition}.{record.offset}",
        "partition": record.partition,
        "offset": record.offset,
        "time_ms": record.timestamp,
        "key": text(record.key, most),
        "value": value,
        "value_size": None if record.value is None else len(record.value),
        "cut": is_cut,
        "fault": fault,
        "headers": [
            {"id": f"{n}", "name": name, "value": text(data, _HEADER_MAX)}
            for n, (name, data) in enumerate(record.headers[:_HEADERS])
        ],
        "headers_count": len(record.headers),
        "again": _again(record, is_cut=is_cut),
    }


def rendered(
    data: bytes | None, most: int, form: str, decode: Decode | None
) -> tuple[str | None, str]:
    """A value in the form that was asked for, or as text and why not."""
    if data is None:
        return None, ""
    match form:
        case "hex":
            return dumped(data[:most]), ""
        case "json":
            try:
                told = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
            except (ValueError, RecursionError):
                return text(data, most), "not JSON"
            return told[:most], ""
        case "avro":
            if decode is None:
                return text(data, most), "no registry: start the console with --registry URL"
            try:
                told = json.dumps(decode(bytes(data)), indent=2, ensure_ascii=False, default=str)
            except (KlammError, OSError, ValueError, RecursionError) as fault:
                return text(data, most), f"not Avro: {fault}"[:_HEADER_MAX]
            return told[:most], ""
        case _:
            return text(data, most), ""


def text(data: bytes | None, most: int) -> str | None:
    """Text where it is text, else its bytes in hex."""
    if data is None:
        return None
    cut = bytes(data[:most])
    try:
        return cut.decode()
    except UnicodeDecodeError as fault:
        if fault.start >= len(cut) - 3 and len(data) > most:
            return cut[: fault.start].decode()
        return cut.hex(" ")


def dumped(data: bytes) -> str:
    """Bytes in lines of sixteen, with the characters that they are."""
    lines = []
    for at in range(0, len(data), _LINE):
        part = bytes(data[at : at + _LINE])
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{3 * _LINE}} {seen}")
    return "\n".join(lines)


def _again(record: Consumed, *, is_cut: bool) -> Json | None:
    """The fields to write the same record again; None where a form cannot hold its bytes."""
    if is_cut or len(record.headers) > _HEADERS:
        return None
    try:
        headers = [(name, (data or b"").decode()) for name, data in record.headers]
        if any("=" in name or not (name + told).isprintable() for name, told in headers):
            return None
        return {
            "key": None if record.key is None else record.key.decode(),
            "value": None if record.value is None else record.value.decode(),
            "null": record.value is None,
            "partition": record.partition,
            "headers": "\n".join(f"{name}={told}" for name, told in headers),
        }
    except UnicodeDecodeError:
        return None
