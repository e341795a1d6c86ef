"""Secrets that do not show themselves: in no log, traceback, answer or comparison."""

from __future__ import annotations

import hmac
from typing import Final

HIDDEN: Final = "[hidden]"


class Secret:
    """A text that is printed as `[hidden]`; only `reveal` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def equals(self, other: str) -> bool:
        """Whether this is the same text, in a time that does not tell how much of it is."""
        return hmac.compare_digest(_bytes(self._text), _bytes(other))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.equals(other._text)

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
