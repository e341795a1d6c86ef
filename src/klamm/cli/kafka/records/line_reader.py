"""Lines as `klamm kafka-console-producer` takes them apart: headers, key and value."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from klamm.protocol.batch import Headers

_SEPARATORS: Final[Mapping[str, str]] = {
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "key.separator": "\t",
}
_DIFFERENT: Final = ("headers.delimiter", "headers.separator", "headers.key.separator")
_FLAGS: Final = ("parse.key", "parse.headers", "ignore.error")
_KNOWN: Final = frozenset({*_SEPARATORS, *_FLAGS, "null.marker", "topic"})


class Taken(NamedTuple):
    """The parts of a line."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class LineReader:
    """Reads lines one after the other, and knows the number of each."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        if strange := sorted(properties.keys() - _KNOWN):
            raise ValueError(f"there is no property {strange[0]!r} of lines")
        self._separators = {n: properties.get(n, text) for n, text in _SEPARATORS.items()}
        self._flags = {n: properties.get(n, "").strip().lower() == "true" for n in _FLAGS}
        self._null = properties.get("null.marker")
        self._number = 0
        for name, text in self._separators.items():
            if not text:
                raise ValueError(f"{name} may not be empty")
            if text == self._null:
                raise ValueError(f"null.marker and {name} may not be equal")
        for one, other in itertools.combinations(_DIFFERENT, 2):
            if self._separators[one] == self._separators[other]:
                raise ValueError(f"{one} and {other} may not be equal")
        try:
            self._between = re.compile(self._separators["headers.separator"])
        except re.error:
            raise ValueError("headers.separator is an invalid regex") from None

    def __call__(self, line: str) -> Taken:
        self._number += 1
        headers, rest = self._part(
            line, line, "parse.headers", "headers.delimiter", "headers delimiter"
        )
        key, value = self._part(line, rest, "parse.key", "key.separator", "key separator")
        pairs = () if headers is None or headers == self._null else self._headers(headers)
        return Taken(self._bytes(key), self._bytes(value), pairs)

    def _part(
        self, line: str, rest: str, flag: str, name: str, words: str
    ) -> tuple[str | None, str]:
        """The text before a separator, if that is asked for, and what follows."""
        if not self._flags[flag]:
            return None, rest
        before, found, after = rest.partition(self._separators[name])
        if found:
            return before, after
        if self._flags["ignore.error"]:
            return None, rest
        raise ValueError(f"No {words} found on line number {self._number}: '{line}'")

    def _headers(self, text: str) -> Headers:
        # Java leaves empty texts at the end out when it splits.
        parts = self._between.split(text)
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        return tuple(map(self._header, parts))

    def _header(self, pair: str) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self._separators["headers.key.separator"])
        if not found and not self._flags["ignore.error"]:
            raise ValueError(
                f"No header key separator found in pair '{pair}' on line number {self._number}"
            )
        if found and name == self._null:
            raise ValueError(
                f"Header keys should not be equal to the null marker '{name}' as they can't be null"
            )
        return name, self._bytes(value) if found else None

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode()
