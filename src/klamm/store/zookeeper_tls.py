"""TLS to ZooKeeper: what is shown and trusted, read from its files.

No key is ever written to a disk: OpenSSL, which reads files only, gets one in memory.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from klamm.model.errors import Refused, UsageError
from klamm.security.tls.config import ClientTls, StoreFile
from klamm.security.tls.stores import key_in, trust_in

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SIZE_MAX: Final = 16 << 20


def context_of(tls: ClientTls) -> ssl.SSLContext:
    """The context of a client; UsageError says what is wrong with a file."""
    # Where something is named, only that is trusted, not what the machine trusts besides.
    trusted = None if tls.trust is None else _trusted(tls.trust)
    try:
        context = ssl.create_default_context(cadata=trusted)
        versions = sorted(_VERSIONS[name] for name in tls.versions)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        if tls.ciphers:
            context.set_ciphers(tls.ciphers)
    except ssl.SSLError as fault:
        source = "zookeeper.ssl.*" if tls.trust is None else tls.trust.location
        raise UsageError(f"{source}: no TLS can be made of it, {fault.reason}") from fault
    context.check_hostname = tls.checks_host
    if tls.key is not None:
        _show(context, tls.key)
    return context


def _trusted(store: StoreFile) -> str:
    found = trust_in(store, _read(store))
    if isinstance(found, Refused):
        raise UsageError(f"{store.location} of type {store.type} cannot be trusted: {found.why}")
    return found


def _show(context: ssl.SSLContext, store: StoreFile) -> None:
    found = key_in(store, _read(store))
    if isinstance(found, Refused):
        raise UsageError(
            f"{store.location} of type {store.type} cannot be shown to ZooKeeper: {found.why}"
        )
    password = "" if found.key_password is None else found.key_password.reveal()
    try:
        with _in_memory(f"{found.pem.key}{found.pem.chain}".encode()) as name:
            context.load_cert_chain(name, password=password)
    except (OSError, ValueError) as fault:  # what is no key is an OSError, too
        raise UsageError(
            f"{store.location} cannot be shown to ZooKeeper: its key and certificate do not fit, "
            "or the password is wrong"
        ) from fault


def _read(store: StoreFile) -> bytes:
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(_SIZE_MAX + 1)
    except OSError as error:
        raise UsageError(f"{store.location} cannot be read: {error.strerror}") from error
    if len(data) > _SIZE_MAX:
        raise UsageError(f"{store.location} has more than {_SIZE_MAX} bytes: it is no such store")
    return data


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A file that is on no disk and that nobody else can open."""
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
