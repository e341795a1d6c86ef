"""Avro values, decoded by the schema that their frame names."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final

from klamm.client.registry.framing import Undecodable, unframed
from klamm.client.registry.schemas import Schemas
from klamm.installing import install_command
from klamm.model.errors import UsageError

_KNOWN_MAX: Final = 1000  # parsed schemas that are kept


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

    A type within itself is read as deeply as the bytes say, which the reader's stack is not; and a
    list of what takes no bytes is as long as its first number says.
    """
    if any(_is_empty(items, named) for items in _items(schema, named, ())):
        raise Undecodable("has arrays of what takes no bytes")


def _items(schema: Any, named: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[Any]:
    """The items of the arrays of a schema."""
    if isinstance(schema, str):
        if schema not in named:
            return
        schema = named[schema]
    if isinstance(schema, list):
        for each in schema:
            yield from _items(each, named, above)
        return
    kind = schema["type"]
    if isinstance(kind, dict | list):
        yield from _items(kind, named, above)
    elif kind in ("record", "error"):
        if schema["name"] in above:
            raise Undecodable(
                f"has {schema['name'][:100]} within itself, which klamm does not read"
            )
        for each in schema["fields"]:
            yield from _items(each["type"], named, (*above, schema["name"]))
    elif kind == "array":
        yield schema["items"]
        yield from _items(schema["items"], named, above)
    elif kind == "map":
        yield from _items(schema["values"], named, above)


def _is_empty(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether a value of this schema takes no bytes."""
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _is_empty(named[schema], named))
    if isinstance(schema, list):
        return False  # the number of its branch takes one
    match schema["type"]:
        case "record" | "error":
            return all(_is_empty(each["type"], named) for each in schema["fields"])
        case "fixed":
            return bool(schema["size"] == 0)
        case dict() | list() as inner:
            return _is_empty(inner, named)
    return bool(schema["type"] == "null")


def _line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0][:200]
