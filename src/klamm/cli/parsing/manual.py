"""The text of `--help`."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from klamm.cli.parsing.declared import Option, Param

_WIDTH_MAX: Final = 100
_WIDTH_MIN: Final = 40
_LEFT_MAX: Final = 32


def of_command(prog: str, text: str, params: Sequence[Param]) -> str:
    """The help of one command."""
    arguments = [param for param in params if not param.is_option]
    usage = " ".join(["usage:", prog, "[OPTIONS]", *(a.metavar for a in arguments)])
    told = [(a.metavar, a.help) for a in arguments if a.help]
    options = [(_left(p), _right(p)) for p in params if p.is_option]
    options.append(("-h, --help", "show this and end"))
    return "\n".join([usage, *_prose(text), *_part("Arguments", told), *_part("Options", options)])


def of_group(prog: str, text: str, commands: Mapping[str, str]) -> str:
    """The help of several commands: their names and what each is for."""
    rows = [(name, doc.strip().split("\n", 1)[0]) for name, doc in commands.items()]
    about = [*_prose(text), *_part("Commands", rows), ""]
    return "\n".join([f"usage: {prog} COMMAND ...", *about, f"{prog} COMMAND --help says more."])


def _width() -> int:
    return max(_WIDTH_MIN, min(_WIDTH_MAX, shutil.get_terminal_size().columns))


def _prose(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        yield ""
        yield from _filled(paragraph, "  ", "  ")


def _part(title: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", f"{title}:")
    column = min(max(len(left) for left, _ in rows), _LEFT_MAX, _width() // 2) + 4
    for left, right in rows:
        if len(left) + 4 > column:
            yield f"  {left}"
            left = ""
        yield from _filled(right, f"  {left}".ljust(column), " " * column) or [f"  {left}"]


def _filled(text: str, first: str, then: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        _width(),
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _left(param: Param) -> str:
    short_first = sorted(param.flags, key=len)
    text = ", ".join([*short_first, *param.flags_off])
    return f"{text} {param.metavar}".rstrip()


def _right(param: Param) -> str:
    notes = []
    if param.envvar:
        notes.append(f"environment: {param.envvar}")
    if param.is_required:
        notes.append("required")
    elif default := _default(param):
        notes.append(f"default: {default}")
    return f"{param.help}  [{'; '.join(notes)}]" if notes else param.help


def _default(param: Param) -> str:
    is_shown = not isinstance(param.declared, Option) or param.declared.show_default
    if not is_shown or param.default in (None, False, "", ()):
        return ""
    if param.default is True:
        return param.flags[0]
    return str(param.default.value if isinstance(param.default, Enum) else param.default)
