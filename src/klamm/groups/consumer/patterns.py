"""Patterns for topic names, in time that grows with the name and not with the pattern's malice.

The protocol speaks of RE2: regular expressions without looking around and without references back.
Python's `re` tries one way after the other and can be made to try for years; what a stranger sends
must not be given to it. So the pattern is turned into steps (Thompson's construction), and a name
walks through all ways at once. Only what stands for a single character is left to `re`.

Where a walk has come to before, with the same characters before it or others, it goes on as it did
then: places and the ways between them are kept. A pattern that has ever new places costs more with
every name; one that has cost too much is given up and refused, so that the time of all walks
together is bounded, however many topics there are.

Known are literals, `.`, classes, escapes, groups, `|`, `* + ? {m,n}` (also lazy: which way is taken
makes no difference to whether there is one), `^ $ \\A \\z`, and `(?i)` at the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from klamm.model.errors import Refused

_LENGTH_MAX: Final = 1_000
_STEPS_MAX: Final = 2_000
_REPEAT_MAX: Final = 1_000
_DEPTH_MAX: Final = 50
_ANSWERS_MAX: Final = 100_000
# Steps looked at in all walks of a pattern. An honest one needs a few thousand for any number of
# names; this many take a tenth of a second, of which others have their share (`broker/api`).
_LOOKS_MAX: Final = 200_000
_KEPT_MAX: Final = 30_000  # steps in all places that are kept
_KNOWN_MAX: Final = 64
_TOLD_MAX: Final = 100
_CLASSES: Final = "dDwWsS"


@dataclass(slots=True)
class _Step:
    """One place on the way: a character to pass, or ways that lead on without one."""

    character: re.Pattern[str] | str | None = None
    at_start: bool = False  # may only be passed before the first character
    at_end: bool = False  # may only be passed behind the last one
    ways: list[int] = field(default_factory=list)

    def passes(self, character: str) -> bool:
        if isinstance(self.character, str):
            return self.character == character
        return self.character is not None and self.character.fullmatch(character) is not None


class PatternFault(ValueError):
    """The pattern is not one that is understood."""


_Places = frozenset[int]  # where a walk is: at all these steps at once


class TopicPattern:
    """A pattern, ready to be asked."""

    __slots__ = (
        "_answers",
        "_begun",
        "_end",
        "_kept",
        "_looks_left",
        "_places",
        "_start",
        "_steps",
        "_ways",
    )

    def __init__(self, text: str) -> None:
        parser = _Parser(text)
        self._start, self._end = parser.whole()
        self._steps = parser.steps
        self._answers: dict[str, bool] = {}
        self._ways: dict[tuple[_Places, str, bool], _Places] = {}
        self._places: dict[_Places, _Places] = {}
        self._begun: dict[bool, _Places] = {}
        self._kept = 0  # steps in the places that `_ways` leads to
        self._looks_left = _LOOKS_MAX

    @property
    def is_given_up(self) -> bool:
        """Whether it has cost too much to be asked any further."""
        return self._looks_left <= 0

    def matches(self, name: str) -> bool:
        """Whether the pattern stands for the whole name; one that was given up stands for none."""
        answer = self._answers.get(name)
        if answer is None:
            if len(self._answers) >= _ANSWERS_MAX:
                self._answers.clear()
            # The same names are asked about whenever anything in the cluster changes.
            answer = self._answers[name] = not self.is_given_up and self._walk(name)
        return answer

    def _walk(self, name: str) -> bool:
        now = self._begin(last=not name)
        end = len(name) - 1
        for at, character in enumerate(name):
            if not now:
                return False
            key = (now, character, at == end)
            then = self._ways.get(key)
            if then is None:
                then = self._pass(now, character, last=at == end)
                if self.is_given_up:
                    self._forget()
                    return False
                self._keep(key, then)
            now = then
        return self._end in now

    def _begin(self, *, last: bool) -> _Places:
        """Everywhere one can be before the first character."""
        begun = self._begun.get(last)
        if begun is None:
            begun = self._begun[last] = self._reach((self._start,), first=True, last=last)
        return begun

    def _keep(self, key: tuple[_Places, str, bool], then: _Places) -> None:
        self._kept += len(then) + 1
        if self._kept > _KEPT_MAX:
            self._forget()
            self._kept = len(then) + 1
        self._ways[key] = then

    def _forget(self) -> None:
        self._ways.clear()
        self._places.clear()

    def _pass(self, now: _Places, character: str, *, last: bool) -> _Places:
        """Everywhere one can be behind one more character."""
        self._looks_left -= len(now)
        passed: set[int] = set()
        for number in now:
            step = self._steps[number]
            if step.passes(character):
                passed.update(step.ways)
        return self._reach(passed, first=False, last=last)

    def _reach(self, start: Iterable[int], *, first: bool, last: bool) -> _Places:
        """Everywhere one can be without passing another character."""
        found: set[int] = set()
        waiting = list(start)
        while waiting:
            number = waiting.pop()
            step = self._steps[number]
            if number in found or (step.at_start and not first) or (step.at_end and not last):
                continue
            found.add(number)
            if step.character is None:
                waiting += step.ways
        self._looks_left -= len(found)
        # Only these make a difference to what comes next.
        steps, end = self._steps, self._end
        places = frozenset(n for n in found if steps[n].character is not None or n == end)
        # Two that are the same are one: they are looked up with every character.
        return self._places.setdefault(places, places)


_Piece = tuple[int, int]  # the first and the last step of a part of the pattern


class _Parser:
    """Reads a pattern from left to right and lays its steps."""

    def __init__(self, text: str) -> None:
        if len(text) > _LENGTH_MAX:
            raise PatternFault(f"it has more than {_LENGTH_MAX} characters")
        self.steps: list[_Step] = []
        self._flags = re.DOTALL
        if text.startswith("(?i)"):
            self._flags |= re.IGNORECASE
            text = text[4:]
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> _Piece:
        piece = self._alternatives()
        if self._at < len(self._text):
            raise PatternFault(f"unmatched ) at {self._at}")
        return piece

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, size: int = 1) -> str:
        taken = self._text[self._at : self._at + size]
        self._at += size
        return taken

    def _step(self, step: _Step) -> int:
        if len(self.steps) >= _STEPS_MAX:
            raise PatternFault("it repeats too much")
        self.steps.append(step)
        return len(self.steps) - 1

    def _join(self, start: int, end: int) -> None:
        self.steps[start].ways.append(end)

    def _alternatives(self) -> _Piece:
        pieces = [self._sequence()]
        while self._next() == "|":
            self._take()
            pieces.append(self._sequence())
        if len(pieces) == 1:
            return pieces[0]
        start, end = self._step(_Step()), self._step(_Step())
        for first, last in pieces:
            self._join(start, first)
            self._join(last, end)
        return start, end

    def _sequence(self) -> _Piece:
        start = end = self._step(_Step())
        while self._next() not in ("", "|", ")"):
            first, last = self._repeated()
            self._join(end, first)
            end = last
        return start, end

    def _repeated(self) -> _Piece:
        begins = self._at
        piece = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return piece
        if self._next() == "?":
            self._take()
        if self._next() in ("*", "+", "?"):
            raise PatternFault(f"nothing to repeat at {self._at}")
        resumes = self._at
        piece = self._times(piece, *bounds, begins)
        self._at = resumes
        return piece

    def _bounds(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._next())
        if simple is not None:
            self._take()
            return simple
        counted = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}").match(self._text, self._at)
        if counted is None:
            return None
        self._at = counted.end()
        least = int(counted[1])
        most = least if counted[2] is None else int(counted[3]) if counted[3] else None
        if max(least, most or 0) > _REPEAT_MAX or (most is not None and most < least):
            raise PatternFault(f"bad repetition {counted[0]}")
        return least, most

    def _times(self, piece: _Piece, least: int, most: int | None, begins: int) -> _Piece:
        """The piece so many times in a row; each further time is read from the text anew."""
        start = end = self._step(_Step())
        out = self._step(_Step())
        for time in range(least + 1 if most is None else most):
            if time > 0:
                self._at = begins
                piece = self._atom()
            if time >= least:
                self._join(end, out)
            self._join(end, piece[0])
            if most is None and time == least:
                self._join(piece[1], end)  # round and round
            else:
                end = piece[1]
        self._join(end, out)
        return start, out

    def _atom(self) -> _Piece:
        match self._next():
            case "(":
                return self._group()
            case "[":
                return self._character(self._class())
            case "^":
                self._take()
                return self._only(_Step(at_start=True))
            case "$":
                self._take()
                return self._only(_Step(at_end=True))
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise PatternFault(f"nothing to repeat at {self._at}")
            case ".":
                return self._character(self._take())
            case _:
                return self._literal(self._take())

    def _group(self) -> _Piece:
        opened = re.compile(r"\((\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)").match(self._text, self._at)
        if opened is None:
            raise PatternFault(f"a group that is not known at {self._at}")
        self._at = opened.end()
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise PatternFault(f"groups are in each other deeper than {_DEPTH_MAX}")
        piece = self._alternatives()
        self._depth -= 1
        if self._take() != ")":
            raise PatternFault("a group is not closed")
        return piece

    def _class(self) -> str:
        found = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]").match(self._text, self._at)
        if found is None:
            raise PatternFault("a class is not closed")
        # Python means to give these a meaning of its own some day.
        if re.search(r"\[|--|&&|~~|\|\|", found[0][1:]):
            raise PatternFault(f"the class {found[0]} is not known")
        return self._take(len(found[0]))

    def _escape(self) -> _Piece:
        text = self._take(2)
        if text in ("\\A", "\\z"):
            return self._only(_Step(at_start=text == "\\A", at_end=text == "\\z"))
        if len(text) < 2 or (text[1].isalnum() and text[1] not in _CLASSES):
            raise PatternFault(f"{text!r} is not known")
        return self._character(text)

    def _character(self, text: str) -> _Piece:
        try:
            return self._only(_Step(character=re.compile(text, self._flags)))
        except re.error as fault:
            raise PatternFault(str(fault)) from None

    def _literal(self, character: str) -> _Piece:
        if self._flags & re.IGNORECASE:
            return self._character(re.escape(character))
        return self._only(_Step(character=character))

    def _only(self, step: _Step) -> _Piece:
        first, last = self._step(step), self._step(_Step())
        self._join(first, last)
        return first, last


@lru_cache(maxsize=_KNOWN_MAX)
def parse(text: str) -> TopicPattern | Refused:
    """The pattern in this text, or why there is none."""
    try:
        return TopicPattern(text)
    except PatternFault as fault:
        told = text if len(text) <= _TOLD_MAX else f"{text[:_TOLD_MAX]}..."
        return Refused(f"{told!r} is not a regular expression that is known here: {fault}")


def too_costly(text: str, names: Iterable[str]) -> Refused | None:
    """The reason why matching these names against a pattern would cost too much, if so."""
    pattern = parse(text)
    if isinstance(pattern, Refused):
        return pattern
    for name in names:
        pattern.matches(name)
    if not pattern.is_given_up:
        return None
    return Refused(
        f"{text[:_TOLD_MAX]!r} takes too long to compare with the topics of this cluster; "
        "nest fewer repetitions, or name the topics"
    )
