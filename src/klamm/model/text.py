"""Text from strangers, made fit for a terminal, a log line or a page.

A group id, a client id, a setting or a record may hold anything: sequences that clear the screen or
set its title, a newline that forges a second line, marks that turn the direction of what follows.
What could do that is shown by its code, as Python would write it; everything else stays.
"""

from __future__ import annotations

import json
import re
from typing import Final

# C0, DEL and C1 controls; marks of direction; separators of lines; invisible characters, but for
# the joiners that some scripts need; halves of surrogate pairs; tags.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, keep: str = "") -> str:
    """This text with every character that is none to look at shown by its code.

    `keep` names control characters that are wanted, such as the tabs of a table.
    """
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _code(found[0]), text)


def json_text(value: object, indent: int | None = None) -> str:
    """This value as JSON that is readable, and that steers no terminal; it means the same."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    # Within a text JSON has no bare control character below 0x20: those left are its own layout.
    return _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else _json_code(found[0]), text)


def _code(character: str) -> str:
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _json_code(character: str) -> str:
    return json.dumps(character)[1:-1]
