"""Decodes the values of records into the columns of a table.

A decoder takes a frame's values and gives the value columns, with a reason for each value that is a
bad one. Fields that no column has yet are told with their types: they are late columns, which the
driver adds to the table before the same records are read again.

JSON takes one of two ways with the same result. Arrow's own parser is tried first, where every line
is surely one value and every field has a column; whatever it refuses is decoded one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from klamm.client.registry.avro import AvroDecoder
from klamm.client.registry.framing import Undecodable
from klamm.client.registry.schemas import SchemaPlace
from klamm.pipelines.tables.avro_columns import columns_of_schema, is_record
from klamm.pipelines.tables.ddl import COLUMNS_MAX, Columns
from klamm.pipelines.tables.fitting import Fit, Unfit, fit_of, guess, merged

RAW: Final = "raw"
JSON: Final = "json"
AVRO: Final = "avro"
VALUE: Final = "value"  # the one column of raw values, and of Avro values that are no records
RAW_COLUMNS: Final[Columns] = {VALUE: pa.binary()}
_REASON_MAX: Final = 200
_NAME_MAX: Final = 255
_FAST: Final = frozenset({pa.bool_(), pa.int64(), pa.float64(), pa.string()})


@dataclass
class Decoded:
    """The value columns of a frame."""

    arrays: list[Any]
    reasons: list[str | None] | None = None  # None: no value is bad


@dataclass
class Late:
    """Fields that have no column, and how many records had such."""

    columns: dict[str, Any] = field(default_factory=dict)
    records: int = 0


class ValueDecoder(Protocol):
    """The way from values to columns."""

    late: Late

    def decode(self, values: Any) -> Decoded:
        """The value columns of a frame."""


class RawDecoder:
    """Values as they are."""

    def __init__(self) -> None:
        self.late = Late()

    def decode(self, values: Any) -> Decoded:
        """One column."""
        return Decoded([values])


class _ByRow:
    """Decodes one value after the other, and fits each into the columns."""

    def __init__(
        self, columns: Columns, *, adding: bool, name_fault: Callable[[str], str | None]
    ) -> None:
        self.late = Late()
        self._columns = dict(columns)
        self._fits: dict[str, Fit] = {
            name: fit_of(kind, strict=adding) for name, kind in columns.items()
        }
        self._folded = {name.lower() for name in columns}
        self._adding = adding
        self._name_fault = name_fault

    def rows(
        self, values: Any, decode: Callable[[bytes], tuple[Any, dict[str, Any] | None]]
    ) -> Decoded:
        """Columns of what `decode` makes of each: an object, and its fields' types."""
        rows: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for value in values.to_pylist():
            row, reason = {}, None
            if value is not None:
                try:
                    row = self._row(*decode(value))
                except (Unfit, Undecodable) as fault:
                    reason = str(fault)[:_REASON_MAX]
            rows.append(row)
            reasons.append(reason)
        arrays = [
            pa.array([row.get(name) for row in rows], kind) for name, kind in self._columns.items()
        ]
        return Decoded(arrays, reasons if any(reasons) else None)

    def _row(self, found: dict[str, Any], kinds: dict[str, Any] | None) -> dict[str, Any]:
        strange = [name for name in found if name not in self._fits]
        if strange:
            self._meet(strange, found, kinds)
        row = {}
        for name, fit in self._fits.items():
            if (value := found.get(name)) is not None:
                try:
                    row[name] = fit(value)
                except Unfit as fault:
                    raise Unfit(f"{name[:_NAME_MAX]}: {fault}") from None
        return row

    def _meet(self, names: list[str], found: dict[str, Any], kinds: dict[str, Any] | None) -> None:
        """Notes fields without a column; one that can never have a column makes a bad value."""
        if not self._adding:
            self.late.records += 1
            for name in names[:COLUMNS_MAX]:
                if len(self.late.columns) < COLUMNS_MAX:
                    self.late.columns.setdefault(name[:_NAME_MAX], None)
            return
        fresh: dict[str, Any] = {}
        for name in names:
            kind = kinds[name] if kinds else guess(found[name])
            if kind is None:
                continue  # a null tells no type: the column comes with the first value
            if name not in self.late.columns:
                self._check_name(name, fresh)
            fresh[name] = merged(self.late.columns.get(name), kind)
        self.late.columns |= fresh
        self.late.records += bool(fresh)

    def _check_name(self, name: str, beside: dict[str, Any]) -> None:
        others = (each.lower() for each in (*self.late.columns, *beside))
        if name.lower() in self._folded or name.lower() in others:
            raise Unfit(
                f"the field {name[:60]!r} differs from a column by upper and lower case only"
            )
        count = len(self._columns) + len(self.late.columns) + len(beside)
        if count >= COLUMNS_MAX:
            raise Unfit(f"the field {name[:60]!r} would be column {count + 1} of the table")
        if why := self._name_fault(name):
            raise Unfit(f"the field {name[:60]!r} cannot be a column: {why}")


