"""Texts that carry passwords into the files of others: JAAS lines and Java's properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PACKAGE: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}


def jaas(mechanism: str, options: Mapping[str, str] | None = None) -> str:
    """The JAAS line of a mechanism with these options."""
    pairs = "".join(f" {name}={_quoted(text)}" for name, text in (options or {}).items())
    return f"{_MODULES[mechanism]} required{pairs};"


def properties(entries: Mapping[str, str]) -> str:
    """A file of properties, as Java reads it: one entry a line, in ASCII."""
    return "".join(f"{name}={_escaped(text)}\n" for name, text in entries.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escaped(text: str) -> str:
    """A value: backslashes doubled, what is not ASCII by its code, a leading blank kept."""
    shown = []
    for at, char in enumerate(text):
        if char == "\\" or (char == " " and at == 0):
            shown.append("\\" + char)
        elif char.isascii() and char.isprintable():
            shown.append(char)
        else:
            units = char.encode("utf-16-be")
            shown += [f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]
    return "".join(shown)
