"""The options that a console is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from klamm.client.settings import ClientSettings
from klamm.console.gate import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The address to listen on, the cluster to look at, and who may do what."""

    servers: str
    settings: ClientSettings | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str | None = None
    read_only: bool = False
    users: Path | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    audit_log: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in ("127.0.0.1", "::1", "localhost")

    @property
    def anonymous(self) -> Role:
        """The role of whoever has not signed in."""
        return Role.ADMIN if self.is_local and not self.read_only else Role.VIEWER
