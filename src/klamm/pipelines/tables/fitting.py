"""Values of records in the columns of a table: each fits, or the record's value is a bad one.

A column takes what means the same there: a whole number in `double`, a text of ISO 8601 in
`timestamp`, anything as text in `string`. What does not fit is never bent: the whole value goes to
`kafka_bad_value` with the reason, and the other columns of that row are empty, so that nobody takes
half a record for a whole one.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

Fit = Callable[[Any], Any]

_INT_RANGES: Final = {32: (-(1 << 31), (1 << 31) - 1), 64: (-(1 << 63), (1 << 63) - 1)}
_SHOWN: Final = 60
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Unfit(Exception):
    """A value that a column cannot take; the text says why."""


def fit_of(kind: Any, *, strict: bool) -> Fit:
    """A function that makes a decoded value one of an Arrow type. None is always fit.

    A strict one takes no object with fields that its column has no place for.
    """
    made = _fit_of(kind, strict)
    return lambda value: None if value is None else made(value)


def _fit_of(kind: Any, strict: bool) -> Fit:
    types = pa.types
    if types.is_integer(kind):
        return _whole(*_INT_RANGES[kind.bit_width])
    if types.is_list(kind):
        return _listed(fit_of(kind.value_type, strict=strict))
    if types.is_map(kind):
        return _mapped(*(fit_of(k, strict=strict) for k in (kind.key_type, kind.item_type)))
    if types.is_struct(kind):
        return _structured({f.name: fit_of(f.type, strict=strict) for f in kind}, strict)
    if types.is_timestamp(kind):
        return _moment if kind.tz else _local_moment
    if types.is_decimal(kind):
        return _exact(kind.precision, kind.scale)
    for is_kind, fit in _PLAIN:
        if is_kind(kind):
            return fit
    raise AssertionError(kind)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _unfit(value, "no boolean")


def _whole(low: int, high: int) -> Fit:
    def fit(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _unfit(value, "no whole number")
        if not low <= value <= high:
            raise _unfit(value, "too large for the column")
        return value

    return fit


def _floating(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise _unfit(value, "no number")
    try:
        return float(value)
    except OverflowError:
        raise _unfit(value, "too large for the column") from None


def _exact(precision: int, scale: int) -> Fit:
    step = decimal.Decimal(1).scaleb(-scale)

    def fit(value: Any) -> decimal.Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
            raise _unfit(value, "no number")
        try:
            found = decimal.Decimal(str(value))
            exact = found.quantize(step, context=decimal.Context(prec=80))
        except decimal.InvalidOperation:
            raise _unfit(value, "no decimal number") from None
        if exact != found or len(exact.as_tuple().digits) > precision:
            raise _unfit(value, f"not a decimal({precision},{scale})")
        return exact

    return fit


def text(value: Any) -> str:
    """Any value as text: texts as they are, everything else as JSON."""
    if isinstance(value, str):
        found = value
    else:
        try:
            found = json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":"))
        except (ValueError, TypeError, RecursionError):
            raise _unfit(value, "no text") from None
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Unfit("a text has half of a surrogate pair") from None
    return found


def _plain(value: Any) -> Any:
    """A value that JSON has no word for, in a form that it has."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _binary(value: Any) -> bytes:
    """Bytes; in JSON they are written as base64."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if not isinstance(value, str):
        raise _unfit(value, "no bytes")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise _unfit(value, "no base64") from None


def _day(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (ValueError, TypeError):
        raise _unfit(value, "no date like 2026-11-18") from None


def _moment(value: Any) -> datetime.datetime:
    """A point in time: ISO 8601 with an offset or, without one, in UTC."""
    found = _parsed_moment(value)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _local_moment(value: Any) -> datetime.datetime:
    found = _parsed_moment(value)
    if found.tzinfo:
        raise _unfit(value, "a time with a zone, in a column without one")
    return found


def _parsed_moment(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        # As everywhere in Kafka: milliseconds since 1970.
        try:
            return _EPOCH + datetime.timedelta(milliseconds=value)
        except OverflowError:
            raise _unfit(value, "no time") from None
    try:
        return datetime.datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise _unfit(value, "no time like 2026-11-18T12:00:00Z") from None


def _listed(inner: Fit) -> Fit:
    def fit(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _unfit(value, "no array")
        return [inner(each) for each in value]

    return fit


def _mapped(key: Fit, item: Fit) -> Fit:
    def fit(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise _unfit(value, "no object")
        return [(key(k), item(v)) for k, v in value.items()]

    return fit


def _structured(fits: Mapping[str, Fit], strict: bool) -> Fit:
    def fit(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _unfit(value, "no object")
        if strict and not value.keys() <= fits.keys():
            name = min(map(str, value.keys() - fits.keys()))
            raise Unfit(f"its column has no place for the field {name[:_SHOWN]!r}")
        return {name: inner(value.get(name)) for name, inner in fits.items()}

    return fit


_PLAIN: Final[tuple[tuple[Callable[[Any], bool], Fit], ...]] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _floating),
    (pa.types.is_string, text),
    (pa.types.is_binary, _binary),
    (pa.types.is_date, _day),
)


def _unfit(value: Any, why: str) -> Unfit:
    shown = repr(value)
    return Unfit(f"{shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + '...'} is {why}")


# What a value that nobody has described is taken for.


def guess(value: Any) -> Any:
    """The Arrow type of a value, if it tells one: nested ones are kept as JSON text."""
    match value:
        case None:
            return None
        case bool():
            return pa.bool_()
        case int():
            low, high = _INT_RANGES[64]
            return pa.int64() if low <= value <= high else pa.string()
        case float():
            return pa.float64()
    return pa.string()


def merged(one: Any, other: Any) -> Any:
    """The type that takes what either takes."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    if {one, other} <= {pa.int64(), pa.float64(), pa.int32(), pa.float32()}:
        return pa.int64() if {one, other} <= {pa.int64(), pa.int32()} else pa.float64()
    return pa.string()
