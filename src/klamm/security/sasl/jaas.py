"""JAAS texts: `<login module> <flag> key=value ... ;`, with exactly one module.

They are read as Java's StreamTokenizer reads them: a word has letters, digits and `. - _ $` and
does not begin with a digit; anything else is quoted, with C's escapes; an unquoted `/` turns the
rest of the line into a comment. So texts that work with Kafka work here, and the others are refused
with Kafka's sentences. Messages never repeat a value, for it may be a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.model.errors import Refused
from klamm.security.secret import Secret

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FORBIDDEN: Final = frozenset({"com.sun.security.auth.module.JndiLoginModule"})
_SIZE_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Jaas:
    """One login module and its options."""

    module: str
    options: Mapping[str, Secret]

    @property
    def name(self) -> str:
        """The module's name without its package, such as `PlainLoginModule`."""
        return self.module.rpartition(".")[2]

    def option(self, key: str) -> str | None:
        """The text of an option that is no secret."""
        found = self.options.get(key)
        return None if found is None else found.reveal()

    def plain_users(self) -> dict[str, Secret]:
        """The users of `user_<name>="<password>"`."""
        prefix = "user_"
        return {
            key.removeprefix(prefix): password
            for key, password in self.options.items()
            if key.startswith(prefix) and key != prefix
        }


def parse_jaas(text: str) -> Jaas | Refused:
    """Reads the text of one `sasl.jaas.config`."""
    if len(text) > _SIZE_MAX:
        return Refused(f"a JAAS config of {len(text)} characters is too long")
    tokens = _tokens(text)
    if isinstance(tokens, Refused):
        return tokens
    modules: list[Jaas] = []
    at = 0
    while at < len(tokens):
        read = _module(tokens, at)
        if isinstance(read, Refused):
            return read
        module, at = read
        modules.append(module)
    if not modules:
        return Refused("Login module not specified in JAAS config")
    if len(modules) > 1:
        return Refused(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    return modules[0]


class _Token(NamedTuple):
    text: str
    is_word: bool  # a bare or quoted word, no number and no mark


def _module(tokens: list[_Token], at: int) -> tuple[Jaas, int] | Refused:
    module = tokens[at]
    if not module.is_word:
        return Refused("Login module not specified in JAAS config")
    if module.text in _FORBIDDEN:
        return Refused(
            f"{module.text} is not allowed. Update System property "
            f"'org.apache.kafka.disallowed.login.modules' to allow {module.text}"
        )
    at += 1
    if at == len(tokens) or tokens[at].text == ";":
        return Refused("Login module control flag not specified in JAAS config")
    if tokens[at].text.lower() not in _FLAGS:
        return Refused(f"Invalid login module control flag '{tokens[at].text}' in JAAS config")
    at += 1
    options: dict[str, Secret] = {}
    while at < len(tokens) and tokens[at] != _END:
        key = tokens[at].text
        rest = tokens[at + 1 : at + 3]
        if len(rest) < 2 or rest[0] != _EQUALS or not rest[1].is_word or not tokens[at].is_word:
            return Refused(f"Value not specified for key '{key}' in JAAS config")
        options[key] = Secret(rest[1].text)
        at += 3
    if at == len(tokens):
        return Refused("JAAS config entry not terminated by semi-colon")
    return Jaas(module.text, options), at + 1


_END: Final = _Token(";", False)
_EQUALS: Final = _Token("=", False)


def _tokens(text: str) -> list[_Token] | Refused:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char <= " ":
            at += 1
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            at = len(text) if end < 0 else end + 2
        elif char == "/":
            at = _line_end(text, at)
        elif char in "\"'":
            value, at = _quoted(text, at)
            tokens.append(_Token(value, True))
        elif _is_word(char):
            start = at
            while at < len(text) and _is_word(text[at]):
                at += 1
            word = text[start:at]
            tokens.append(_Token(word, not _begins_number(word)))
        else:
            tokens.append(_Token(char, False))
            at += 1
    return tokens


def _line_end(text: str, at: int) -> int:
    ends = [end for end in (text.find("\n", at), text.find("\r", at)) if end >= 0]
    return min(ends, default=len(text))


def _is_word(char: str) -> bool:
    return char > "\x9f" or char in "._-$" or (char.isascii() and char.isalnum())


def _begins_number(word: str) -> bool:
    return word.lstrip("-.")[:1].isdigit() and word[:1] in "-.0123456789"


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The quoted text that begins here, and where it ends: at the quote or with the line."""
    quote, at = text[at], at + 1
    value: list[str] = []
    while at < len(text) and text[at] not in (quote, "\n", "\r"):
        if text[at] != "\\" or at + 1 == len(text):
            value.append(text[at])
            at += 1
            continue
        at += 1
        if text[at] in "01234567":
            size = 3 if text[at] <= "3" else 2
            digits = text[at : at + size]
            while not all("0" <= digit <= "7" for digit in digits):
                digits = digits[:-1]
            value.append(chr(int(digits, 8)))
            at += len(digits)
        else:
            value.append(_ESCAPES.get(text[at], text[at]))
            at += 1
    return "".join(value), min(at + 1, len(text))
