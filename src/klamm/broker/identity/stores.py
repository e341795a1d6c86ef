"""Key and trust stores, read from files or settings into PEM.

Whatever the format, what comes out is what OpenSSL takes: one private key with its chain, and the
certificates of those who are trusted. Whoever asks is told in a sentence which store cannot be
read, and why; never what is in it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from klamm.model.errors import Refused
from klamm.security.listeners.reconfiguration import CertificateFacts
from klamm.security.secret import Secret
from klamm.security.tls.certificates import end_of, facts_of
from klamm.security.tls.config import InlineKey, InlineTrust, StoreFile, StoreType, TlsConfig
from klamm.security.tls.stores import key_in, trust_in

_SIZE_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All that a listener shows and trusts."""

    key: str = field(repr=False)  # PKCS#8 in PEM
    key_password: Secret | None
    chain: str
    trust: str | None  # None: whom the machine trusts
    facts: CertificateFacts
    ends_s: int  # of the certificate that is shown, in seconds of Unix


Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(config: TlsConfig) -> Stamp:
    """The marks by which changed files are told from those that were read."""
    stores = (config.key, config.trust)
    files = [store.location for store in stores if isinstance(store, StoreFile)]
    return tuple(map(_stamp, [*files, config.revoked] if config.revoked else files))


def _stamp(location: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(location)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_material(config: TlsConfig) -> Material | Refused:
    """Reads all stores of a listener. It opens files: not for a loop."""
    key = _key(config.key)
    if isinstance(key, Refused):
        return key
    trust = _trust(config.trust)
    if isinstance(trust, Refused):
        return trust
    first = next(iter(_ders(key.pem.chain)))
    facts = facts_of([first])
    if isinstance(facts, Refused):
        return facts
    ends_s = end_of(first)
    if isinstance(ends_s, Refused):
        return ends_s
    return Material(
        key=key.pem.key,
        key_password=key.key_password,
        chain=key.pem.chain,
        trust=trust,
        facts=facts,
        ends_s=ends_s,
    )


def _key(store: StoreFile | InlineKey) -> InlineKey | Refused:
    if isinstance(store, InlineKey):
        return store
    data = _content(store, "keystore")
    if isinstance(data, Refused):
        return data
    found = key_in(store, data)
    return _unfit(store, "keystore", found) if isinstance(found, Refused) else found


def _trust(store: StoreFile | InlineTrust | None) -> str | Refused | None:
    if store is None or isinstance(store, InlineTrust):
        return None if store is None else store.certificates
    data = _content(store, "truststore")
    if isinstance(data, Refused):
        return data
    found = trust_in(store, data)
    return _unfit(store, "truststore", found) if isinstance(found, Refused) else found


def _content(store: StoreFile, what: str) -> bytes | Refused:
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(_SIZE_MAX + 1)
    except OSError as fault:
        return _failed(store, what, Refused(fault.strerror or type(fault).__name__))
    if len(data) > _SIZE_MAX:
        return _failed(store, what, Refused(f"it has more than {_SIZE_MAX} bytes"))
    return data


def _unfit(store: StoreFile, what: str, refused: Refused) -> Refused:
    if store.type is StoreType.PEM:
        return Refused(f"Failed to load PEM SSL {what} {store.location}: {refused.why}")
    return _failed(store, what, refused)


def _failed(store: StoreFile, what: str, refused: Refused) -> Refused:
    return Refused(
        f"Failed to load SSL {what} {store.location} of type {store.type}: {refused.why}"
    )


def _ders(chain: str) -> Iterable[bytes]:
    end = "-----END CERTIFICATE-----"
    for part in chain.split(end)[:-1]:
        yield ssl.PEM_cert_to_DER_cert(part.strip() + "\n" + end)
