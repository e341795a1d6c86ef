"""Defines a setting: its name, how its text is parsed, its valid values, who may change it.

Settings travel as text: on the command line, in requests and in the store. A `Definition` turns the
text into a value, or says in a sentence why it cannot. Validators describe themselves, so that the
same object checks a value, words the refusal and fills the documentation.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Final, Protocol

from klamm.model.errors import Refused

Value = bool | int | float | str | tuple[str, ...] | None

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class Kind(IntEnum):
    """The type of a setting; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0  # of settings that only a plug-in would know
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Source(IntEnum):
    """The source of a value; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Dynamic(StrEnum):
    """Whether a broker setting can be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"  # for one broker only
    CLUSTER_WIDE = "cluster-wide"  # for one broker or for all


class Rule(Protocol):
    """A rule for valid values. `str()` of a rule is its line in the documentation."""

    def fault(self, value: Value) -> str | None:
        """The reason why the value is not allowed, or None if it is."""
        ...


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number with a lower bound."""

    low: float

    def fault(self, value: Value) -> str | None:
        return None if _number(value) >= self.low else f"Value must be at least {self.low}"

    def __str__(self) -> str:
        return f">= {self.low}"


@dataclass(frozen=True, slots=True)
class Between:
    """A number with both bounds, and perhaps one value outside of them that means something."""

    low: float
    high: float
    also: int | None = None

    def fault(self, value: Value) -> str | None:
        number = _number(value)
        if self.low <= number <= self.high or (self.also is not None and number == self.also):
            return None
        beyond = f"at least {self.low}" if number < self.low else f"no more than {self.high}"
        return f"Value must be {beyond}" + ("" if self.also is None else f", or {self.also}")

    def __str__(self) -> str:
        bounds = f"between {self.low} and {self.high}"
        return bounds if self.also is None else f"{bounds}, or {self.also}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One word, or in a list only words, of a fixed set."""

    words: tuple[str, ...]

    def fault(self, value: Value) -> str | None:
        items: Iterable[str] = value if isinstance(value, tuple) else (str(value),)
        strange = [item for item in items if item not in self.words]
        return f"String must be one of: {self}, not {strange[0]!r}" if strange else None

    def __str__(self) -> str:
        return ", ".join(self.words)


