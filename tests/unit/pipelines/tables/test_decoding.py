"""Values into columns: what fits, what is bad and why, and late columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.pipelines.tables.ddl import columns_of, type_of
from klamm.pipelines.tables.decoding import JsonDecoder, is_json
from klamm.pipelines.tables.fitting import Unfit, fit_of, merged
from klamm.pipelines.tables.names import name_fault

COLUMNS = columns_of("id bigint, x double, ok boolean, name string")


def decoder(columns: Any = COLUMNS, *, adding: bool = True) -> JsonDecoder:
    return JsonDecoder(columns, adding=adding, name_fault=lambda name: name_fault("delta", name))


def decoded(found: JsonDecoder, *values: Any) -> tuple[list[dict[str, Any]], list[str | None]]:
    result = found.decode(pa.array(values, pa.binary()))
    rows = pa.Table.from_arrays(result.arrays, names=list(found._columns)).to_pylist()
    return rows, result.reasons or [None] * len(values)


def test_objects() -> None:
    rows, reasons = decoded(decoder(), b'{"id":1,"x":2,"ok":true,"name":"a"}', b"{}", None)
    empty = dict.fromkeys(COLUMNS)
    assert rows == [{"id": 1, "x": 2.0, "ok": True, "name": "a"}, empty, empty]
    assert reasons == [None] * 3


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "no JSON"),
        (b"nope", "no JSON"),
        (b"[1]", "no object"),
        (b'{"id":NaN}', "NaN is no JSON"),
        (b"\xff", "no text"),
        (b'{"id":"abc"}', "id: 'abc' is no whole number"),
        (b'{"id":1.5}', "id: 1.5 is no whole number"),
        (b'{"id":true}', "id: True is no whole number"),
        (b'{"id":9223372036854775808}', "too large"),
        (b'{"ok":1}', "no boolean"),
        (b'{"name":"\\ud800"}', "surrogate"),
        (b'{"ID":1}', "upper and lower case"),
        (b'{"kafka_offset":1}', "klamm's own"),
        (b'{"a b":1}', "Delta takes no ' '"),
        (b"[" * 100_000, "no JSON"),
        (b'{"id":' + b"9" * 5000 + b"}", "no JSON"),
        (b'{"id":1}{"id":2}', "no JSON"),
        (b'{"id":1}\n{"id":2}', "no JSON"),
    ],
)
def test_bad_values_are_whole_and_have_a_reason(value: bytes, why: str) -> None:
    """Their neighbours are not touched, whichever way the frame takes."""
    found = decoder()
    rows, reasons = decoded(found, b'{"id":7}', value, b'{"id":8}')
    assert why in (reasons[1] or "")
    assert reasons[0] is None
    assert reasons[2] is None
    assert [row["id"] for row in rows] == [7, None, 8]
    assert set(rows[1].values()) == {None}
    assert found.late.columns == {}


def test_late_columns_have_a_type_that_fits_all() -> None:
    found = decoder({})
    values = [b'{"a":1,"b":1,"c":null}', b'{"a":2.5,"b":"x","d":{"e":[1]}}', b'{"a":3,"f":true}']
    decoded(found, *values)
    assert found.late.columns == {
        "a": pa.float64(),
        "b": pa.string(),
        "d": pa.string(),
        "f": pa.bool_(),
    }
    again = decoder(found.late.columns)
    rows, reasons = decoded(again, *values)
    assert reasons == [None] * 3
    assert rows[1] == {"a": 2.5, "b": "x", "d": '{"e":[1]}', "f": None}
    assert again.late.columns == {}


def test_late_columns_that_are_ignored_are_counted() -> None:
    found = decoder(adding=False)
    rows, reasons = decoded(found, b'{"id":1,"more":2}', b'{"id":2}')
    assert (rows[0]["id"], reasons[0]) == (1, None)
    assert (found.late.records, list(found.late.columns)) == (1, ["more"])


def test_nested_field_without_a_place_is_not_dropped_in_silence() -> None:
    columns = columns_of("a struct<b:int>")
    rows, reasons = decoded(decoder(columns), b'{"a":{"b":1,"c":2}}')
    assert "no place for the field 'c'" in (reasons[0] or "")
    rows, reasons = decoded(decoder(columns, adding=False), b'{"a":{"b":1,"c":2}}')
    assert (rows[0]["a"], reasons[0]) == ({"b": 1}, None)


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text('aé\u20ac"\\\n', max_size=4)
)
_OBJECTS = st.dictionaries(st.sampled_from([*COLUMNS, "more"]), _SCALARS)
_BYTES = st.binary(max_size=6) | st.sampled_from(
    [b'{"id":1} ', b' {"id":1}', b'{"id":1,"id":2}', b'{"x":1e999}']
)


@given(st.lists(_OBJECTS.map(lambda o: json.dumps(o).encode()) | _BYTES, min_size=1, max_size=6))
def test_both_ways_give_the_same(values: list[bytes]) -> None:
    """Arrow's parser is a shortcut, and never another meaning."""
    fast, slow = decoder(adding=False), decoder(adding=False)
    slow._parse = None
    assert str(decoded(fast, *values)) == str(decoded(slow, *values))


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("decimal(5,2)", 1.25, "1.25"),
        ("date", "2026-11-18", "2026-11-18"),
        ("timestamp", "2026-11-18T12:00:00+02:00", "2026-11-18 12:00:00+02:00"),
        ("timestamp", 0, "1970-01-01 00:00:00+00:00"),
        ("binary", "AAE=", "b'\\x00\\x01'"),
        ("array<int>", [1, None], "[1, None]"),
        ("map<string,int>", {"a": 1}, "[('a', 1)]"),
        ("string", 5, "5"),
    ],
)
def test_what_fits(kind: str, value: Any, wanted: str) -> None:
    assert str(fit_of(type_of(kind), strict=True)(value)) == wanted


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("decimal(5,2)", 1.255),
        ("decimal(3,2)", 100),
        ("date", "18.11.2026"),
        ("timestamp_ntz", "2026-11-18T12:00:00Z"),
        ("timestamp", 1e300),
        ("binary", "???"),
        ("int", 2**31),
        ("array<int>", ["a"]),
        ("double", "1"),
    ],
)
def test_what_does_not(kind: str, value: Any) -> None:
    with pytest.raises(Unfit):
        fit_of(type_of(kind), strict=True)(value)


def test_types_that_take_both() -> None:
    assert merged(pa.int64(), pa.float64()) == pa.float64()
    assert merged(pa.int64(), None) == pa.int64()
    assert merged(pa.bool_(), pa.int64()) == pa.string()


def test_most_values_decide_what_a_topic_has() -> None:
    assert is_json([b"{}", b"{}", b"x", None])
    assert not is_json([b"{}", b"x", b"y"])
    assert not is_json([None])
