"""TLS contexts of a listener: for those who come, and for this broker when it goes to others."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from klamm.broker.identity.stores import Material
from klamm.client.security import Security, tls
from klamm.model.errors import Refused
from klamm.security.tls.config import ClientAuth, TlsConfig

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_ASKING: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
# More messages than any handshake has.
_STEPS_MAX: Final = 20


def server_context(config: TlsConfig, material: Material) -> ssl.SSLContext | Refused:
    """The context for those who come. It reads a file of its own making: not for a loop."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    spoken = sorted(_VERSIONS[name] for name in config.versions)
    context.minimum_version, context.maximum_version = spoken[0], spoken[-1]
    # Nobody makes a broker shake hands again and again on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_SINGLE_ECDH_USE
    try:
        if config.ciphers is not None:
            context.set_ciphers(config.ciphers)
        with _as_file(material.chain + material.key) as path:
            password = material.key_password
            context.load_cert_chain(path, password=password.reveal() if password else "")
        if config.client_auth is not ClientAuth.NONE:
            _trust(context, material.trust)
        if config.revoked is not None:
            # Whose authority has no list that holds is refused as well.
            context.load_verify_locations(config.revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (OSError, ValueError) as fault:
        return Refused(f"the key and its certificate cannot be used: {_why(fault)}")
    context.verify_mode = _ASKING[config.client_auth]
    if config.client_auth is not ClientAuth.NONE:
        # A resumed session would not be checked against certificates that changed since.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def _trust(context: ssl.SSLContext, trusted: str | None) -> None:
    if trusted is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    else:
        context.load_verify_locations(cadata=trusted)


def _why(fault: Exception) -> str:
    if isinstance(fault, ssl.SSLError) and fault.reason:
        return fault.reason.replace("_", " ").lower()
    return str(fault)


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """OpenSSL reads keys from files only: one in memory, where the system has such."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("klamm-key", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as named:
        named.write(text)
        named.flush()
        yield named.name


def as_client(protocol: str, config: TlsConfig, material: Material) -> Security:
    """The security with which this broker goes to another on the same listener."""
    password = material.key_password
    return Security(
        protocol=protocol,
        trusted=material.trust,
        certificate=material.chain,
        key=material.key,
        key_password=password.reveal() if password else None,
        checks_name=config.checks_host,
        tls_versions=config.versions,
        ciphers=config.ciphers,
    )


def handshake_fault(client: Security, server: ssl.SSLContext) -> str | None:
    """The reason why one side would not take the other; tried in memory, whatever the names."""
    theirs = tls.context_of(client, checks_name=False)
    ways = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    sides = [
        theirs.wrap_bio(ways[0], ways[1], server_side=False),
        server.wrap_bio(ways[1], ways[0], server_side=True),
    ]
    left = list(sides)
    for _ in range(_STEPS_MAX):
        for side in list(left):
            try:
                side.do_handshake()
                left.remove(side)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as fault:
                return _why(fault)
        if not left:
            return _last_words(sides[0])
    return "the handshake does not end"


def _last_words(client: ssl.SSLObject) -> str | None:
    """With TLS 1.3 a client hears after its handshake that its certificate is not taken."""
    try:
        client.read(1)
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError as fault:
        return _why(fault)
    return None
