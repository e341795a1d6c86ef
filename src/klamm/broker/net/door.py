"""Decides who may make the requests that are for brokers only.

Brokers of klamm prove what they are (`proof.py`). Brokers of another kind cannot; where such serve
in the cluster, `klamm.internal.requests.from` names the listeners or addresses that are taken for
brokers' without a proof. Everybody who can reach those may then order replicas deleted, so it is
said when a broker starts.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from klamm.model.settings import BrokerSettings
from klamm.model.settings.definition import PROOF, listener_named

SETTING: Final = "klamm.internal.requests.from"


class Door:
    """The connections that count as a broker's without a proof."""

    def __init__(self, settings: BrokerSettings) -> None:
        items = [item for item in settings.list(SETTING) if item != PROOF]
        self._listeners = frozenset(filter(None, map(listener_named, items)))
        self._networks = tuple(
            ipaddress.ip_network(item, strict=False) for item in items if not listener_named(item)
        )
        self.is_proof_enough = not items

    def admits(self, listener: str, host: str) -> bool:
        """Whether a connection from there is taken for a broker's."""
        if self.is_proof_enough:
            return False
        if listener in self._listeners:
            return True
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)

    def warning(self) -> str | None:
        """The warning for the operator about this door when a broker starts."""
        if self.is_proof_enough:
            return None
        whom = [f"everybody on listener {name}" for name in sorted(self._listeners)]
        whom += [f"everybody at {network}" for network in self._networks]
        return (
            f"{SETTING} lets {' and '.join(whom)} order replicas made and deleted without a proof; "
            "this is for brokers that are not klamm's, and for nobody else"
        )


def exposure(host: str) -> str | None:
    """The warning for the operator about an address that others can reach."""
    if is_loopback(host):
        return None
    where = host or "every address"
    return (
        f"brokers listen on {where} without encryption or log-in: whoever can reach them can read, "
        "write and delete every topic; keep the port behind a firewall, or use --host 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach this address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False  # a name may lead anywhere
