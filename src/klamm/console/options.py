"""The options that a console is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from klamm.client.settings import ClientSettings
from klamm.console.access.oidc import OidcOptions
from klamm.console.access.roles import Role
from klamm.console.processes import Processes
from klamm.console.showing.masks import Masks
from klamm.console.showing.rendering import Decode

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


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
    alias: str = ""  # its prefix in addresses, where one console shows several clusters
    others: tuple[Options, ...] = ()
    jobs_dir: Path | None = None
    reach: tuple[str, ...] = ()  # the options by which a command finds the cluster
    spark_masters: tuple[str, ...] = ()
    processes: Processes | None = None
    oidc: OidcOptions | None = None
    decode: Decode | None = None  # Avro values, by a registry
    masks: Masks = field(default_factory=Masks)  # parts of records that nobody sees

    @property
    def root(self) -> str:
        """Stands before every address of this cluster."""
        return f"/@{self.alias}" if self.alias else ""

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers come over TLS, to the console or to what stands before it."""
        return self.tls_cert is not None or (self.public_url or "").startswith("https://")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.host in _LOOPBACK and (public is None or public in _LOOPBACK)

    @property
    def anonymous(self) -> Role:
        """The role of whoever has not signed in."""
        if self.users is not None or self.oidc is not None:
            return Role.VIEWER  # there is a way to become known, so it is meant to be taken
        return Role.ADMIN if self.is_local and not self.read_only else Role.VIEWER
