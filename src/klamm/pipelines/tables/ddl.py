"""Columns as people write them: `id bigint, tags array<string>`, and Spark's and JSON's schemas.

    boolean  tinyint  smallint  int  bigint  float  double  decimal(p,s)  string  binary  date
    timestamp  timestamp_ntz  array<T>  map<K,V>  struct<name:T,...>

The types themselves are Arrow's. A table's columns are written down in this form as well, so what
`text_of` writes, `type_of` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from klamm.model.errors import UsageError

Columns = Mapping[str, Any]  # names and Arrow types, in their order

COLUMNS_MAX: Final = 1000
_DEPTH_MAX: Final = 20
_FILE_BYTES_MAX: Final = 4 << 20
_NAME_MAX: Final = 255
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|[^\s<>(),:]+|[<>(),:])")
_UTC: Final = "UTC"
_PLAIN: Final[Mapping[str, Any]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int32(),  # Iceberg has no smaller ones
    "smallint": pa.int32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz=_UTC),
    "timestamp_ntz": pa.timestamp("us"),
}
_ALIASES: Final = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
_ALIASES_MORE: Final = {"bool": "boolean", "real": "float", "varchar": "string", "text": "string"}
_JSON_SCHEMA: Final = {"string": "string", "integer": "bigint", "number": "double"}
_JSON_FORMATS: Final = {"date-time": "timestamp", "date": "date"}


def columns_of(text: str) -> dict[str, Any]:
    """The columns of a `--schema`: DDL, or the name of a file with DDL or JSON."""
    path = Path(text.removeprefix("@"))
    try:
        if text.startswith("@") or (" " not in text.strip() and path.is_file()):
            if path.stat().st_size > _FILE_BYTES_MAX:
                raise UsageError(f"{path} is too large for a schema")
            text = path.read_text()
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no text"
        raise UsageError(f"the schema {path} cannot be read: {why}") from None
    text = text.strip()
    found = _from_json(text) if text.startswith("{") else _Reader(text).columns()
    _check(found)
    return found


def _check(found: Columns) -> None:
    if not found:
        raise UsageError("a schema needs columns, such as `id bigint, name string`")
    if len(found) > COLUMNS_MAX:
        raise UsageError(f"a schema of {len(found)} columns is more than {COLUMNS_MAX}")
    if len({name.lower() for name in found}) < len(found):
        raise UsageError("two columns of the schema have one name but for upper and lower case")
    for name in found:
        if name.startswith("kafka_"):
            raise UsageError(f"the schema's column {name} has a name that klamm's own columns have")


class _Reader:
    """Reads DDL, a token at a time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def columns(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            name = self._name()
            if name in found:
                raise UsageError(f"the schema names the column {name} twice")
            if self._peek() == ":":
                self._next()
            found[name] = self.type_()
            # What may follow a type and changes nothing here: every column can be null.
            if self._peek().upper() == "NOT":
                self._next()
                self._expect("NULL")
            if self._peek().upper() == "COMMENT":
                raise UsageError("a schema takes no comments: leave COMMENT out")
            if not self._peek():
                return found
            self._expect(",")

    def type_(self, depth: int = 0) -> Any:
        if depth > _DEPTH_MAX:
            raise UsageError("the schema is nested too deeply")
        word = self._next().lower()
        word = _ALIASES.get(word) or _ALIASES_MORE.get(word) or word
        if word in _PLAIN:
            if word == "string" and self._peek() == "(":  # varchar(20)
                self._numbers()
            return _PLAIN[word]
        match word:
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "array":
                self._expect("<")
                inner = self.type_(depth + 1)
                self._expect(">")
                return pa.list_(pa.field("element", inner))
            case "map":
                self._expect("<")
                key = self.type_(depth + 1)
                self._expect(",")
                item = self.type_(depth + 1)
                self._expect(">")
                return pa.map_(key, item)
            case "struct":
                return self._struct(depth)
        raise UsageError(f"the schema has the type {word!r}, which klamm does not know")

    def _struct(self, depth: int) -> Any:
        self._expect("<")
        fields = []
        while True:
            name = self._name()
            self._expect(":")
            fields.append(pa.field(name, self.type_(depth + 1)))
            if self._peek() == ">":
                self._next()
                return pa.struct(fields)
            self._expect(",")

    def _decimal(self) -> Any:
        numbers = self._numbers() if self._peek() == "(" else [10, 0]
        precision, scale = (*numbers, 0)[:2]
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise UsageError(f"the schema has decimal({precision},{scale}), which cannot be")
        return pa.decimal128(precision, scale)

    def _numbers(self) -> list[int]:
        self._expect("(")
        numbers = []
        while True:
            word = self._next()
            if not word.isdecimal() or len(word) > 5:
                raise UsageError(f"the schema has {word!r} where a number belongs")
            numbers.append(int(word))
            if self._peek() == ")":
                self._next()
                return numbers
            self._expect(",")

    def _name(self) -> str:
        word = self._next()
        if word.startswith("`"):
            word = word[1:-1].replace("``", "`")
        if not word or word in "<>(),:" or len(word) > _NAME_MAX:
            raise UsageError(f"the schema has {word[:_NAME_MAX]!r} where a column's name belongs")
        return word

    def _peek(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        return found[1] if found else ""

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise UsageError(f"the schema ends too early: {self._text[-60:]!r}")
        self._at = found.end()
        return found[1]

    def _expect(self, word: str) -> None:
        found = self._next()
        if found.upper() != word:
            raise UsageError(f"the schema has {found!r} where {word!r} belongs")


def type_of(text: str) -> Any:
    """The Arrow type of a type's name."""
    return _Reader(text).type_()


def text_of(kind: Any) -> str:
    """The name of an Arrow type."""
    for word, plain in _PLAIN.items():
        if plain == kind and word not in ("tinyint", "smallint"):
            return word
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{text_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{text_of(kind.key_type)},{text_of(kind.item_type)}>"
    if pa.types.is_struct(kind):
        inner = ",".join(f"{_quoted(f.name)}:{text_of(f.type)}" for f in kind)
        return f"struct<{inner}>"
    raise UsageError(f"klamm writes no columns of the type {kind}")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def _from_json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
        if "properties" in found:
            return {str(n): _json_schema_type(t, 0) for n, t in found["properties"].items()}
        return {str(f["name"]): _spark_type(f["type"], 0) for f in found["fields"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            "the schema is no JSON that klamm knows: it knows what Spark's `df.schema.json()` "
            "writes, and JSON Schema with `properties`"
        ) from None


def _spark_type(found: Any, depth: int) -> Any:
    """A type as Spark writes it."""
    if isinstance(found, str):
        return type_of(found)
    if depth > _DEPTH_MAX:
        raise ValueError
    match found["type"]:
        case "struct":
            inner = [
                pa.field(f["name"], _spark_type(f["type"], depth + 1)) for f in found["fields"]
            ]
            return pa.struct(inner)
        case "array":
            return pa.list_(pa.field("element", _spark_type(found["elementType"], depth + 1)))
        case "map":
            return pa.map_(
                _spark_type(found["keyType"], depth + 1), _spark_type(found["valueType"], depth + 1)
            )
    raise ValueError


def _json_schema_type(found: Any, depth: int) -> Any:
    """A type as JSON Schema has it; what has several is text."""
    if depth > _DEPTH_MAX:
        raise ValueError
    words = found.get("type", "string")
    words = [words] if isinstance(words, str) else [w for w in words if w != "null"]
    word = words[0] if len(words) == 1 else "string"
    match word:
        case "boolean":
            return pa.bool_()
        case "array":
            return pa.list_(
                pa.field("element", _json_schema_type(found.get("items", {}), depth + 1))
            )
        case "object" if found.get("properties"):
            inner = found["properties"].items()
            return pa.struct([pa.field(n, _json_schema_type(t, depth + 1)) for n, t in inner])
    named = _JSON_FORMATS.get(found.get("format", ""), _JSON_SCHEMA.get(word, "string"))
    return _PLAIN[named]
