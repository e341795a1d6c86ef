"""Principals: the names by which rules, quotas and logs know a caller.

The text form is `type:name`. It is split at the first colon, so a name may hold colons, and both
halves are compared letter by letter. Everybody who did not say who they are is `User:ANONYMOUS`,
which is an ordinary name: rules and quotas can be made for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from klamm.model.errors import Refused

USER: Final = "User"
# In an ACL this text stands for everybody, of whatever type.
EVERYBODY: Final = "User:*"


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller as rules know it. Whether a token spoke for it makes it nobody else."""

    type: str
    name: str
    by_token: bool = field(default=False, compare=False)

    @property
    def text(self) -> str:
        """The form in which ACLs, settings and logs have it."""
        return f"{self.type}:{self.name}"

    @property
    def quota_user(self) -> str:
        """The name that quotas know; another type than User shares none with a user."""
        return self.name if self.type == USER else self.text

    def __str__(self) -> str:
        return self.text


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal | Refused:
    """Reads `type:name`."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        return Refused(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[Principal] | Refused:
    """Reads `super.users`: separated by semicolons, because names of certificates hold commas."""
    found: set[Principal] = set()
    for item in filter(None, (part.strip() for part in text.split(";"))):
        principal = parse_principal(item)
        if isinstance(principal, Refused):
            return Refused(f"super.users: {principal.why}. Write type:name;type:name")
        found.add(principal)
    return frozenset(found)
