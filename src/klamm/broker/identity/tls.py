"""TLS of one listener while it runs: its context is replaced when its certificates change.

A new context holds for new connections; open ones keep what they were made with. Whatever cannot be
read or would make the listener somebody else leaves the old one in place, and is told.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from klamm.broker.identity.contexts import as_client, handshake_fault, server_context
from klamm.broker.identity.stores import Material, Stamp, read_material, stamp_of
from klamm.client.security import Security
from klamm.model.errors import Refused
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.listeners.reconfiguration import certificate_fault
from klamm.security.tls.config import TlsConfig, tls_config


@dataclass(frozen=True, slots=True)
class Tls:
    """Everything of one listener's TLS that belongs together."""

    config: TlsConfig
    material: Material
    context: ssl.SSLContext
    as_client: Security  # without a login
    stamp: Stamp

    @property
    def is_stale(self) -> bool:
        """Whether a file has changed since it was read. It looks at files."""
        return stamp_of(self.config) != self.stamp


def read_tls(settings: ListenerSettings, *, between_brokers: bool) -> Tls | Refused:
    """Reads the TLS of a listener. It opens files: not for a loop."""
    config = tls_config(settings)
    if isinstance(config, Refused):
        return config
    stamp = stamp_of(config)
    material = read_material(config)
    if isinstance(material, Refused):
        return material
    context = server_context(config, material)
    if isinstance(context, Refused):
        return context
    client = as_client(settings.protocol.value, config, material)
    if between_brokers and (why := handshake_fault(client, context)):
        return Refused(
            "A client SSLEngine created with the provided settings can't connect to a server "
            f"SSLEngine created with those settings. Listener {settings.listener}: {why}"
        )
    return Tls(config, material, context, client, stamp)


def replacement_fault(
    old: Tls, new: Tls, settings: ListenerSettings, *, between_brokers: bool
) -> Refused | None:
    """The reason why a running listener cannot go on with other certificates."""
    refused = certificate_fault(
        old.material.facts,
        new.material.facts,
        allow_subject=_is_true(settings, "ssl.allow.dn.changes"),
        allow_names=_is_true(settings, "ssl.allow.san.changes"),
    )
    if refused is not None or not between_brokers:
        return refused
    # Brokers change one after the other: those before and behind have to understand each other.
    why = handshake_fault(old.as_client, new.context) or handshake_fault(new.as_client, old.context)
    if why is None:
        return None
    return Refused(
        f"the brokers that still have the old certificates would not take the new ones: {why}"
    )


def _is_true(settings: ListenerSettings, name: str) -> bool:
    return (settings.get(name) or "").strip().lower() == "true"
