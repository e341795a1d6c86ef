"""The columns that an Avro schema asks for."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: Final = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
    "time-millis": pa.string(),
    "time-micros": pa.string(),
}
_PRECISION_MAX: Final = 38


def columns_of_schema(schema: Any) -> dict[str, Any]:
    """The columns of a schema: its fields, or one for a value that is no record."""
    named = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
    if is_record(schema):
        return {each["name"]: _kind(each["type"], named) for each in schema["fields"]}
    return {"value": _kind(schema, named)}


def is_record(schema: Any) -> bool:
    """Whether the values of a schema are records, with fields."""
    return isinstance(schema, dict) and schema["type"] == "record"


def _kind(schema: Any, named: Any) -> Any:
    """A column's type. What can be of several types is kept as JSON text."""
    match schema:
        case str() if schema in named:
            return _kind(named[schema], named)
        case str():
            return _PLAIN.get(schema, pa.string())
        case list():
            branches = [each for each in schema if each != "null"]
            return _kind(branches[0], named) if len(branches) == 1 else pa.string()
        case {"logicalType": "decimal", "precision": int(precision)}:
            if precision <= _PRECISION_MAX:
                return pa.decimal128(precision, schema.get("scale", 0))
            return pa.string()
        case {"logicalType": str(word)} if word in _LOGICAL:
            return _LOGICAL[word]
        case {"type": "record"}:
            inner = [pa.field(f["name"], _kind(f["type"], named)) for f in schema["fields"]]
            return pa.struct(inner) if inner else pa.string()
        case {"type": "array"}:
            return pa.list_(pa.field("element", _kind(schema["items"], named)))
        case {"type": "map"}:
            return pa.map_(pa.string(), _kind(schema["values"], named))
        case {"type": inner}:
            return _kind(inner, named)
    return pa.string()
