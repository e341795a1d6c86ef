"""Passwords in the store: Kafka's form, both ciphers, another secret."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from klamm.model.errors import Refused
from klamm.security.credentials.encoder import (
    CBC,
    GCM,
    SALT_SIZE,
    VECTOR_SIZES,
    EncoderSettings,
    decode_any,
    decode_password,
    encode_password,
    settings_fault,
)
from klamm.security.secret import Secret

WORD = Secret("geheim, 🔑: ")
NEW, OLD = Secret("encoder-secret"), Secret("old-secret")


def encoded(cipher: str = CBC, secret: Secret = NEW, word: Secret = WORD) -> str:
    settings = EncoderSettings(secret=secret, cipher=cipher, rounds=1024)
    return encode_password(settings, word, bytes(range(16)) * 16 + b"v" * VECTOR_SIZES[cipher])


@pytest.mark.parametrize("cipher", [CBC, GCM])
def test_password_comes_back(cipher: str) -> None:
    for word in (WORD, Secret("x" * 16), Secret("a")):
        assert decode_password(NEW, encoded(cipher, word=word)) == word
    assert WORD.reveal() not in encoded(cipher)


def test_text_is_kafkas() -> None:
    fields = dict(part.rsplit(":", 1) for part in encoded(GCM).split(","))
    assert list(fields) == [
        "keyFactoryAlgorithm", "cipherAlgorithm", "keyLength", "salt", "iterations",
        "encryptedPassword", "passwordLength", "initializationVector", "authenticationTagLength",
    ]  # fmt: skip
    assert fields["keyFactoryAlgorithm"] == "PBKDF2WithHmacSHA512"
    # Java counts the key as two characters.
    assert fields["passwordLength"] == "12"
    assert fields["authenticationTagLength"] == "128"
    assert SALT_SIZE == 256


def test_order_of_the_fields_has_no_meaning() -> None:
    assert decode_password(NEW, ",".join(reversed(encoded().split(",")))) == WORD


@pytest.mark.parametrize("cipher", [CBC, GCM])
def test_other_secret_opens_nothing(cipher: str) -> None:
    told = decode_password(OLD, encoded(cipher))
    assert told == Refused("Password could not be decoded")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        encoded().replace("iterations:1024", "iterations:99999999"),
        encoded().replace("iterations:1024", "iterations:x"),
        encoded().replace("keyLength:128", "keyLength:8"),
        encoded().replace("passwordLength:12", "passwordLength:11"),
        encoded().replace(CBC, "DES/CBC/PKCS5Padding"),
        encoded(GCM).replace("TagLength:128", "TagLength:32"),
        encoded().replace("salt:", "salt:!"),
        encoded().replace("initializationVector:", "initializationVector:AA"),
        "x" * (5 << 20),
    ],
)
def test_nonsense_is_no_password(value: str) -> None:
    assert isinstance(decode_password(NEW, value), Refused)


def test_changed_value_is_noticed_with_gcm() -> None:
    head, tail = encoded(GCM).split("encryptedPassword:")
    assert isinstance(decode_password(NEW, f"{head}encryptedPassword:AAAA{tail[4:]}"), Refused)


def test_rotation() -> None:
    assert decode_any(NEW, OLD, encoded()) == (WORD, False)
    assert decode_any(NEW, OLD, encoded(secret=OLD)) == (WORD, True)
    assert isinstance(decode_any(NEW, None, encoded(secret=OLD)), Refused)


def test_settings_are_checked() -> None:
    good = EncoderSettings(secret=NEW)
    assert "encoder-secret" not in repr(good)

    def fault(**changes: object) -> Refused | None:
        one = replace(good, **changes)  # type: ignore[arg-type]
        return settings_fault(one.key_factory, one.cipher, one.key_bits, one.rounds)

    assert fault() is None
    for change in ({"key_factory": "MD5"}, {"cipher": "DES"}, {"key_bits": 64}, {"rounds": 1023}):
        assert fault(**change) is not None


@pytest.mark.parametrize(
    ("cipher", "hidden", "vector"),
    [
        (CBC, "l2GihNQO7WTg+xkA83dalA==", "1BqIMXcN1h2VdW3mBqKrSQ=="),
        (GCM, "AQdZSjwVys9Yl+6jA73JuZC2TsT00+0=", "C4GUdLGh91ZUX/zP"),
    ],
)
def test_value_made_by_java_is_opened(cipher: str, hidden: str, vector: str) -> None:
    salt = base64.b64encode(bytes(range(256))).decode()
    value = (
        f"keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:{cipher},keyLength:128,"
        f"salt:{salt},iterations:4096,encryptedPassword:{hidden},passwordLength:6,"
        f"initializationVector:{vector}"
    )
    assert decode_password(NEW, value) == Secret("gehéim")
