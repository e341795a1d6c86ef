"""Columns as people write them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from klamm.model.errors import UsageError
from klamm.pipelines.tables.ddl import columns_of, text_of, type_of


def test_columns_in_their_order() -> None:
    found = columns_of("id bigint NOT NULL, `first name` string, t: timestamp, d decimal(10,2)")
    assert list(found.items()) == [
        ("id", pa.int64()),
        ("first name", pa.string()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.decimal128(10, 2)),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "bigint",
        "decimal(38,10)",
        "array<struct<a:int,b:map<string,double>>>",
        "struct<`a b`:string,c:array<date>>",
        "timestamp_ntz",
        "binary",
    ],
)
def test_names_of_types_are_read_as_they_are_written(text: str) -> None:
    assert text_of(type_of(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "ends too early"),
        ("id", "ends too early"),
        ("id bigint name string", "where ',' belongs"),
        ("id blob", "'blob'"),
        ("a array<int", "ends too early"),
        ("a decimal(50,2)", "cannot be"),
        ("id int, ID int", "upper and lower case"),
        ("id int, id int", "twice"),
        ("kafka_offset int", "klamm's own"),
        ("a " + "array<" * 50 + "int" + ">" * 50, "too deeply"),
        ("@/nowhere/schema", "No such file"),
        ("{}", "no JSON that klamm knows"),
    ],
)
def test_schemas_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        columns_of(text)


def test_schemas_in_files(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    spark = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "tags", "type": {"type": "array", "elementType": "string"}},
        ],
    }
    path.write_text(json.dumps(spark))
    wanted = {"id": pa.int64(), "tags": pa.list_(pa.field("element", pa.string()))}
    assert columns_of(str(path)) == wanted
    path.write_text(
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "at": {"type": ["string", "null"], "format": "date-time"},
                    "any": {"type": ["string", "integer"]},
                },
            }
        )
    )
    assert columns_of(f"@{path}") == {
        "id": pa.int64(),
        "at": pa.timestamp("us", tz="UTC"),
        "any": pa.string(),
    }
