"""Spells out the way from a message to its bytes."""

from __future__ import annotations

from typing import Final

from klamm.protocol.compiling.source import FIXED, ByCount, FunctionSource
from klamm.protocol.schema import WireField

_PACKERS: Final = {form: ByCount(form, "pack") for form in "bhiqd?"}


class MessageWriter(FunctionSource):
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

    def tags(self, fields: list[tuple[str, WireField]], subject: str) -> None:
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

    def default(self, wire: WireField) -> str:
        return self.constant(wire.default) if wire.kind == "struct" else self.literal(wire.default)

    def value(self, wire: WireField, kind: str, expression: str) -> None:
        if kind == "uuid":
            self.fixed("16s", f"{expression}.bytes")
        elif kind in FIXED:
            self.fixed(FIXED[kind], expression)
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

    def array(self, wire: WireField, expression: str, *, nullable: bool) -> None:
        items = self.new("a")
        self.add(f"{items} = {expression}")
        counted = f"(-1 if {items} is None else len({items}))" if nullable else f"len({items})"
        self.length(counted, "array")
        self.flush()
        if wire.element in FIXED and wire.element != "uuid":
            with self.block(f"if {items}:"):
                pack = self.constant(_PACKERS[FIXED[wire.element]])
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
