"""Signing in: as a user of the cluster, or where the cluster is open as one of a file.

A user of the cluster is whoever the cluster takes for one: a connection is opened as that user, and
what is done for them later is done through it, so that the cluster's own rules decide. The password
is in that connection's memory and nowhere else.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from klamm.client.aio.cluster import Client
from klamm.client.errors import Distrusted
from klamm.client.security import Security
from klamm.client.settings import ClientSettings
from klamm.console.access.roles import ROLES, Role
from klamm.console.problems import Problem, problem_of
from klamm.model.errors import KlammError, UsageError

WRONG: Final = "the user or the password is wrong"
_N: Final = 2**12
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Account:
    """One line of the file: a password that cannot be read back, and a role."""

    role: Role
    salt: bytes
    hashed: bytes = field(repr=False)

    def is_password(self, given: str) -> bool:
        """Whether this is the password."""
        return hmac.compare_digest(self.hashed, _hash(given, self.salt))


def _hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode("utf-8", "replace"), salt=salt, n=_N, r=8, p=1)


def read_accounts(path: Path) -> dict[str, Account]:
    """The accounts of a file of `name:role:password` lines."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as fault:
        raise UsageError(f"--users: {fault}") from fault
    if path.stat().st_mode & 0o077:
        raise UsageError(f"--users: others can read {path}; run chmod 600 {path}")
    found = {}
    for count, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, role, password = [*line.split(":", 2), "", ""][:3]
        if not name or role not in ROLES or not password:
            raise UsageError(
                f"--users: line {count} is not name:role:password with a role of {', '.join(ROLES)}"
            )
        salt = secrets.token_bytes(16)
        found[name] = Account(ROLES[role], salt, _hash(password, salt))
    return found


@dataclass(slots=True, kw_only=True)
class Accounts:
    """The ways to sign in that this console has."""

    servers: str
    settings: ClientSettings | None
    listed: Mapping[str, Account] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)  # of the cluster's users, by name
    default: Role = Role.VIEWER  # of a user of the cluster who is not among them

    @property
    def is_secured(self) -> bool:
        """Whether the cluster wants to know who somebody is."""
        return self.settings is not None and self.settings.security.signs_in

    @property
    def exist(self) -> bool:
        """Whether anybody can sign in."""
        return self.is_secured or bool(self.listed)

    async def sign_in(self, user: str, password: str) -> tuple[Role, Client | None]:
        """The role of whoever this is; `Problem` where it is nobody."""
        if not user or not password:
            raise Problem(401, WRONG)
        if not self.is_secured:
            account = self.listed.get(user) or _NOBODY
            if not account.is_password(password) or account is _NOBODY:
                raise Problem(401, WRONG)
            return account.role, None
        assert self.settings is not None, "looked at above"
        if self.settings.security.mechanism == "OAUTHBEARER":
            raise Problem(401, "this cluster takes tokens, not passwords: sign in by the provider")
        security = replace(
            self.settings.security, username=user, password=password, is_delegated=False
        )
        client = await self.reached(user, security)
        return self.roles.get(user, self.default), client

    async def reached(self, user: str, security: Security) -> Client:
        """A connection as this user; `Problem` where the cluster does not take them for one."""
        assert self.settings is not None, "the cluster wants to know who somebody is"
        client = Client(
            self.servers,
            client_id=_client_id(user),
            timeout_s=_TIMEOUT_S,
            request_timeout_s=self.settings.request_timeout_s,
            security=security,
        )
        try:
            await client.reach()
        except (KlammError, OSError) as fault:
            await client.close()
            if isinstance(fault, Distrusted):
                raise Problem(401, WRONG) from None
            raise problem_of(fault) from None
        return client


def _client_id(user: str) -> str:
    kept = "".join(char if char.isalnum() or char in "._-" else "_" for char in user)
    return f"klamm-console-{kept[:60]}"


_NOBODY: Final = Account(Role.VIEWER, b"nobody's salt...", _hash(secrets.token_hex(), b"."))
