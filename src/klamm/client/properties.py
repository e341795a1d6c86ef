"""Properties files, as Java reads them.

A name ends at the first `=`, `:` or blank that no backslash stands before; a line that ends with a
backslash goes on in the next, whose leading blanks do not count; `#` and `!` begin comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_WHITE: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read(path: Path) -> dict[str, str]:
    """The entries of a file; ValueError where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise ValueError(f"cannot read {path}: {reason}") from fault
    return parse(text)


def parse(text: str) -> dict[str, str]:
    """The entries of a text; the last of several with one name counts."""
    found: dict[str, str] = {}
    for line in _logical(text.splitlines()):
        entry = _ENTRY.match(line)
        assert entry is not None, f"{line!r}: every line has a name, perhaps an empty one"
        found[_unescaped(entry[1])] = _unescaped(entry[2]).rstrip()
    return found


def _logical(lines: Iterable[str]) -> Iterator[str]:
    begun = ""
    for line in (line.lstrip() for line in lines):
        if not begun and (not line or line[0] in "#!"):
            continue
        begun += line
        backslashes = len(begun) - len(begun.rstrip("\\"))
        if backslashes % 2:
            begun = begun[:-1]
        else:
            yield begun
            begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _WHITE.get(match[2], match[2])

    said = _ESCAPE.sub(plain, text)
    # Java writes what does not fit into one \uXXXX as two that belong together.
    return said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
