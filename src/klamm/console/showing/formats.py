"""Numbers, sizes, ages and times as people read them. `static/formats.js` does the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

_NONE: Final = "–"  # noqa: RUF001
# Characters that turn text around or cannot be seen; they are shown by their names.
_HIDDEN: Final = frozenset(
    [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF, 0xAD]
)


def shown(value: Any) -> str:
    """A text with everything that cannot be seen made visible."""
    if value is None:
        return _NONE
    text = value if isinstance(value, str) else str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def block(value: Any) -> str:
    """The same in several lines."""
    return "\n".join(map(shown, value.split("\n"))) if isinstance(value, str) else shown(value)


def _visible(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code in _HIDDEN or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        return f"[U+{code:04X}]"
    return char


def number(value: Any) -> str:
    """1,204; 12.5 only below ten."""
    if value is None:
        return _NONE
    if isinstance(value, float) and 0 < value < 10:
        return f"{value:.1f}"
    return f"{round(value):,}"


def size(value: Any) -> str:
    """Bytes in powers of ten."""
    if value is None:
        return _NONE
    left = float(value)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if left < 1000 or unit == "TB":
            break
        left /= 1000
    return f"{left:.0f} {unit}" if left >= 100 or unit == "B" else f"{left:.1f} {unit}"


def age(value: Any) -> str:
    """The time since a moment, in one unit."""
    if value is None:
        return _NONE
    seconds = max(0, time.time() - value / 1000)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def clock(value: Any) -> str:
    """A time of day."""
    if value is None:
        return _NONE
    return time.strftime("%H:%M:%S", time.localtime(value / 1000))


def percent(value: Any) -> str:
    """A share."""
    return _NONE if value is None else f"{value * 100:.1f} %"


FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    "shown": shown,
    "block": block,
    "number": number,
    "size": size,
    "age": age,
    "clock": clock,
    "percent": percent,
}