_PARTITION_ON_BROKER: Final = re.compile(r"\d+:\d+\Z")


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or `partition:broker` items."""

    def fault(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if value == ("*",) or all(_PARTITION_ON_BROKER.match(item) for item in value):
            return None
        return f"must be {self}"

    def __str__(self) -> str:
        return "'*' or partition:broker,partition:broker,..."


@dataclass(frozen=True, slots=True)
class CountsByHost:
    """`address:count` items."""

    def fault(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        parts = (item.rpartition(":") for item in value)
        if all(host and count.isdigit() for host, _, count in parts):
            return None
        return f"must be {self}"

    def __str__(self) -> str:
        return "address:count,address:count,..."


PROOF: Final = "proof"
_LISTENER: Final = "listener:"


def listener_named(item: str) -> str:
    """The listener in an item `listener:NAME`; "" in any other."""
    return item.removeprefix(_LISTENER) if item.startswith(_LISTENER) else ""


@dataclass(frozen=True, slots=True)
class InternalPeers:
    """`proof`, and perhaps listeners and addresses."""

    def fault(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if not value:
            return f"must be {self}"
        strange = [item for item in value if not self._is_known(item)]
        return f"must be {self}, not {strange[0]!r}" if strange else None

    def _is_known(self, item: str) -> bool:
        if item == PROOF or listener_named(item):
            return True
        try:
            ipaddress.ip_network(item, strict=False)
        except ValueError:
            return False
        return True

    def __str__(self) -> str:
        return "proof, listener:NAME, an address or a network such as 10.0.0.0/24, with commas"


def _number(value: Value) -> float:
    assert isinstance(value, int | float), f"{value!r} is checked as a number"
    return value


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that gives a topic setting its default, times `scale`."""

    name: str
    scale: int = 1

    def scaled(self, value: Value) -> Value:
        if self.scale == 1 or value is None:
            return value
        assert isinstance(value, int), f"{self.name} is not a number"
        # A negative duration means "for ever" in every unit.
        return value * self.scale if value >= 0 else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One setting. `default` is the text Kafka would show; None is its null."""

    name: str
    kind: Kind
    default: str | None
    doc: str
    valid: Rule | None = None
    synonyms: tuple[Synonym, ...] = ()
    dynamic: Dynamic = Dynamic.READ_ONLY
    no_effect: str = ""  # why klamm accepts the setting without acting on it
    default_value: Value = field(init=False)

    def __post_init__(self) -> None:
        value = None if self.default is None else self.parse(self.default)
        assert not isinstance(value, Refused), f"default of {self.name}: {value}"
        object.__setattr__(self, "default_value", value)

    @property
    def is_sensitive(self) -> bool:
        # What nobody here knows may be a secret, as in Kafka.
        return self.kind in (Kind.PASSWORD, Kind.UNKNOWN)

    def parse(self, text: str) -> Value | Refused:
        """The value of a text, or why it has none."""
        value = _READERS[self.kind](text.strip())
        if isinstance(value, Refused):
            return self._refused(text, value.why)
        fault = self.valid.fault(value) if self.valid is not None else None
        return value if fault is None else self._refused(text, fault)

    def _refused(self, text: str, why: str) -> Refused:
        """A refusal in the words of Kafka, which people and tools look for."""
        return Refused(f"Invalid value {self._shown(text)} for configuration {self.name}: {why}")

    def _shown(self, text: str) -> str:
        return "[hidden]" if self.is_sensitive else text


def _read_boolean(text: str) -> Value | Refused:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            return Refused("Expected value to be either true or false")


_DECIMAL: Final = re.compile(r"[+-]?[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class _ReadInteger:
    bits: int
    name: str

    def __call__(self, text: str) -> Value | Refused:
        if not _DECIMAL.match(text):
            return Refused(f"Not a number of type {self.name}: it must be a whole one")
        value = int(text)
        if not -(1 << (self.bits - 1)) <= value < 1 << (self.bits - 1):
            return Refused(f"Not a number of type {self.name}: it does not fit {self.bits} bits")
        return value


def _read_double(text: str) -> Value | Refused:
    try:
        return float(text)
    except ValueError:
        return Refused("Not a number of type DOUBLE")


def _read_list(text: str) -> Value | Refused:
    return tuple(item.strip() for item in text.split(",")) if text else ()


def _read_text(text: str) -> Value | Refused:
    return text


_READERS: Final[Mapping[Kind, Callable[[str], Value | Refused]]] = {
    Kind.UNKNOWN: _read_text,
    Kind.BOOLEAN: _read_boolean,
    Kind.STRING: _read_text,
    Kind.INT: _ReadInteger(32, "INT"),
    Kind.SHORT: _ReadInteger(16, "SHORT"),
    Kind.LONG: _ReadInteger(64, "LONG"),
    Kind.DOUBLE: _read_double,
    Kind.LIST: _read_list,
    Kind.CLASS: _read_text,
    Kind.PASSWORD: _read_text,
}


def value_text(value: Value) -> str | None:
    """A value as DescribeConfigs shows it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _double_text(value)
        case _:
            return str(value)


def _double_text(value: float) -> str:
    """As Java writes it: 0.5, but 1.0E7 and 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    digits = f"{Decimal(repr(value)).normalize():E}"
    mantissa, _, exponent = digits.partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def by_name(definitions: Iterable[Definition]) -> Mapping[str, Definition]:
    """A table of settings; a name may be defined once."""
    table: dict[str, Definition] = {}
    for definition in definitions:
        assert definition.name not in table, f"{definition.name} is defined twice"
        table[definition.name] = definition
    return table


def setting(
    name: str,
    kind: Kind,
    default: str | None,
    doc: str,
    valid: Rule | None = None,
    dynamic: Dynamic = Dynamic.READ_ONLY,
) -> Definition:
    """A line of a table of broker settings."""
    return Definition(name=name, kind=kind, default=default, doc=doc, valid=valid, dynamic=dynamic)
