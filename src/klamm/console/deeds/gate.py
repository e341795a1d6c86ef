"""The gate: who may do what. What changes something is reached through `Acting` alone."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.client.aio.admin import Admin
from klamm.console.access.roles import Role
from klamm.console.problems import Problem
from klamm.console.tools import Tools


@dataclass(frozen=True, slots=True)
class Acting:
    """The right to change something: made for a role, held against what a deed needs."""

    admin: Admin
    role: Role
    user: str
    tools: Tools

    @classmethod
    def of(cls, admin: Admin, role: Role, user: str, tools: Tools, needed: Role) -> Acting:
        """The right to do what needs this role; `Problem` where the role is less."""
        if role < needed:
            raise Problem(
                403,
                f"this takes the role {needed.word}; you are {role.word} here",
                needed=needed.word,
                role=role.word,
            )
        return cls(admin, role, user, tools)
