"""Turns a message's declaration into two straight-line functions: one writes, one reads.

Walking the declaration for every message would cost more than the work itself, so the walk happens
once for each class and version, and leaves Python source behind: neighbours of fixed width share
one `struct` call, loops over arrays are spelled out, and a version's absent fields do not occur.
What a compiled pair looks like is best seen by printing `source_of_writer(...)`.

Readers never trust a length: a count larger than what is left of the message is refused before
anything is built, and one check at the end catches a slice that ran over. They are told how many
items a message may have in all its lists together, and refuse what has more. Unknown tags are
skipped.

Each comes in two forms from the same declaration. A plain one does its work in one go; one in steps
is a generator that stops after every few items, so that whoever drives it can do something else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from klamm.model.errors import ProtocolError
from klamm.model.names import ZERO_ID, id_from_bytes
from klamm.protocol.schema import Wire, wire_fields
from klamm.protocol.varint import ONE_BYTE, read_uvarint, uvarint

_FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}


# So many items are read or written between two stops; about a tenth of a millisecond of work.
_STEP: Final = 64
# A list of numbers is read in one go, and a number takes less than a struct or a name.
_NUMBERS_AN_ITEM: Final = 4
# A section of tagged fields is read in one go. The protocol's messages have a handful at most.
_TAGS_MAX: Final = 64

# Where nothing is said: a message of our own, or from a broker of ours.
ANY_NUMBER: Final = 1 << 62

Reader = Callable[..., Any]
SteppedReader = Callable[[bytes, int], Generator[None, None, Any]]
SteppedWriter = Callable[[Any], Generator[None, None, bytes]]


class _ByCount(dict[int, Callable[..., Any]]):
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


_PACKERS: Final = {form: _ByCount(form, "pack") for form in "bhiqd?"}
_UNPACKERS: Final = {form: _ByCount(form, "unpack_from") for form in "bhiqd?"}


def compile_writer(cls: type, version: int, flexible: bool) -> Callable[[Any], bytes]:
    """A function from a message to its bytes in this version."""
    writer = _Writer(version, flexible)
    writer.message(cls)
    return writer.function("write")


def compile_stepped_writer(cls: type, version: int, flexible: bool) -> SteppedWriter:
    """The same as a generator that stops every few items and returns the bytes."""
    writer = _Writer(version, flexible, stepped=True)
    writer.message(cls)
    return writer.function("write")


def compile_reader(cls: type, version: int, flexible: bool) -> Reader:
    """A function from the bytes of a message in this version, and the most items, to the message.

    Besides `ProtocolError` it raises what running off a buffer raises: IndexError, struct.error,
    UnicodeDecodeError. The codec makes one of them all.
    """
    reader = _Reader(version, flexible)
    reader.message(cls)
    return reader.function("read")


def compile_stepped_reader(cls: type, version: int, flexible: bool) -> SteppedReader:
    """The same as a generator that stops every few items and returns the message."""
    reader = _Reader(version, flexible, stepped=True)
    reader.message(cls)
    return reader.function("read")


def source_of_writer(cls: type, version: int, flexible: bool) -> str:
    """The source behind `compile_writer`, for curious eyes."""
    writer = _Writer(version, flexible)
    writer.message(cls)
    return "\n".join(writer.lines)


def source_of_reader(cls: type, version: int, flexible: bool) -> str:
    """The source behind `compile_reader`, for curious eyes."""
    reader = _Reader(version, flexible)
    reader.message(cls)
    return "\n".join(reader.lines)


def skip_tags(buf: bytes | bytearray | memoryview, at: int) -> int:
    """The end of a section of tagged fields of which none is known."""
    count, at = read_uvarint(buf, at)
    if count > _TAGS_MAX:
        _fail(f"a section of {count} tagged fields; at most {_TAGS_MAX} are read")
    for _ in range(count):
        _, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        at += size
    return at


def _fail(why: str) -> NoReturn:
    raise ProtocolError(why)


class _Source:
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

    def present(self, cls: type) -> list[tuple[str, Wire]]:
        return [(name, w) for name, w in wire_fields(cls) if self.version in w.versions]

    def function(self, name: str) -> Callable[..., Any]:
        exec("\n".join(self.lines), self._names)
        made: Callable[..., Any] = self._names[name]
        return made


class _Writer(_Source):
    """Spells out the bytes of a message."""

    def __init__(self, version: int, flexible: bool, *, stepped: bool = False) -> None:
        super().__init__(version, flexible, stepped=stepped)
        self._out = "out"
        self._pending: list[tuple[str, str]] = []  # fixed-width values that await one pack

    def message(self, cls: type) -> None:
        self.lines.append("def write(m):")
        self.begin()
        self.add("out = bytearray()")
        self.struct(cls, "m")
        self.flush()
        self.add("return bytes(out)")

    def fixed(self, form: str, expression: str) -> None:
        self._pending.append((form, expression))

    def flush(self) -> None:
        if not self._pending:
            return
        form = "".join(f for f, _ in self._pending)
        values = ", ".join(e for _, e in self._pending if e)
        self._pending.clear()
        if values:
            self.add(f"{self._out} += {self.packer(form, 'pack')}({values})")
        else:
            self.add(f"{self._out} += {self.constant(bytes(len(form)))}")

    def struct(self, cls: type, subject: str) -> None:
        fields = self.present(cls)
        for name, wire in fields:
            if wire.tag is None:
                self.value(wire, wire.kind, f"{subject}.{name}")
        if self.flexible:
            self.tags([(n, w) for n, w in fields if w.tag is not None], subject)

    def tags(self, fields: list[tuple[str, Wire]], subject: str) -> None:
        if not fields:
            self.fixed("x", "")
            return
        self.flush()
        tags, count, outer = self.new("t"), self.new("n"), self._out
        self.add(f"{count} = 0; {tags} = bytearray()")
        for name, wire in sorted(fields, key=lambda field: field[1].tag or 0):
            value = f"{subject}.{name}"
            differs = value if wire.kind == "array" else f"{value} != {self.default(wire)}"
            with self.block(f"if {differs}:"):
                self._out = self.new("o")
                self.add(f"{self._out} = bytearray()")
                self.value(wire, wire.kind, value)
                self.flush()
                self.add(f"{count} += 1")
                self.add(f"{tags} += uvarint({wire.tag}) + uvarint(len({self._out})) + {self._out}")
        self._out = outer
        self.add(f"{outer} += uvarint({count}) + {tags}")

    def default(self, wire: Wire) -> str:
        return self.constant(wire.default) if wire.kind == "struct" else repr_of(self, wire.default)

    def value(self, wire: Wire, kind: str, expression: str) -> None:
        if kind == "uuid":
            self.fixed("16s", f"{expression}.bytes")
        elif kind in _FIXED:
            self.fixed(_FIXED[kind], expression)
        elif kind == "struct":
            assert wire.struct is not None
            subject = self.new("m")
            self.add(f"{subject} = {expression}")
            if self.version in wire.nullable:
                self.optional(wire.struct, subject)
            else:
                self.struct(wire.struct, subject)
        elif kind == "array":
            self.array(wire, expression, nullable=self.version in wire.nullable)
        else:
            nullable = self.version in wire.nullable and wire.kind != "array"
            self.text(kind, expression, nullable=nullable)

    def optional(self, cls: type, subject: str) -> None:
        """A struct that may be null has a byte in front that says whether it is."""
        self.flush()
        with self.block(f"if {subject} is None:"):
            self.add(f"{self._out} += b'\\xff'")
        with self.block("else:"):
            self.add(f"{self._out} += b'\\x01'")
            self.struct(cls, subject)
            self.flush()

    def text(self, kind: str, expression: str, *, nullable: bool) -> None:
        data = self.new("b")
        encoded = f"{expression}.encode()" if kind == "string" else expression
        if nullable:
            value = self.new("v")
            self.add(f"{value} = {expression}")
            self.add(f"{data} = b'' if {value} is None else {encoded.replace(expression, value)}")
            self.length(f"(-1 if {value} is None else len({data}))", kind)
        else:
            self.add(f"{data} = {encoded}")
            self.length(f"len({data})", kind)
        self.flush()
        self.add(f"{self._out} += {data}")

    def length(self, expression: str, kind: str) -> None:
        """A length or a count in front of what it measures."""
        if not self.flexible:
            self.fixed("h" if kind == "string" else "i", expression)
            return
        count = self.new("n")
        self.add(f"{count} = {expression} + 1")
        self.flush()
        self.add(f"{self._out} += one[{count}] if {count} < 128 else uvarint({count})")

    def array(self, wire: Wire, expression: str, *, nullable: bool) -> None:
        items = self.new("a")
        self.add(f"{items} = {expression}")
        counted = f"(-1 if {items} is None else len({items}))" if nullable else f"len({items})"
        self.length(counted, "array")
        self.flush()
        if wire.element in _FIXED and wire.element != "uuid":
            with self.block(f"if {items}:"):
                pack = self.constant(_PACKERS[_FIXED[wire.element]])
                self.add(f"{self._out} += {pack}[len({items})](*{items})")
            return
        item = self.new("m")
        looped = f"({items} or ())" if nullable else items
        with self.block(f"for {item} in {looped}:"):
            if wire.element == "struct":
                assert wire.struct is not None
                self.struct(wire.struct, item)
            else:
                assert wire.element is not None
                self.value(wire, wire.element, item)
            self.flush()
            self.stop()


class _Reader(_Source):
    """Spells out the way from bytes back to a message."""

    def __init__(self, version: int, flexible: bool, *, stepped: bool = False) -> None:
        super().__init__(version, flexible, stepped=stepped)
        self._pending: list[tuple[str, str]] = []  # fixed-width targets that await one unpack

    def message(self, cls: type) -> None:
        self.lines.append(f"def read(buf, left={ANY_NUMBER}):")
        self.begin()
        self.add("at = 0; size = len(buf)")
        made = self.struct(cls)
        self.flush()
        with self.block("if at > size:"):
            self.add("fail('the message ends early')")
        self.add(f"return {made}")

    def fixed(self, form: str) -> str:
        target = self.new("v")
        self._pending.append((form, target))
        return target

    def flush(self) -> None:
        if not self._pending:
            return
        form = "".join(f for f, _ in self._pending)
        targets = ", ".join(t for _, t in self._pending)
        if form == "B":
            self.add(f"{targets} = buf[at]")
        else:
            self.add(f"{targets}, = {self.packer(form, 'unpack_from')}(buf, at)")
        self.add(f"at += {struct.calcsize('>' + form)}")
        ids = [target for f, target in self._pending if f == "16s"]
        self._pending.clear()
        for name in ids:
            self.add(f"{name} = id_from_bytes({name})")

    def struct(self, cls: type) -> str:
        """Emits the reading of a struct; returns the expression that builds it."""
        values: dict[str, str] = {}
        tagged: list[tuple[str, Wire]] = []
        for name, wire in wire_fields(cls):
            if self.version not in wire.versions:
                values[name] = self.default(wire)
            elif wire.tag is None:
                values[name] = self.value(wire, wire.kind)
            else:
                tagged.append((name, wire))
        if self.flexible:
            values |= self.tags(tagged)
        in_order = ", ".join(values[name] for name, _ in wire_fields(cls))
        return f"{self.constant(cls, cls.__name__)}({in_order})"

    def default(self, wire: Wire) -> str:
        if wire.default is None:
            return "None"
        if wire.kind == "struct":
            return f"{self.constant(wire.struct)}()"
        return "[]" if wire.kind == "array" else repr_of(self, wire.default)

    def tags(self, fields: list[tuple[str, Wire]]) -> dict[str, str]:
        count = self.new("n")
        if not fields:
            self._pending.append(("B", count))
            self.flush()
            with self.block(f"if {count}:"):
                self.add("at = skip_tags(buf, at - 1)")
            return {}
        values = {name: self.new("v") for name, _ in fields}
        tag, end = self.new("t"), self.new("e")
        for name, wire in fields:
            self.add(f"{values[name]} = {self.default(wire)}")
        self._pending.append(("B", count))
        self.flush()
        with self.block(f"if {count}:"):
            self.add(f"{count}, at = read_uvarint(buf, at - 1)")
            with self.block(f"if {count} > {_TAGS_MAX}:"):
                self.add("fail('a section of too many tagged fields')")
            with self.block(f"for _ in range({count}):"):
                self.add(f"{tag}, at = read_uvarint(buf, at)")
                self.add(f"{end}, at = read_uvarint(buf, at); {end} += at")
                for name, wire in fields:
                    with self.block(f"if {tag} == {wire.tag}:"):
                        got = self.value(wire, wire.kind)
                        self.flush()
                        self.add(f"{values[name]} = {got}")
                self.add(f"at = {end}")
        return values

    def guard(self, count: str, *, weight: str) -> None:
        # Whatever is counted takes a byte at least: a larger count is a lie that must not loop.
        with self.block(f"if {count} > size - at:"):
            self.add("fail('a count is larger than the message')")
        self.add(f"left -= {weight}")
        with self.block("if left < 0:"):
            self.add("fail(too_many)")

    def value(self, wire: Wire, kind: str) -> str:
        if kind in _FIXED:
            return self.fixed(_FIXED[kind])
        if kind == "struct":
            assert wire.struct is not None
            if self.version in wire.nullable:
                return self.optional(wire.struct)
            return self.struct(wire.struct)
        if kind == "array":
            return self.array(wire, nullable=self.version in wire.nullable)
        nullable = self.version in wire.nullable and wire.kind != "array"
        return self.text(kind, nullable=nullable)

    def optional(self, cls: type) -> str:
        present, value = self.fixed("b"), self.new("v")
        self.flush()
        with self.block(f"if {present} < 0:"):
            self.add(f"{value} = None")
        with self.block("else:"):
            made = self.struct(cls)
            self.flush()
            self.add(f"{value} = {made}")
        return value

    def length(self, kind: str) -> str:
        if not self.flexible:
            count = self.fixed("h" if kind == "string" else "i")
            self.flush()
            return count
        count = self.fixed("B")
        self.flush()
        with self.block(f"if {count} > 127:"):
            self.add(f"{count}, at = read_uvarint(buf, at - 1)")
        self.add(f"{count} -= 1")
        return count

    def text(self, kind: str, *, nullable: bool) -> str:
        count, value = self.length(kind), self.new("v")
        with self.block(f"if {count} < 0:"):
            self.add(
                f"{value} = None" if nullable else "fail('a null where there must be a value')"
            )
        with self.block("else:"):
            self.add(f"{value} = buf[at : at + {count}]{'.decode()' if kind == 'string' else ''}")
            self.add(f"at += {count}")
        return value

    def array(self, wire: Wire, *, nullable: bool) -> str:
        count, items = self.length("array"), self.new("a")
        with self.block(f"if {count} < 0:"):
            self.add(f"{items} = None" if nullable else "fail('a null where there must be a list')")
        with self.block("else:"):
            is_number = wire.element in _FIXED and wire.element != "uuid"
            self.guard(count, weight=f"{count} // {_NUMBERS_AN_ITEM}" if is_number else count)
            self.elements(wire, count, items)
        return items

    def elements(self, wire: Wire, count: str, items: str) -> None:
        if wire.element in _FIXED and wire.element != "uuid":
            form = _FIXED[wire.element]
            unpack = self.constant(_UNPACKERS[form])
            self.add(f"{items} = list({unpack}[{count}](buf, at))")
            self.add(f"at += {struct.calcsize('>' + form)} * {count}")
            return
        self.add(f"{items} = []")
        with self.block(f"for _ in range({count}):"):
            if wire.element == "struct":
                assert wire.struct is not None
                made = self.struct(wire.struct)
            else:
                assert wire.element is not None
                made = self.value(wire, wire.element)
            self.flush()
            self.add(f"{items}.append({made})")
            self.stop()


def repr_of(source: _Source, value: Any) -> str:
    """A literal for plain values, a named constant for the rest."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    return source.constant(value)
