"""Small pictures in SVG: no font, no script, readable on dark and on light."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

_WIDTH: Final = 860
_LEFT: Final = 330
_RIGHT: Final = 60
_BAR: Final = 16
_STEP: Final = 22
_TOP: Final = 44
_GOOD: Final = "#2a7f62"
_BAD: Final = "#b5432a"
_COLOURS: Final = ("#2a7f62", "#c98a1b", "#4a6fa5", "#8a5a83")
_TEXT: Final = "#777"


def _frame(title: str, height: int, inside: Iterator[str]) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<text x="8" y="20" fill="{_TEXT}" font-size="14">{escape(title)}</text>',
        *inside,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def ratios(title: str, bars: Sequence[tuple[str, float]]) -> str:
    """Bars to both sides of 1, on a logarithmic scale."""
    low = min([0.5, *(value for _, value in bars)])
    high = max([2.0, *(value for _, value in bars)])
    span = math.log(high) - math.log(low)
    room = _WIDTH - _LEFT - _RIGHT

    def place(value: float) -> float:
        return _LEFT + room * (math.log(value) - math.log(low)) / span

    def inside() -> Iterator[str]:
        bottom = _TOP + _STEP * len(bars)
        for mark in (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50):
            if low <= mark <= high:
                x = place(mark)
                yield _line(x, bottom, "#999" if mark == 1 else "#9995")
                yield _text(x, _TOP - 8, f"{mark:g}", anchor="middle")
        for at, (name, value) in enumerate(bars):
            y, one, end = _TOP + _STEP * at, place(1), place(value)
            yield _label(name, y)
            colour = _GOOD if value >= 1 else _BAD
            yield _bar(min(one, end), y, max(abs(end - one), 1), _BAR, colour)
            yield _text(max(one, end) + 5, y + 12, f"{value:.2g}")

    return _frame(title, _TOP + _STEP * len(bars) + 10, inside())


def groups(
    title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None]]]
) -> str:
    """For each row a bar for each name, from 0 on."""
    high = max([1e-9, *(value for _, values in rows for value in values if value is not None)])
    thick = 11
    step = thick * len(names) + 12
    room = _WIDTH - _LEFT - _RIGHT

    def inside() -> Iterator[str]:
        for at, name in enumerate(names):
            x = _LEFT + 170 * at
            yield _bar(x, _TOP - 16, 10, 10, _COLOURS[at % len(_COLOURS)])
            yield _text(x + 15, _TOP - 7, name)
        for row, (name, values) in enumerate(rows):
            top = _TOP + step * row + 4
            yield _label(name, top + step // 2 - 14)
            for at, value in enumerate(values):
                if value is None:
                    continue
                y, width = top + thick * at, room * value / high
                yield _bar(_LEFT, y, max(width, 1), thick - 2, _COLOURS[at % len(_COLOURS)])
                yield _text(_LEFT + width + 5, y + 9, f"{value:.2g}", size=10)

    return _frame(title, _TOP + step * len(rows) + 12, inside())


def _line(x: float, bottom: int, colour: str) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{bottom}" stroke="{colour}"/>'


def _label(text: str, y: float) -> str:
    return _text(_LEFT - 8, y + 12, text, anchor="end")


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    where = f'x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {where} fill="{_TEXT}">{escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'
