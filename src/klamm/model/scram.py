"""The arithmetic of SCRAM (RFC 5802, RFC 7677), which both ends of a login do.

Kafka prepares neither names nor passwords: what was typed is what is hashed, as UTF-8.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ScramMechanism(StrEnum):
    """The two that Kafka has."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def digest(self) -> str:
        """The hash, by the name that `hashlib` knows."""
        return _DIGESTS[self]

    @property
    def size(self) -> int:
        """The number of bytes of the hash."""
        return hashlib.new(self.digest).digest_size


_DIGESTS: Final[Mapping[ScramMechanism, str]] = {
    ScramMechanism.SHA_256: "sha256",
    ScramMechanism.SHA_512: "sha512",
}
# What Kafka takes as the number of rounds: fewer are guessed too quickly.
ROUNDS_MIN: Final = 4096


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, rounds: int) -> bytes:
    """The password, made slow to guess. It takes milliseconds: not for a loop."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, rounds)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """The key that a client proves to have."""
    return hmac.digest(salted, b"Client Key", mechanism.digest)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """The key that a server proves to have."""
    return hmac.digest(salted, b"Server Key", mechanism.digest)


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """The part of a client's key that a server keeps."""
    return hashlib.new(mechanism.digest, key).digest()


def signature(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    """The signature of a message under a key."""
    return hmac.digest(key, message, mechanism.digest)


def proof(mechanism: ScramMechanism, salted: bytes, message: bytes) -> bytes:
    """The proof that a client shows."""
    key = client_key(mechanism, salted)
    return xor(key, signature(mechanism, stored_key(mechanism, key), message))


def xor(left: bytes, right: bytes) -> bytes:
    """Both, bit by bit; of equal length."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
