"""Java's own key stores (JKS), read: keys and certificates by alias.

A store ends with a digest over a password and all that comes before. A key is hidden by a stream of
digests over its own password, and checked the same way. Both are of 1996: a store is worth as much
as the permissions of its file.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final

from klamm.model.errors import Refused
from klamm.security.secret import Secret
from klamm.security.tls.names import elements

MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = (1, 2)
_KEY, _CERTIFICATE = 1, 2
_DIGEST: Final = 20
_ENTRIES_MAX: Final = 10_000
_WHITENER: Final = b"Mighty Aphrodite"
_SPOILT: Final = Refused("it is cut off or spoilt")


@dataclass(frozen=True, slots=True)
class JksKey:
    """A private key in PKCS#8 and its chain, all in DER."""

    alias: str
    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JksStore:
    """The content of a store; keys are still hidden by their own passwords."""

    certificates: tuple[bytes, ...]  # of those who are trusted
    _hidden: tuple[JksKey, ...] = field(repr=False)

    def keys(self, password: Secret) -> tuple[JksKey, ...] | Refused:
        """The private keys, opened."""
        opened = []
        for one in self._hidden:
            key = _opened(one.key, password)
            if isinstance(key, Refused):
                return Refused(f"the key {one.alias!r}: {key.why}")
            opened.append(JksKey(one.alias, key, one.chain))
        return tuple(opened)


def read_jks(data: bytes, password: Secret | None) -> JksStore | Refused:
    """Reads a store; without a password nobody checks whether it was changed."""
    if data[:4] != MAGIC:
        return Refused("it is no JKS")
    if password is not None and not _is_whole(data, password):
        return Refused("the password is wrong, or the store was changed")
    try:
        return _read(_Reader(data[:-_DIGEST], 4))
    except (ValueError, IndexError, struct.error):
        return _SPOILT


class _Reader:
    """Numbers and pieces, one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def piece(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError("cut off")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.piece(size), "big")

    def text(self) -> str:
        return self.piece(self.number(2)).decode("utf-8", "backslashreplace")

    def certificate(self, version: int) -> bytes:
        kind = self.text() if version == 2 else "X.509"
        data = self.piece(self.number())
        if kind != "X.509":
            raise ValueError("a certificate of another kind")
        return data


def _read(reader: _Reader) -> JksStore | Refused:
    version, count = reader.number(), reader.number()
    if version not in _VERSIONS:
        return Refused(f"it is a JKS of version {version}, which nobody knows")
    if count > _ENTRIES_MAX:
        return Refused(f"it claims {count} entries")
    trusted: list[bytes] = []
    hidden: list[JksKey] = []
    for _ in range(count):
        kind, alias, _ = reader.number(), reader.text(), reader.number(8)
        if kind == _KEY:
            key = reader.piece(reader.number())
            size = reader.number()
            if size > _ENTRIES_MAX:
                return _SPOILT
            chain = tuple(reader.certificate(version) for _ in range(size))
            hidden.append(JksKey(alias, key, chain))
        elif kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        else:
            return _SPOILT
    return JksStore(tuple(trusted), tuple(hidden))


def _bytes(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be", "surrogatepass")


def _is_whole(data: bytes, password: Secret) -> bool:
    digest = hashlib.sha1(_bytes(password) + _WHITENER + data[:-_DIGEST], usedforsecurity=False)
    return hmac.compare_digest(digest.digest(), data[-_DIGEST:])


def _opened(protected: bytes, password: Secret) -> bytes | Refused:
    """The key in an EncryptedPrivateKeyInfo of Sun's own algorithm."""
    try:
        ((_, body, _),) = elements(protected)
        _, (_, hidden, _) = elements(body)
    except (ValueError, IndexError):
        return _SPOILT
    salt, size = hidden[:_DIGEST], len(hidden) - 2 * _DIGEST
    if size <= 0:
        return _SPOILT
    secret, stream, block = _bytes(password), b"", salt
    while len(stream) < size:
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(hidden[_DIGEST : _DIGEST + size], stream, strict=False))
    check = hashlib.sha1(secret + key, usedforsecurity=False).digest()
    if not hmac.compare_digest(check, hidden[-_DIGEST:]):
        return Refused("its password (ssl.key.password) is wrong")
    return key
