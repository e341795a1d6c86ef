"""Lines of records by a pattern: `%k=%v` writes and reads a key and a value.

    %k  the key            %p  the partition
    %v  the value          %o  the offset (only where records are read)
    %h  headers a=1,b=2    %t  the timestamp, milliseconds since 1970
    %T  the topic          %%  a percent sign; \\n, \\t and \\\\ as usual

A pattern that reads lines needs some text between two fields; a field ends where that text begins
first, and the last one takes the rest of the line. Kafka's "no key" and "no value" are read from,
and written as, nothing at all.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from klamm.cli.records.lines import Header, NewRecord
from klamm.client.aio.consumer import Consumed
from klamm.model.errors import UsageError
from klamm.model.text import printable

_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\"}
_FIELDS: Final = "kvhpotT"
_READABLE: Final = "kvhpt"


class PatternPiece(NamedTuple):
    """A field, or the text between two."""

    field: str  # a letter, or nothing where this is text
    text: str = ""


class PatternRecord(NamedTuple):
    """A record that was read from a line by a pattern."""

    record: NewRecord
    timestamp: int | None


def parse(pattern: str) -> list[PatternPiece]:
    """The pieces of a pattern; neighbouring texts are one."""
    pieces: list[PatternPiece] = []
    for match in re.finditer(r"%(.?)|\\(.?)|([^%\\]+)", pattern, re.DOTALL):
        sign, escape, text = match.groups()
        if sign is not None and sign != "%":
            if not sign or sign not in _FIELDS:
                raise UsageError(
                    f"a pattern has no field %{sign}: use {', '.join('%' + f for f in _FIELDS)}"
                )
            pieces.append(PatternPiece(sign))
            continue
        if escape is not None and escape not in _ESCAPES:
            raise UsageError(f"a pattern has no \\{escape}: use \\n, \\t or \\\\")
        plain = "%" if sign else text if escape is None else _ESCAPES[escape]
        if pieces and not pieces[-1].field:
            pieces[-1] = PatternPiece("", pieces[-1].text + plain)
        else:
            pieces.append(PatternPiece("", plain))
    return pieces


class Writer:
    """Shows records by a pattern."""

    def __init__(self, pattern: str, *, raw: bool) -> None:
        self._pieces = parse(pattern)
        self._raw = raw

    def __call__(self, record: Consumed, _separator: str | None = None) -> bytes:
        return b"".join(self._shown(record, piece) for piece in self._pieces) + b"\n"

    def _shown(self, record: Consumed, piece: PatternPiece) -> bytes:
        match piece.field:
            case "k":
                return self._bytes(record.key)
            case "v":
                return self._bytes(record.value)
            case "h":
                return b",".join(
                    self._bytes(name.encode()) + b"=" + self._bytes(data)
                    for name, data in record.headers
                )
            case "p":
                return str(record.partition).encode()
            case "o":
                return str(record.offset).encode()
            case "t":
                return str(record.timestamp).encode()
            case "T":
                return record.topic.encode()
            case _:
                return piece.text.encode()

    def _bytes(self, data: bytes | None) -> bytes:
        if self._raw:
            return data or b""
        return printable((data or b"").decode(errors="backslashreplace"), keep="\t").encode()


class PatternReader:
    """Reads records from lines by a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._pieces = parse(pattern)
        self._check()
        expression = "".join(
            f"(?P<{p.field}>.*?)" if p.field else re.escape(p.text) for p in self._pieces
        )
        self._expression = re.compile(expression.encode() + rb"\Z", re.DOTALL)

    def __call__(self, line: bytes, number: int) -> PatternRecord:
        """The record of a line; a `UsageError` names the line that does not fit."""
        found = self._expression.match(line)
        if found is None:
            text = line.decode(errors="replace")
            shown = text if len(text) <= 60 else text[:57] + "..."
            raise UsageError(f"line {number} does not fit {self._pattern!r}: {shown!r}")
        fields = found.groupdict()
        return PatternRecord(
            NewRecord(
                fields.get("k") or None,
                fields.get("v") or None,
                tuple(_headers(fields.get("h") or b"", number)),
                _number(fields.get("p"), "partition", number),
            ),
            _number(fields.get("t"), "timestamp", number),
        )

    def _check(self) -> None:
        fields = [piece.field for piece in self._pieces if piece.field]
        for field in fields:
            if field not in _READABLE:
                raise UsageError(f"%{field} can be printed but not written: leave it out")
        if not fields or len(set(fields)) != len(fields):
            raise UsageError(f"{self._pattern!r} must name fields, and each of them once")
        for one, other in zip(self._pieces, self._pieces[1:], strict=False):
            if one.field and other.field:
                raise UsageError(
                    f"nothing stands between %{one.field} and %{other.field} in {self._pattern!r}: "
                    "a line cannot be cut there"
                )


def _headers(text: bytes, number: int) -> list[Header]:
    found: list[Header] = []
    for part in text.split(b",") if text else ():
        name, equals, value = part.partition(b"=")
        if not equals or not name:
            raise UsageError(f"line {number}: headers are written a=1,b=2, not {part.decode()!r}")
        found.append((name.decode(errors="replace"), value))
    return found


def _number(text: bytes | None, what: str, number: int) -> int | None:
    if text is None or not text:
        return None
    if not text.isdigit():
        raise UsageError(f"line {number}: {what} {text.decode(errors='replace')!r} is no number")
    return int(text)
