"""A closed language to choose records by: `$.customer.id == 7 and not $.tags[0] contains 'x'`.

Paths have names, indexes and `*`; they are compared with `==`, `!=`, `<`, `<=`, `>`, `>=` or
`contains`, and joined by `and`, `or`, `not` and brackets. A path alone asks whether it is there.
Nobody's code is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

Test = Callable[[Any], bool]

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<path>\$(?:\.[\w-]+|\.\*|\[\d{1,9}\]|\[\*\])*)
    |(?P<number>-?\d{1,18}(?:\.\d{1,18})?)
    |(?P<text>'[^']*'|"[^"]*")
    |(?P<op>==|!=|<=|>=|<|>)
    |(?P<word>and|or|not|contains|true|false|null)\b
    |(?P<bracket>[()]))""",
    re.VERBOSE,
)
_STEP: Final = re.compile(r"\.([\w-]+|\*)|\[(\d+|\*)\]")
_LENGTH_MAX: Final = 500
_DEPTH_MAX: Final = 20
_FOUND_MAX: Final = 1_000
_WORDS: Final = {"true": True, "false": False, "null": None}


class PathError(ValueError):
    """The text is not of the language."""


def compiled(text: str) -> Test:
    """The test that a text stands for."""
    if len(text) > _LENGTH_MAX:
        raise PathError(f"is longer than {_LENGTH_MAX} characters")
    reader = _Reader(list(_tokens(text)))
    test = reader.either(0)
    if reader.left:
        raise PathError(f"does not go on with {reader.left[0][1]!r}")
    return test


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise PathError(f"cannot be read from {text[at : at + 20]!r} on")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


class _Reader:
    """Takes tokens from the front."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.left = tokens

    def _take(self, kind: str, *texts: str) -> str | None:
        if self.left and self.left[0][0] == kind and (not texts or self.left[0][1] in texts):
            return self.left.pop(0)[1]
        return None

    def either(self, depth: int) -> Test:
        tests = [self.both(depth)]
        while self._take("word", "or"):
            tests.append(self.both(depth))
        return lambda value: any(test(value) for test in tests)

    def both(self, depth: int) -> Test:
        tests = [self.one(depth)]
        while self._take("word", "and"):
            tests.append(self.one(depth))
        return lambda value: all(test(value) for test in tests)

    def one(self, depth: int) -> Test:
        if depth > _DEPTH_MAX:
            raise PathError("is too deep")
        if self._take("word", "not"):
            test = self.one(depth + 1)
            return lambda value: not test(value)
        if self._take("bracket", "("):
            test = self.either(depth + 1)
            if not self._take("bracket", ")"):
                raise PathError("has a bracket that does not close")
            return test
        return self._comparison()

    def _comparison(self) -> Test:
        path = self._take("path")
        if path is None:
            raise PathError("needs a path such as $.customer.id")
        steps = [name or index for name, index in _STEP.findall(path)]
        operator = self._take("op") or self._take("word", "contains")
        if operator is None:
            return lambda value: bool(list(_found(value, steps)))
        wanted = self._literal()
        compare = _COMPARE[operator]
        return lambda value: any(compare(each, wanted) for each in _found(value, steps))

    def _literal(self) -> Any:
        if (number := self._take("number")) is not None:
            return json.loads(number) if not re.match(r"-?0\d", number) else float(number)
        if (text := self._take("text")) is not None:
            return text[1:-1]
        if (word := self._take("word", *_WORDS)) is not None:
            return _WORDS[word]
        raise PathError("needs a number, a 'text', true, false or null to compare with")


def _found(value: Any, steps: list[str]) -> Iterator[Any]:
    """The values at a path."""
    here = [value]
    for step in steps:
        after: list[Any] = []
        for each in here:
            if isinstance(each, dict):
                after += each.values() if step == "*" else [each[step]] if step in each else []
            elif isinstance(each, list):
                if step == "*":
                    after += each
                elif step.isdecimal() and int(step) < len(each):
                    after.append(each[int(step)])
        here = after[:_FOUND_MAX]
    yield from here


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def safe(one: Any, other: Any) -> bool:
        kinds = (int, float)
        if isinstance(one, bool) or isinstance(other, bool):
            return False
        if isinstance(one, kinds) and isinstance(other, kinds):
            return compare(one, other)
        return isinstance(one, str) and isinstance(other, str) and compare(one, other)

    return safe


def _contains(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        return isinstance(other, str) and other in one
    return isinstance(one, list) and other in one


_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: (
        type(one) is type(other) and one == other
        if isinstance(one, bool) or isinstance(other, bool)
        else one == other
    ),
    "!=": lambda one, other: one != other,
    "<": _ordered(lambda one, other: one < other),
    "<=": _ordered(lambda one, other: one <= other),
    ">": _ordered(lambda one, other: one > other),
    ">=": _ordered(lambda one, other: one >= other),
    "contains": _contains,
}
