"""Key and trust stores of every format, from the bytes of a file to PEM.

What comes out is what OpenSSL takes: one private key with its chain, or the certificates of those
who are trusted. A refusal says what is wrong with a store, never what is in it.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable
from typing import Final

from klamm.installing import install_command
from klamm.model.errors import Refused
from klamm.security.secret import Secret
from klamm.security.tls import pem
from klamm.security.tls.config import InlineKey, StoreFile, StoreType
from klamm.security.tls.jks import read_jks


def key_in(store: StoreFile, data: bytes) -> InlineKey | Refused:
    """The key and its chain in a store of this content."""
    if store.type is StoreType.PEM:
        text = data.decode("utf-8", "replace")
        read = pem.key_and_chain(text, text, has_password=store.key_password is not None)
        if isinstance(read, Refused):
            return read
        return InlineKey(pem=read, key_password=store.key_password)
    return _pkcs12_key(store, data) if _is_pkcs12(data) else _jks_key(store, data)


def trust_in(store: StoreFile, data: bytes) -> str | Refused:
    """The trusted certificates in a store of this content, at least one."""
    if store.type is StoreType.PEM:
        return pem.certificates(data.decode("utf-8", "replace"))
    return _pkcs12_trust(store, data) if _is_pkcs12(data) else _jks_trust(store, data)


def _is_pkcs12(data: bytes) -> bool:
    """By what is in it: Java's tools write PKCS12 for years, whatever the settings call it."""
    return data[:1] == b"\x30"


def _pkcs12_key(store: StoreFile, data: bytes) -> InlineKey | Refused:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        return _NO_LIBRARY
    try:
        read = pkcs12.load_pkcs12(data, _password(store.password))
    except ValueError:
        return _WRONG
    if read.key is None or read.cert is None:
        return Refused("there is no private key with a certificate in it")
    key = read.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    held = [read.cert, *read.additional_certs]
    ders = [one.certificate.public_bytes(serialization.Encoding.DER) for one in held]
    return InlineKey(pem=pem.PemKey(key, _pems(ders), False))


def _pkcs12_trust(store: StoreFile, data: bytes) -> str | Refused:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        return _NO_LIBRARY
    try:
        read = pkcs12.load_pkcs12(data, _password(store.password))
    except ValueError:
        return _WRONG
    held = [*([read.cert] if read.cert else []), *read.additional_certs]
    ders = [one.certificate.public_bytes(serialization.Encoding.DER) for one in held]
    return _pems(ders) or Refused("there is no certificate in it")


def _jks_key(store: StoreFile, data: bytes) -> InlineKey | Refused:
    read = read_jks(data, store.password)
    if isinstance(read, Refused):
        return read
    assert store.password is not None, "a key store of Java's has a password, or is refused"
    keys = read.keys(store.key_password or store.password)
    if isinstance(keys, Refused):
        return keys
    if len(keys) != 1:
        return Refused(f"there are {len(keys)} private keys in it, where one is needed")
    ((_, key, chain),) = ((one.alias, one.key, one.chain) for one in keys)
    if not chain:
        return Refused("its private key has no certificate")
    return InlineKey(pem=pem.PemKey(_block("PRIVATE KEY", key), _pems(chain), False))


def _jks_trust(store: StoreFile, data: bytes) -> str | Refused:
    read = read_jks(data, store.password)
    if isinstance(read, Refused):
        return read
    return _pems(read.certificates) or Refused("there is no trusted certificate in it")


def _password(secret: Secret | None) -> bytes | None:
    return None if secret is None else secret.reveal().encode()


def _block(label: str, der: bytes) -> str:
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def _pems(ders: Iterable[bytes]) -> str:
    return "".join(_block("CERTIFICATE", der) for der in ders)


_WRONG: Final = Refused("the password is wrong, or it is no PKCS12")
_NO_LIBRARY: Final = Refused(f"PKCS12 needs a library, or use PEM: {install_command('secure')}")
