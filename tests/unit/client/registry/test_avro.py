"""Avro values in their frames, sound and hostile."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from klamm.client.registry.avro import AvroDecoder
from klamm.client.registry.framing import Undecodable, framed, unframed
from klamm.client.registry.schemas import DescribedSchema

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


class Known:
    def __init__(self, **schemas: Any) -> None:
        self._schemas = {int(name[1:]): schema for name, schema in schemas.items()}

    def described(self, number: int) -> DescribedSchema:
        if number not in self._schemas:
            raise Undecodable(f"no schema of number {number}")
        return DescribedSchema(self._schemas[number])


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def test_value_and_its_schema() -> None:
    value = {"id": 5, "note": None}
    decoder = AvroDecoder(Known(n3=ORDER))
    assert decoder.decode(framed(3, encoded(ORDER, value))) == (3, value)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\1\0\0\0\3x", b"{}"])
def test_no_frame(data: bytes) -> None:
    with pytest.raises(Undecodable, match="no frame"):
        unframed(data)


def test_negative_number() -> None:
    with pytest.raises(Undecodable, match="-1"):
        unframed(b"\0\xff\xff\xff\xff")


@pytest.mark.parametrize("cut", [0, 1])
def test_bytes_that_end_early_or_late(cut: int) -> None:
    data = encoded(ORDER, {"id": 5, "note": "abc"})
    data = data[:-2] if cut else data + b"x"
    with pytest.raises(Undecodable):
        AvroDecoder(Known(n3=ORDER)).decode(framed(3, data))


def test_type_within_itself_is_not_read() -> None:
    """Read by its bytes' depth, such a value ends the process."""
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    with pytest.raises(Undecodable, match="within itself"):
        AvroDecoder(Known(n1=node)).decode(framed(1, b"\2" * 1_000_000 + b"\0"))


def test_array_of_nothing_is_not_read() -> None:
    """Ten bytes would be an array of 2**40 values."""
    with pytest.raises(Undecodable, match="takes no bytes"):
        AvroDecoder(Known(n1={"type": "array", "items": "null"})).decode(
            framed(1, b"\x80\x80\x80\x80\x80\x80\x10\0")
        )


def test_records_that_double_are_not_read() -> None:
    """Forty records, each with two of the next: no byte would be 2**40 values."""
    schema: Any = {"type": "record", "name": "R0", "fields": []}
    for number in range(1, 41):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{number - 1}"}]
        schema = {"type": "record", "name": f"R{number}", "fields": fields}
    with pytest.raises(Undecodable, match="more than 100,000 values in one"):
        AvroDecoder(Known(n1=schema)).decode(framed(1, b""))


def test_type_that_is_used_twice_is_read() -> None:
    point = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "long"}]}
    fields = [{"name": "a", "type": point}, {"name": "b", "type": ["null", "P"]}]
    schema = {"type": "record", "name": "L", "fields": fields}
    value = {"a": {"x": 1}, "b": {"x": 2}}
    assert AvroDecoder(Known(n1=schema)).decode(framed(1, encoded(schema, value))) == (1, value)


def test_no_schema_at_all() -> None:
    decoder = AvroDecoder(Known(n1={"type": "nonsense"}))
    for _ in range(2):
        with pytest.raises(Undecodable, match="no Avro schema"):
            decoder.decode(framed(1, b""))
