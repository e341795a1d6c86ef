"""A deed: what it needs to know, who may do it, what it would do, and how it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from klamm.console.access.roles import Role
from klamm.console.deeds.gate import Acting
from klamm.console.problems import Problem
from klamm.console.reading.picture import Picture
from klamm.model.names import TopicPartition

Json = dict[str, Any]
TEXT_MAX: Final = 1_000
_LIST_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing that a deed needs to know."""

    name: str
    label: str
    kind: str = "text"  # text, long, number, list, flag, choice
    required: bool = True
    default: Any = None
    least: int = 0
    most: int = 2**31 - 1
    choices: tuple[str, ...] = ()
    about: str = ""

    def read(self, value: Any) -> Any:
        """The value; `ValueError` says what is wrong with it."""
        match self.kind:
            case "number":
                if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
                    value = int(value.strip()[:19])
                if not isinstance(value, int) or isinstance(value, bool):
                    raise ValueError("must be a whole number")
                if not self.least <= value <= self.most:
                    raise ValueError(f"must be from {self.least:,} to {self.most:,}")
                return value
            case "flag":
                if not isinstance(value, bool):
                    raise ValueError("must be true or false")
                return value
            case "choice":
                if value not in self.choices:
                    raise ValueError(f"must be one of {', '.join(self.choices)}")
                return value
            case "list":
                return _texts(value)
            case _:
                if not isinstance(value, str):
                    raise ValueError("must be a text")
                if self.kind == "text":
                    _check_text(value)
                return value

    @property
    def json(self) -> Json:
        """The same for the page that asks for it."""
        names = ("name", "label", "kind", "required", "default", "choices", "about")
        return {name: getattr(self, name) for name in names}


def _check_text(value: str) -> None:
    if len(value) > TEXT_MAX:
        raise ValueError(f"is longer than {TEXT_MAX} characters")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("has half a character in it")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        value = [part for part in value.replace(",", " ").split() if part]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("must be a list of texts")
    if len(value) > _LIST_MAX:
        raise ValueError(f"has more than {_LIST_MAX:,} items")
    for each in value:
        _check_text(each)
    return list(dict.fromkeys(value))


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A plan for people: what comes at once, what follows, what is in the way."""

    title: str
    button: str
    steps: list[Json] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    typed: str | None = None  # to be typed before it is done
    derived: bool = False  # worked out here, for the cluster makes no plans
    table: Json | None = None  # rows that are the plan, such as new offsets
    # What the plan rests on: where this is another at the time it is done, nothing is done.
    facts: Any = None

    @property
    def digest(self) -> str:
        text = json.dumps([self.title, self.facts, self.refused], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def json(self) -> Json:
        names = ("title", "button", "steps", "warnings", "refused", "typed", "derived", "table")
        return {name: getattr(self, name) for name in names}


Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One kind of change."""

    kind: str
    title: str
    role: Role
    fields: tuple[Field, ...]
    plan: Callable[[Acting, Picture, Given], Awaitable[Sheet]]
    do: Callable[[Acting, Picture, Given], Awaitable[str]]  # says what was done
    twin: Callable[[Given], str]

    def read(self, body: Mapping[str, Any]) -> tuple[Json, list[Json]]:
        """The values of all fields, and what is wrong or missing."""
        found: Json = {}
        wrong: list[Json] = []
        for each in self.fields:
            value = body.get(each.name)
            if value is None or value == "":
                found[each.name] = each.default
                if each.required:
                    wrong.append({"field": each.name, "message": "is missing", "missing": True})
                continue
            try:
                found[each.name] = each.read(value)
            except ValueError as fault:
                wrong.append({"field": each.name, "message": str(fault), "missing": False})
        return found, wrong


def partitions_of(texts: Iterable[str]) -> list[TopicPartition]:
    """`orders-0` and the like."""
    found = []
    for text in texts:
        name, dash, number = text.rpartition("-")
        if not (name and dash and number.isdecimal() and len(number) < 10):
            raise Problem(400, f"{text!r} is not a partition such as orders-0")
        found.append(TopicPartition(name, int(number)))
    return found
