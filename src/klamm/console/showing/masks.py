"""Masks: parts of records that nobody sees here.

A mask names topics by a pattern and a part: `key`, `value`, `headers`, or a path into a JSON value
such as `$.card.number`. What is masked is put away before a record is searched, shown or
downloaded, so that no filter can guess it. A value that a path cannot be looked for in, because it
is not JSON, is put away whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any, Final

from klamm.client.aio.consumer import Consumed

HIDDEN: Final = "•••"
_PATH: Final = re.compile(r"\$(?:\.[\w-]+|\.\*|\[\d{1,9}\]|\[\*\])+")
_STEP: Final = re.compile(r"\.([\w-]+|\*)|\[(\d+|\*)\]")
_PARTS: Final = ("key", "value", "headers")
_AWAY: Final = HIDDEN.encode()


@dataclass(frozen=True, slots=True)
class Cover:
    """The masks of one topic."""

    parts: frozenset[str] = frozenset()
    paths: tuple[tuple[str, ...], ...] = ()

    def over(self, record: Consumed) -> Consumed:
        """The record without what nobody sees."""
        value = record.value
        if value is not None and "value" in self.parts:
            value = _AWAY
        elif value is not None and self.paths:
            value = self._value(value)
        key = _AWAY if "key" in self.parts and record.key is not None else record.key
        headers = record.headers
        if "headers" in self.parts:
            headers = tuple((name, None if data is None else _AWAY) for name, data in headers)
        return record._replace(key=key, value=value, headers=headers)

    def _value(self, value: bytes) -> bytes:
        try:
            told = self.of(json.loads(value))
            return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            return _AWAY

    def of(self, value: Any) -> Any:
        """A decoded value without what nobody sees."""
        if "value" in self.parts:
            return HIDDEN
        for steps in self.paths:
            value = _put_away(value, steps)
        return value


@dataclass(frozen=True, slots=True)
class Masks:
    """All masks of a console."""

    items: tuple[tuple[re.Pattern[str], str], ...] = field(default=())

    def of(self, topic: str) -> Cover | None:
        """The masks of a topic; None where it has none."""
        named = [part for pattern, part in self.items if pattern.fullmatch(topic)]
        if not named:
            return None
        paths = [_steps(part) for part in named if part not in _PARTS]
        return Cover(frozenset(named).intersection(_PARTS), tuple(paths))


def masks(texts: Iterable[str]) -> Masks:
    """The masks that texts such as `orders=$.card.number` name; `ValueError` says what is wrong."""
    found = []
    for text in texts:
        pattern, equals, part = text.partition("=")
        if not pattern or not equals or not (part in _PARTS or _PATH.fullmatch(part)):
            raise ValueError(
                "takes TOPIC=PART, where the part is key, value, headers or a path such as "
                f"$.card.number, not {text!r}"
            )
        found.append((re.compile(translate(pattern)), part))
    return Masks(tuple(found))


def _steps(path: str) -> tuple[str, ...]:
    return tuple(name or index for name, index in _STEP.findall(path))


def _put_away(value: Any, steps: tuple[str, ...]) -> Any:
    """A copy with what stands at the end of the steps put away; lists are looked through too."""
    if not steps:
        return HIDDEN
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        # A mask must not be got around by another case of the name.
        hit = [n for n in value if first == "*" or n.casefold() == first.casefold()]
        return value | {name: _put_away(value[name], rest) for name in hit}
    if isinstance(value, list):
        if first == "*" or not first.isdecimal():
            inner = rest if first == "*" else steps
            return [_put_away(each, inner) for each in value]
        at = int(first)
        return [_put_away(each, rest) if n == at else each for n, each in enumerate(value)]
    return value
