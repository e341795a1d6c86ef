"""`ssl.principal.mapping.rules`: from the name in a certificate to the name of a principal.

Rules are tried in order. One applies where its pattern matches the whole name; then every match is
replaced, which is why a pattern `.*` without anchors replaces twice, as in Java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import Refused

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
    r"|)\s*(?:,|\Z)",
    re.DOTALL,
)
_REFERENCE: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<digits>[0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; without a pattern it is DEFAULT, which keeps the name."""

    text: str
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._expand, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _expand(self, match: re.Match[str]) -> str:
        """The replacement with its `$n`; one beyond the groups stays as it is."""

        def part(found: re.Match[str]) -> str:
            if found["escaped"] is not None:
                return found["escaped"]
            # As many digits as name a group, as in Java.
            digits, rest = found["digits"], ""
            while len(digits) > 1 and int(digits) > match.re.groups:
                digits, rest = digits[:-1], digits[-1] + rest
            if int(digits) > match.re.groups:
                return found[0]
            return (match[int(digits)] or "") + rest

        return _REFERENCE.sub(part, self.replacement)


@dataclass(frozen=True, slots=True)
class MappingRules:
    """The rules of a broker."""

    rules: tuple[_Rule, ...]

    def apply(self, name: str) -> str | Refused:
        """The principal's name for the name in a certificate (RFC 2253)."""
        for rule in self.rules:
            if (mapped := rule.apply(name)) is not None:
                return mapped
        told = ", ".join(rule.text for rule in self.rules)
        return Refused(f"No rules apply to {name}, rules [{told}]")


def parse_rules(text: str) -> MappingRules | Refused:
    """Reads `RULE:pattern/replacement/[LU],...,DEFAULT`; empty text is DEFAULT."""
    rules: list[_Rule] = []
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None or match.end() == at:
            return Refused(f"Invalid rule: `{text[at:].strip()}`")
        at = match.end()
        said = match[0].strip().removesuffix(",").strip()
        if match["default"]:
            rules.append(_Rule("DEFAULT"))
        elif match["pattern"] is not None:
            try:
                pattern = re.compile(match["pattern"])
            except (re.error, OverflowError, RecursionError) as fault:
                return Refused(f"Invalid rule: `{said}`: {fault}")
            rules.append(_Rule(said, pattern, match["replacement"], match["case"]))
    return MappingRules(tuple(rules) or (_Rule("DEFAULT"),))
