"""Roles: what somebody may do here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """The role of somebody; each may do what the ones before may."""

    VIEWER = 0
    OPERATOR = 1
    ADMIN = 2

    @property
    def word(self) -> str:
        return self.name.lower()


ROLES: Final[Mapping[str, Role]] = {role.word: role for role in Role}
