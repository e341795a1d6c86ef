"""The gate: who may do what. What changes something is reached through `Acting` alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from klamm.client.aio.admin import Admin
from klamm.console.problems import Problem


class Role(IntEnum):
    """The role of somebody; each may do what the ones before may."""

    VIEWER = 0
    OPERATOR = 1
    ADMIN = 2

    @property
    def word(self) -> str:
        return self.name.lower()


ROLES: Final[Mapping[str, Role]] = {role.word: role for role in Role}


@dataclass(frozen=True, slots=True)
class Acting:
    """The right to change something: made for a role, held against what a deed needs."""

    admin: Admin
    role: Role
    user: str

    @classmethod
    def of(cls, admin: Admin, role: Role, needed: Role, user: str) -> Acting:
        """The right to do what needs this role; `Problem` where the role is less."""
        if role < needed:
            raise Problem(
                403,
                f"this takes the role {needed.word}; you are {role.word} here",
                needed=needed.word,
                role=role.word,
            )
        return cls(admin, role, user)
