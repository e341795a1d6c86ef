"""Writes `src/klamm/protocol/messages/`: one module an API, from kio's dataclasses.

kio has a class for each message and version. klamm has one for all versions, so this walks the
versions an API serves, merges their fields, and notes for each field where it lives. APIs that kio
lacks (keys 4-7), or whose oldest versions it lacks, are declared by hand in the same words and left
alone.

    python tools/generate_messages.py            writes the modules
    python tools/generate_messages.py --check    says which of them are stale
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import types
import typing
from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.index import load_request_schema, load_response_schema

from klamm.protocol.apis import APIS, Api, ApiKey, Versions

MESSAGES = Path(__file__).parent.parent / "src/klamm/protocol/messages"
BY_HAND = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    # kio has the versions that Kafka 4 kept; their first ones are added by hand.
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.ALTER_PARTITION,
}

# kio turns codes into enums and milliseconds into spans of time; on the wire they are integers.
_KINDS = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "records": "bytes",
}
_WORDS = {"bool": "boolean", "uuid": "uuid_", "bytes": "octets"}
# As the import sorter would have them.
_WORDS_IN_ORDER = (
    *("array", "boolean", "float64", "int8", "int16", "int32", "int64"),
    *("octets", "string", "struct", "uuid_"),
)
_PYTHON = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "uuid.UUID",
}
_ZEROS: dict[str, object] = {"bool": False, "float64": 0.0, "string": "", "bytes": b""}


@dataclasses.dataclass
class Column:
    """One field, merged over the versions that have it."""

    name: str
    kind: str
    array: bool
    struct: str | None
    tag: int | None
    default: object
    versions: list[int] = dataclasses.field(default_factory=list)
    nullable: list[int] = dataclasses.field(default_factory=list)

    def shape(self) -> tuple[object, ...]:
        return (self.kind, self.array, self.struct, self.tag, self.default)


@dataclasses.dataclass
class Table:
    """One class, merged over the versions that have it; columns in wire order."""

    name: str
    columns: list[Column] = dataclasses.field(default_factory=list)
    versions: list[int] = dataclasses.field(default_factory=list)


def column_of(field: dataclasses.Field[Any]) -> tuple[Column, bool]:
    """A kio field as a column without versions, and whether it may be null."""
    inner, nullable, array = _unwrap(field.type)
    struct = inner.__name__ if dataclasses.is_dataclass(inner) else None
    kafka_type = field.metadata.get("kafka_type", "struct")
    kind = "struct" if struct else _KINDS.get(kafka_type, kafka_type)
    is_time = kafka_type.startswith(("timedelta", "datetime"))
    if not array and (kind == "uuid" or is_time):
        nullable = False  # kio's None is a zero id or -1 on the wire
    column = Column(
        name=field.name + ("_ms" if is_time else ""),
        kind=kind,
        array=array,
        struct=struct,
        tag=field.metadata.get("tag"),
        default=_default(field, kind, array, is_time),
    )
    return column, nullable


def _unwrap(hint: Any) -> tuple[Any, bool, bool]:
    nullable = array = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        nullable = True
        (hint,) = (a for a in typing.get_args(hint) if a is not type(None))
    if typing.get_origin(hint) is tuple:
        array = True
        hint = typing.get_args(hint)[0]
    return hint, nullable, array


def _default(field: dataclasses.Field[Any], kind: str, array: bool, is_time: bool) -> object:
    value = field.default
    if kind == "uuid" or (kind == "struct" and not array):
        return "zero"
    if value is dataclasses.MISSING or value == ():
        return () if array else _ZEROS.get(kind, 0)
    if value is None:
        return -1 if is_time else None
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    plain: Any = {"string": str, "bytes": bytes, "bool": bool, "float64": float}.get(kind, int)
    return plain(value)


def merge(api: Api, direction: str) -> dict[str, Table]:
    """Every class of one direction of an API, nested ones first, the top one last."""
    load = load_request_schema if direction == "request" else load_response_schema
    tables: dict[str, Table] = {}
    for version in range(api.served.low, api.served.high + 1):
        top = load(api.key, version)
        _visit(top, version, tables)
    return {name: tables[name] for name in _nested_first(top.__name__, tables)}


def _nested_first(name: str, tables: dict[str, Table]) -> list[str]:
    """The class names so that each follows those it mentions."""
    order: list[str] = []
    for column in tables[name].columns:
        if column.struct:
            order += [n for n in _nested_first(column.struct, tables) if n not in order]
    return [*order, name]


def _visit(cls: Any, version: int, tables: dict[str, Table]) -> None:
    for field in dataclasses.fields(cls):
        inner, _, _ = _unwrap(field.type)
        if dataclasses.is_dataclass(inner):
            _visit(inner, version, tables)
    table = tables.setdefault(cls.__name__, Table(cls.__name__))
    if version in table.versions:
        return
    table.versions.append(version)
    # Later versions may add fields anywhere: a new one goes right behind the one it follows.
    at = 0
    for field in dataclasses.fields(cls):
        column, nullable = column_of(field)
        known = next((i for i, c in enumerate(table.columns) if c.name == column.name), None)
        if known is None:
            table.columns.insert(at, column)
            known = at
        merged = table.columns[known]
        assert merged.shape() == column.shape(), f"{cls} v{version}: {column} is not {merged}"
        merged.versions.append(version)
        if nullable:
            merged.nullable.append(version)
        at = known + 1


def range_text(versions: list[int], served: Versions) -> str:
    """The versions as a declaration names them."""
    low, high = versions[0], versions[-1]
    assert versions == list(range(low, high + 1)), versions
    return f"{low}+" if high == served.high else str(Versions(low, high))


def render_field(
    column: Column, of_class: list[int], served: Versions, names: dict[str, str]
) -> str:
    """One declaration; it says versions only where they are not those of the whole class."""
    struct = names.get(column.struct, column.struct) if column.struct else None
    python = struct or _PYTHON.get(column.kind, "int")
    arguments = []
    if column.array:
        word, python = "array", f"list[{python}]"
        arguments.append(struct or f'"{column.kind}"')
    elif struct:
        word = "struct"
        arguments.append(struct)
    else:
        word = _WORDS.get(column.kind, column.kind)
    # A string that may always be null starts as null: an error's text mostly stays away.
    null_first = column.kind == "string" and not column.array and column.nullable == column.versions
    if null_first or column.default not in ("zero", (), _ZEROS.get(column.kind, 0)):
        arguments.append(f"default={None if null_first else column.default!r}")
    if column.nullable:
        python += " | None"
        arguments.append(f'nullable="{range_text(column.nullable, served)}"')
    if column.versions != of_class:
        arguments.append(f'versions="{range_text(column.versions, served)}"')
    if column.tag is not None:
        arguments.append(f"tag={column.tag}")
    line = f"    {column.name}: {python} = {word}({', '.join(arguments)})"
    if len(line) <= 100:
        return line
    head, _, _ = line.partition(f" = {word}(")
    return f"{head} = {word}(\n        {', '.join(arguments)}\n    )"


def render(api: Api) -> str:
    """The whole module of one API."""
    request, response = merge(api, "request"), merge(api, "response")
    clashes = set(request) & set(response)
    bodies: list[str] = []
    for direction, tables in (("Request", request), ("Response", response)):
        top = list(tables)[-1]
        names = {top: direction}
        if direction == "Response":
            names |= {name: f"{name}Response" for name in clashes}
        bodies += [render_class(t, names, api.served) for t in tables.values()]
    text = "\n\n\n".join(bodies)
    words = [word for word in _WORDS_IN_ORDER if f" = {word}(" in text]
    standard = ["import uuid"] if "uuid.UUID" in text else []
    return "\n".join(
        [
            f'"""{api.title} (key {int(api.key)}), versions {api.served}. Generated."""',
            "",
            "from __future__ import annotations",
            "",
            *standard,
            "from dataclasses import dataclass",
            "",
            *([f"from klamm.protocol.schema import {', '.join(words)}"] if words else []),
            "",
            "",
            text,
            "",
        ]
    )


def render_class(table: Table, names: dict[str, str], served: Versions) -> str:
    lines = [render_field(c, table.versions, served, names) for c in table.columns] or ["    pass"]
    return "\n".join(
        ["@dataclass(slots=True)", f"class {names.get(table.name, table.name)}:", *lines]
    )


def generated() -> dict[Path, str]:
    """Each module's path and what it should hold."""
    return {
        MESSAGES / f"{api.name}.py": render(api) for api in APIS.values() if api.key not in BY_HAND
    }


def stale() -> list[Path]:
    """The modules whose text is not what the generator would write."""
    return [p for p, text in generated().items() if not p.exists() or p.read_text() != text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing, name stale modules")
    if parser.parse_args().check:
        late = stale()
        sys.stdout.writelines(f"stale: {path.name}\n" for path in late)
        return 1 if late else 0
    for path, text in generated().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
