"""The guards of a broker's listeners, made of settings."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Final

from klamm.broker.identity.counts import LoginCounts
from klamm.broker.identity.login import Desk, Login
from klamm.broker.identity.tls import Tls
from klamm.broker.net.guard import Gate
from klamm.broker.net.peer import Route
from klamm.client.security import Security
from klamm.model.errors import Refused
from klamm.repeats import limited
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.tls.certificates import subject_of
from klamm.security.tls.mapping import MappingRules
from klamm.security.tls.principals import certificate_principal

log = limited(logging.getLogger(__name__), first=1)

# OpenSSL's words for bytes that are no handshake.
_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "UNKNOWN_PROTOCOL"}
)


class ListenerGuard:
    """The guard of one listener that is not PLAINTEXT."""

    def __init__(
        self,
        settings: ListenerSettings,
        *,
        tls: Tls | None,
        rules: MappingRules,
        desk: Desk | None,
        counts: LoginCounts,
        log_in: Callable[[Security], Security],
    ) -> None:
        self.settings = settings
        self._tls = tls
        self._rules = rules
        self._desk = desk
        self._counts = counts
        self._log_in = log_in

    @property
    def tls(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls.context

    @property
    def material(self) -> Tls | None:
        """All of its TLS, as it is now."""
        return self._tls

    def renew(self, tls: Tls, settings: ListenerSettings) -> None:
        """Show and trust other certificates from the next connection on."""
        self._tls, self.settings = tls, settings

    @property
    def as_client(self) -> Security:
        """The security with which this broker goes to another one on this listener."""
        bare = Security(protocol=self.settings.protocol.value)
        return self._log_in(bare if self._tls is None else self._tls.as_client)

    def principal(self, certificate: bytes | None) -> str | Refused:
        subject = None if certificate is None else subject_of(certificate)
        if isinstance(subject, Refused):
            return subject
        found = certificate_principal(subject, self._rules)
        if isinstance(found, Refused):
            self._counts.failed(self.settings.listener)
            return found
        self._counts.logged_in(self.settings.listener, again=False, can_repeat=True)
        return found.text

    def gate(self, route: Route) -> Gate | None:
        return None if self._desk is None else Login(self._desk, route)

    def handshake_failed(self, address: str, fault: OSError) -> None:
        self._counts.failed(self.settings.listener)
        log.warning(
            "Failed authentication (SSL handshake failed)",
            extra={"client": address, "listener": self.settings.listener, "why": _why(fault)},
        )


def _why(fault: OSError) -> str:
    if not isinstance(fault, ssl.SSLError):
        return str(fault) or "it left in the middle"
    if fault.reason in _NO_TLS:
        return (
            "it speaks no TLS, and this port does; the client needs security.protocol=SSL or "
            "SASL_SSL"
        )
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not taken: {fault.verify_message}"
    if fault.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it shows no certificate, and this listener asks for one (ssl.client.auth)"
    return (fault.reason or str(fault)).replace("_", " ").lower()
