"""Brokers as the cluster sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.model.names import BrokerId

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one listener of a broker."""

    host: str
    port: int
    listener: str = PLAINTEXT
    security_protocol: str = PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One registration of a broker. A new registration is a new epoch."""

    id: BrokerId
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    can_prove: bool = False  # that it is one of the cluster; only klamm's brokers can

    def endpoint(self, listener: str = PLAINTEXT) -> Endpoint | None:
        """The address at which clients of this listener reach the broker."""
        return next((e for e in self.endpoints if e.listener == listener), None)