class JsonDecoder(_ByRow):
    """Objects of JSON."""

    def __init__(self, columns: Columns, **more: Any) -> None:
        super().__init__(columns, **more)
        self._parse: Any = None
        if columns and set(columns.values()) <= _FAST:
            schema = pa.schema(list(columns.items()))
            self._parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        self._refused = 0

    def decode(self, values: Any) -> Decoded:
        """By Arrow if it can, one by one if not."""
        if self._parse is not None and self._refused < 3 and (fast := self._at_once(values)):
            self._refused = 0
            return fast
        self._refused += 1
        if self._refused > 50:
            self._refused = 0  # it may be otherwise by now
        return self.rows(values, _object)

    def _at_once(self, values: Any) -> Decoded | None:
        if not len(values) or values.null_count:
            return None
        try:
            texts = values.cast(pa.string())  # refuses what is no UTF-8
        except pa.ArrowInvalid:
            return None
        # One value a line: then as many rows as lines means that each line is one row.
        is_line = pc.match_substring_regex(texts, r"\A\{[^\n\r]*\}\z")
        if not pc.all(is_line).as_py():
            return None
        data = b"\n".join(values.to_pylist()) + b"\n"
        options = pj.ReadOptions(use_threads=False, block_size=max(len(data) + 1, 1 << 16))
        try:
            table = pj.read_json(pa.BufferReader(data), options, self._parse)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != len(values):
            return None
        columns = [table.column(name).combine_chunks() for name in self._columns]
        return None if any(map(_overflows, columns)) else Decoded(columns)


def _overflows(column: Any) -> bool:
    """Whether a number was too large for a double."""
    return pa.types.is_floating(column.type) and pc.any(pc.is_inf(column)).as_py() is True


def _object(value: bytes) -> tuple[dict[str, Any], None]:
    try:
        found = json.loads(value.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise Undecodable("it is no text") from None
    except (ValueError, RecursionError) as fault:
        raise Undecodable(f"it is no JSON: {str(fault)[:100]}") from None
    if not isinstance(found, dict):
        raise Undecodable("it is JSON, but no object")
    return found, None


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


class AvroColumns(_ByRow):
    """Avro values in the frame of a schema registry."""

    def __init__(self, columns: Columns, place: SchemaPlace, **more: Any) -> None:
        super().__init__(columns, **more)
        self._decoder = AvroDecoder(place.opened())
        self._kinds: dict[int, tuple[dict[str, Any], bool]] = {}

    def decode(self, values: Any) -> Decoded:
        """One by one: each may have a schema of its own."""
        return self.rows(values, self._object)

    def _object(self, value: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        number, found = self._decoder.decode(value)
        if number not in self._kinds:
            schema = self._decoder.schema(number)
            self._kinds[number] = columns_of_schema(schema), is_record(schema)
        kinds, is_whole = self._kinds[number]
        return (found if is_whole else {VALUE: found}), kinds


def is_json(values: Sequence[bytes | None]) -> bool:
    """Whether most of these are JSON objects, of those that are there."""
    sound = faulty = 0
    for value in values:
        if value is not None:
            try:
                _object(value)
                sound += 1
            except Undecodable:
                faulty += 1
    return sound > faulty
