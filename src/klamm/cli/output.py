"""Printing: aligned columns for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns under their headers; numbers to the right, words to the left."""
    cells = [[str(cell) for cell in row] for row in rows]
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


def print_json(value: object) -> None:
    """One value, readable on a terminal, one line in a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(value, indent=indent, ensure_ascii=False))


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdigit()
