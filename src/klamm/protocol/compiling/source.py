"""Lines of Python for one message class and version, and the objects they mention by name."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from klamm.model.errors import ProtocolError
from klamm.model.names import ZERO_ID, id_from_bytes
from klamm.protocol.schema import WireField, wire_fields
from klamm.protocol.varint import ONE_BYTE, read_uvarint, uvarint

FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}

# A section of tagged fields is read in one go. The protocol's messages have a handful at most.
TAGS_MAX: Final = 64
# So many items are read or written between two stops; about a tenth of a millisecond of work.
_STEP: Final = 64


class ByCount(dict[int, Callable[..., Any]]):
    """Packers for lists of numbers, one for each length in use."""

    def __init__(self, form: str, method: str) -> None:
        self._form = form
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        made: Callable[..., Any] = getattr(struct.Struct(f">{count}{self._form}"), self._method)
        # Nobody's replica list is this long; a peer must not fill memory with odd lengths.
        if count < 64:
            self[count] = made
        return made


def skip_tags(buf: bytes | bytearray | memoryview, at: int) -> int:
    """The end of a section of tagged fields of which none is known."""
    count, at = read_uvarint(buf, at)
    if count > TAGS_MAX:
        _fail(f"a section of {count} tagged fields; at most {TAGS_MAX} are read")
    for _ in range(count):
        _, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        at += size
    return at


def _fail(why: str) -> NoReturn:
    raise ProtocolError(why)


class FunctionSource:
    """Lines of a function in the making, and the objects they mention by name."""

    def __init__(self, version: int, flexible: bool, *, stepped: bool = False) -> None:
        self.version = version
        self.flexible = flexible
        self.stepped = stepped
        self.lines: list[str] = []
        self._depth = 1
        self._count = 0
        self._names: dict[str, Any] = {
            "uvarint": uvarint,
            "read_uvarint": read_uvarint,
            "one": ONE_BYTE,
            "skip_tags": skip_tags,
            "fail": _fail,
            "too_many": "more items than a request may have",
            "id_from_bytes": id_from_bytes,
            "ZERO_ID": ZERO_ID,
        }
        self._known: dict[int | str, str] = {}

    def add(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.add(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def new(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, value: Any, stem: str = "k") -> str:
        """The name under which the source may mention an object."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = self.new(stem)
            self._names[name] = value
        return name

    def packer(self, form: str, method: str) -> str:
        key = method + form
        if key not in self._known:
            self._known[key] = self.new(method[0])
            self._names[self._known[key]] = getattr(struct.Struct(">" + form), method)
        return self._known[key]

    def begin(self) -> None:
        """Opens a function that counts its steps; a `yield` anywhere makes it a generator."""
        if self.stepped:
            self.add(f"step = {_STEP}")
            with self.block("if False:"):
                self.add("yield")

    def stop(self) -> None:
        """Stops here every few times."""
        if self.stepped:
            self.add("step -= 1")
            with self.block("if not step:"):
                self.add(f"step = {_STEP}")
                self.add("yield")

    def present(self, cls: type) -> list[tuple[str, WireField]]:
        return [(name, w) for name, w in wire_fields(cls) if self.version in w.versions]

    def function(self, name: str) -> Callable[..., Any]:
        exec("\n".join(self.lines), self._names)
        made: Callable[..., Any] = self._names[name]
        return made

    def literal(self, value: Any) -> str:
        """A literal for plain values, a named constant for the rest."""
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return repr(value)
        return self.constant(value)
