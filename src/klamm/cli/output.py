"""Printing: aligned columns for people, JSON for programs.

All that a command prints goes through here, because much of it is text from strangers: what could
steer a terminal or forge a line is shown by its code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, TextIO

from klamm.model.text import json_text, printable

_HINT: Final = re.compile(r"\bklamm [a-z]")


class Output(StrEnum):
    """The shape of what a command prints."""

    TEXT = "text"
    JSON = "json"


class Hints:
    """Whether a person has been told to type a command of klamm's."""

    were_given = False


def say(*lines: object, to: TextIO | None = None, keep: str = "") -> None:
    """Print these lines; each stays one line whatever is in it.

    `keep` names control characters that are wanted, such as tabs between columns.
    """
    for line in lines:
        text = printable(str(line), keep)
        print(text, file=to or sys.stdout)
        Hints.were_given = Hints.were_given or _HINT.search(text) is not None


def say_text(text: str, to: TextIO | None = None) -> None:
    """Print text of several lines, whose parts were made printable one by one."""
    say(*text.split("\n"), to=to)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns under their headers; numbers to the right, words to the left."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    numeric = [
        bool(cells) and all(_is_number(row[at]) for row in cells) for at in range(len(headers))
    ]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line([h.upper() for h in headers]), *map(line, cells)])


def counted(count: int, noun: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def print_json(value: object) -> None:
    """One value, readable on a terminal, one line in a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    print(json_text(value, indent))


def tell(output: Output, value: object, *lines: object) -> None:
    """Tells what a command has done: for programs as JSON, for people as lines."""
    if output is Output.JSON:
        print_json(value)
    else:
        say(*lines)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdigit()
