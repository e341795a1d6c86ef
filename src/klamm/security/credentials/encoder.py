"""`password.encoder.*`: secrets among dynamic settings, as Kafka keeps them in the store.

A value carries all it was made with but the secret: PBKDF2 makes a key of the secret and a salt,
and AES in CBC or GCM hides the text. Values of either kind are read, whatever is written; what
cannot be read is refused and never taken for a password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import Refused
from klamm.security.secret import Secret

CBC: Final = "AES/CBC/PKCS5Padding"
GCM: Final = "AES/GCM/NoPadding"
_DIGESTS: Final = {
    "PBKDF2WithHmacSHA512": "sha512",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA1": "sha1",
}
_KEY_BITS: Final = (128, 192, 256)
SALT_SIZE: Final = 256
VECTOR_SIZES: Final = {CBC: 16, GCM: 12}
_TAG_SIZE: Final = 16
_ROUNDS_MIN: Final = 1024
_ROUNDS_MAX: Final = 10_000_000
_VALUE_SIZE_MAX: Final = 4 << 20
_FAILED: Final = Refused("Password could not be decoded")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings:
    """The way new values are written."""

    secret: Secret
    key_factory: str = "PBKDF2WithHmacSHA512"
    cipher: str = CBC
    key_bits: int = 128
    rounds: int = 4096


def settings_fault(key_factory: str, cipher: str, key_bits: int, rounds: int) -> Refused | None:
    """The reason why values cannot be written in this way."""
    if key_factory not in _DIGESTS:
        return Refused(
            f"password.encoder.keyfactory.algorithm is one of {', '.join(_DIGESTS)}, "
            f"not {key_factory}"
        )
    if cipher not in VECTOR_SIZES:
        return Refused(
            f"password.encoder.cipher.algorithm is one of {', '.join(VECTOR_SIZES)}, not {cipher}"
        )
    if key_bits not in _KEY_BITS:
        return Refused(f"password.encoder.key.length is 128, 192 or 256, not {key_bits}")
    if not _ROUNDS_MIN <= rounds <= _ROUNDS_MAX:
        return Refused(
            f"password.encoder.iterations is between {_ROUNDS_MIN} and {_ROUNDS_MAX}, not {rounds}"
        )
    return None


def encode_password(settings: EncoderSettings, password: Secret, entropy: bytes) -> str:
    """The value for the store; `entropy` is the salt and the initialization vector."""
    salt, vector = entropy[:SALT_SIZE], entropy[SALT_SIZE:]
    assert len(vector) == VECTOR_SIZES[settings.cipher], "a salt and a vector of random bytes"
    text = password.reveal()
    key = _key(settings.secret, settings.key_factory, salt, settings.rounds, settings.key_bits)
    fields = {
        "keyFactoryAlgorithm": settings.key_factory,
        "cipherAlgorithm": settings.cipher,
        "keyLength": str(settings.key_bits),
        "salt": _text(salt),
        "iterations": str(settings.rounds),
        "encryptedPassword": _text(_encrypt(settings.cipher, key, vector, text.encode())),
        "passwordLength": str(_length(text)),
        "initializationVector": _text(vector),
    }
    if settings.cipher == GCM:
        fields["authenticationTagLength"] = str(_TAG_SIZE * 8)
    return ",".join(f"{name}:{value}" for name, value in fields.items())


def decode_password(secret: Secret, value: str) -> Secret | Refused:
    """The password in a value of Kafka's or ours."""
    if len(value) > _VALUE_SIZE_MAX:
        return _FAILED
    pairs = [part.strip().rpartition(":") for part in value.split(",")]
    fields = {name: text for name, _, text in pairs}
    try:
        text = _decrypted(secret, fields).decode()
        if _length(text) != int(fields["passwordLength"]):
            return _FAILED
    except (KeyError, ValueError, binascii.Error):
        return _FAILED
    return Secret(text)


def decode_any(
    secret: Secret, old_secret: Secret | None, value: str
) -> tuple[Secret, bool] | Refused:
    """The password, and whether it has to be written anew because only the old secret opens it."""
    read = decode_password(secret, value)
    if not isinstance(read, Refused):
        return read, False
    if old_secret is not None:
        older = decode_password(old_secret, value)
        if not isinstance(older, Refused):
            return older, True
    return read


def _decrypted(secret: Secret, fields: Mapping[str, str]) -> bytes:
    rounds, bits = int(fields["iterations"]), int(fields["keyLength"])
    factory, cipher = fields["keyFactoryAlgorithm"], fields["cipherAlgorithm"]
    if settings_fault(factory, cipher, bits, rounds):
        raise ValueError("a value that was made in another way")
    key = _key(secret, factory, _bytes(fields["salt"]), rounds, bits)
    vector, hidden = _bytes(fields["initializationVector"]), _bytes(fields["encryptedPassword"])
    if cipher == GCM and int(fields.get("authenticationTagLength", "128")) != _TAG_SIZE * 8:
        raise ValueError("a tag that is too short to be believed")
    return _decrypt(cipher, key, vector, hidden)


def _key(secret: Secret, factory: str, salt: bytes, rounds: int, bits: int) -> bytes:
    password = secret.reveal().encode()
    return hashlib.pbkdf2_hmac(_DIGESTS[factory], password, salt, rounds, bits // 8)


def _encrypt(cipher: str, key: bytes, vector: bytes, plain: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if cipher == GCM:
        return AESGCM(key).encrypt(vector, plain, None)
    missing = 16 - len(plain) % 16
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return encryptor.update(plain + bytes([missing]) * missing) + encryptor.finalize()


def _decrypt(cipher: str, key: bytes, vector: bytes, hidden: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if cipher == GCM:
        try:
            return AESGCM(key).decrypt(vector, hidden, None)
        except InvalidTag:
            raise ValueError("another secret, or a changed value") from None
    decryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
    padded = decryptor.update(hidden) + decryptor.finalize()
    missing = padded[-1] if padded else 0
    if not 1 <= missing <= 16 or padded[-missing:] != bytes([missing]) * missing:
        raise ValueError("bad padding")
    return padded[:-missing]


def _length(text: str) -> int:
    """The number of characters as Java counts them: those beyond 16 bits are two."""
    return len(text.encode("utf-16-be")) // 2


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
