"""Proofs that are shown to ZooKeeper on each connection, and those that are asked of it."""

from __future__ import annotations

import importlib.util
import logging
import ssl
from collections import deque
from typing import Any, Final

from klamm.installing import install_command
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.security.zookeeper import ZooKeeperAccess
from klamm.store.zookeeper_sockets import QuickHandler
from klamm.store.zookeeper_tls import context_of

# What kazoo would tell at DEBUG are requests and answers: digests, and what secret nodes hold.
_LOG: Final = logging.getLogger("kazoo.klamm")
_LOG.addFilter(lambda record: record.levelno >= logging.INFO)
# A session without any protection.
_NO_ACCESS: Final = ZooKeeperAccess()


class ZooKeeperDistrusted(StoreUnavailable):
    """A server was reached, and TLS with it failed."""


class ZooKeeperDoor:
    """Proofs that are shown to ZooKeeper on each connection, and those that are asked of it."""

    def __init__(self, access: ZooKeeperAccess = _NO_ACCESS, digest: str = "") -> None:
        """UsageError where a file cannot be read, or a package is missing."""
        self.sets_acl: Final = access.sets_acl
        self._access = access
        self._digest = digest
        self._context = None if access.tls is None else context_of(access.tls)
        self._faults: deque[str] = deque(maxlen=1)
        if access.user and importlib.util.find_spec("puresasl") is None:
            raise UsageError(f"SASL to ZooKeeper needs pure-sasl: {install_command('zookeeper')}")

    @property
    def is_somebody(self) -> bool:
        """Whether ZooKeeper gets to know who we are."""
        return bool(self._digest) or self._access.is_somebody

    @property
    def logs_in(self) -> bool:
        """Whether there is a login that can be refused."""
        return bool(self._access.user)

    def options(self) -> dict[str, Any]:
        """The options of one client of kazoo's."""
        options: dict[str, Any] = {"logger": _LOG}
        if self._digest:
            options["auth_data"] = [("digest", self._digest)]
        if self._access.user and self._access.password is not None:
            options["sasl_options"] = {
                "mechanism": "DIGEST-MD5",
                "username": self._access.user,
                "password": self._access.password.reveal(),
            }
        context, faults = self._context, self._faults
        options["handler"] = QuickHandler() if context is None else _TlsHandler(context, faults)
        return options

    def distrust(self) -> str | None:
        """The reason why the last handshake failed, or None."""
        return self._faults[0] if self._faults else None


class _TlsHandler(QuickHandler):
    """kazoo's threads, with connections that are encrypted as we say."""

    def __init__(self, context: ssl.SSLContext, faults: deque[str]) -> None:
        super().__init__()
        self._context = context
        self._faults = faults

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> ssl.SSLSocket:
        plain = self.connect(address=address, timeout=timeout)
        try:
            secured = self._context.wrap_socket(plain, server_hostname=hostname)
        except OSError as fault:
            plain.close()
            self._faults.append(_words(fault))
            raise
        self._faults.clear()
        return secured


def _words(fault: OSError) -> str:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted, {fault.verify_message} "
            "(zookeeper.ssl.truststore.location)"
        )
    if isinstance(fault, ssl.SSLError):
        reason = (fault.reason or str(fault)).replace("_", " ").lower()
        return f"{reason}; is it a port for TLS (secureClientPort)?"
    return f"TLS failed: {fault.strerror or fault}; is it a port for TLS (secureClientPort)?"
