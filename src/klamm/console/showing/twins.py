"""Commands that do what a page shows: safe to paste into a shell, whatever a name contains."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def quoted(text: str) -> str:
    """One word for sh (bash, zsh, ksh where it has control characters)."""
    if _PLAIN.fullmatch(text):
        return text
    if all(char.isprintable() for char in text):
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def command(*words: str | int, names: tuple[str, ...] = ()) -> str:
    """A `klamm` command; names that a person chose stand behind `--` where one looks like an
    option."""
    said = ["klamm", *(quoted(str(word)) for word in words)]
    if any(name.startswith("-") for name in names):
        said.append("--")
    return " ".join([*said, *map(quoted, names)])
