"""Spells out the way from bytes back to a message.

Readers never trust a length: a count larger than what is left of the message is refused before
anything is built, and one check at the end catches a slice that ran over. They are told how many
items a message may have in all its lists together, and refuse what has more. Unknown tags are
skipped.
"""

from __future__ import annotations

import struct
from typing import Final

from klamm.protocol.compiling.source import FIXED, TAGS_MAX, ByCount, FunctionSource
from klamm.protocol.schema import WireField, wire_fields

# Where nothing is said: a message of our own, or from a broker of ours.
ANY_NUMBER: Final = 1 << 62

# A list of numbers is read in one go, and a number takes less than a struct or a name.
_NUMBERS_AN_ITEM: Final = 4
_UNPACKERS: Final = {form: ByCount(form, "unpack_from") for form in "bhiqd?"}


class MessageReader(FunctionSource):
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
        tagged: list[tuple[str, WireField]] = []
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

    def default(self, wire: WireField) -> str:
        if wire.default is None:
            return "None"
        if wire.kind == "struct":
            return f"{self.constant(wire.struct)}()"
        return "[]" if wire.kind == "array" else self.literal(wire.default)

    def tags(self, fields: list[tuple[str, WireField]]) -> dict[str, str]:
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
            with self.block(f"if {count} > {TAGS_MAX}:"):
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

    def value(self, wire: WireField, kind: str) -> str:
        if kind in FIXED:
            return self.fixed(FIXED[kind])
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

    def array(self, wire: WireField, *, nullable: bool) -> str:
        count, items = self.length("array"), self.new("a")
        with self.block(f"if {count} < 0:"):
            self.add(f"{items} = None" if nullable else "fail('a null where there must be a list')")
        with self.block("else:"):
            is_number = wire.element in FIXED and wire.element != "uuid"
            self.guard(count, weight=f"{count} // {_NUMBERS_AN_ITEM}" if is_number else count)
            self.elements(wire, count, items)
        return items

    def elements(self, wire: WireField, count: str, items: str) -> None:
        if wire.element in FIXED and wire.element != "uuid":
            form = FIXED[wire.element]
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
