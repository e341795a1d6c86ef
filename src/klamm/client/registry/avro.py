"""Avro values, decoded by the schema that their frame names."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from klamm.client.registry.framing import Undecodable, unframed
from klamm.client.registry.schemas import Schemas
from klamm.installing import install_command
from klamm.model.errors import UsageError

_KNOWN_MAX: Final = 1000  # parsed schemas that are kept
_PARTS_MAX: Final = 100_000  # values within one value, as its schema alone says


def require_avro() -> None:
    """Says what is missing."""
    if find_spec("fastavro") is None:
        raise UsageError(
            f"Avro needs fastavro, which is not installed: `{install_command('avro')}`"
        )


class AvroDecoder:
    """Decodes framed values, and keeps the schemas it has met."""

    def __init__(self, schemas: Schemas) -> None:
        require_avro()
        self._schemas = schemas
        self._known: dict[int, Any] = {}
        self._faults: dict[int, str] = {}

    def decode(self, data: bytes) -> tuple[int, Any]:
        """The number of a value's schema, and the value as Python has it."""
        import fastavro

        number, payload = unframed(data)
        schema = self.schema(number)
        source = io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(source, schema, None)
        except (MemoryError, RecursionError):
            raise Undecodable(f"it is too large for schema number {number}") from None
        except Exception as fault:  # noqa: BLE001 - whatever a stranger's bytes make a library do
            raise Undecodable(f"it is not of schema number {number}: {_line(fault)}") from None
        if left := len(payload) - source.tell():
            raise Undecodable(f"it has {left} bytes more than schema number {number} says")
        return number, value

    def schema(self, number: int) -> Any:
        """The parsed schema of a number."""
        import fastavro

        if number in self._faults:
            raise Undecodable(self._faults[number])
        if number not in self._known:
            found = self._schemas.described(number)
            try:
                named: dict[str, Any] = {}
                for reference in found.references:
                    fastavro.parse_schema(reference, named_schemas=named)
                schema = fastavro.parse_schema(found.schema, named_schemas=named)
                _refuse_traps(schema, named)
            except Undecodable as fault:
                self._faults[number] = f"schema number {number} {fault}"
                raise Undecodable(self._faults[number]) from None
            except Exception as fault:  # noqa: BLE001 - as above
                self._faults[number] = f"schema number {number} is no Avro schema: {_line(fault)}"
                raise Undecodable(self._faults[number]) from None
            if len(self._known) >= _KNOWN_MAX:
                self._known.pop(next(iter(self._known)))
            self._known[number] = schema
        return self._known[number]


def _refuse_traps(schema: Any, named: Mapping[str, Any]) -> None:
    """Schemas by which a few bytes become an endless value.

    A type within itself is read as deeply as the bytes say, which the reader's stack is not; a list
    of what takes no bytes is as long as its first number says; and records of two records each, of
    two records each, are a thousand after ten of them.
    """
    _Walk(named).walk(schema)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The least that a value of a schema takes, and holds."""

    parts: int  # values within a value, lists of one
    is_empty: bool  # it takes no bytes


class _Walk:
    """Looks at each named type once, however often it is named."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, _Shape] = {}
        self._above: set[str] = set()

    def walk(self, schema: Any) -> _Shape:
        """The shape of a schema, or of the type of that name."""
        if isinstance(schema, str):
            if schema in self._known:
                return self._known[schema]
            if schema not in self._named:
                return _Shape(1, schema == "null")
            schema = self._named[schema]
        if isinstance(schema, list):
            # The number of a branch takes a byte.
            return _Shape(max((self.walk(each).parts for each in schema), default=1), False)
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "array":
                inner = self.walk(schema["items"])
                if inner.is_empty:
                    raise Undecodable("has arrays of what takes no bytes")
                return _Shape(inner.parts + 1, False)
            case "map":
                return _Shape(self.walk(schema["values"]).parts + 1, False)
            case "fixed":
                return _Shape(1, bool(schema["size"] == 0))
            case "enum":
                return _Shape(1, False)
            case inner_kind:
                return self.walk(inner_kind)

    def _record(self, schema: Any) -> _Shape:
        name = schema["name"]
        if name in self._known:
            return self._known[name]
        if name in self._above:
            raise Undecodable(f"has {name[:100]} within itself, which klamm does not read")
        self._above.add(name)
        fields = [self.walk(each["type"]) for each in schema["fields"]]
        self._above.discard(name)
        found = _Shape(1 + sum(f.parts for f in fields), all(f.is_empty for f in fields))
        if found.parts > _PARTS_MAX:
            raise Undecodable(f"has more than {_PARTS_MAX:,} values in one")
        self._known[name] = found
        return found


def _line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0][:200]
