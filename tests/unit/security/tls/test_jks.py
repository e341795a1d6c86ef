"""Java's own stores, written here as Java writes them."""

from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import Refused
from klamm.security.secret import Secret
from klamm.security.tls.jks import MAGIC, JksStore, read_jks

PASSWORD, KEY_PASSWORD = "storé", "key"
KEY, CERTIFICATE = b"a private key of some length" * 9, b"a certificate"


def utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def der(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x82]) + struct.pack(">H", len(content)) + content


def protected(key: bytes, password: str) -> bytes:
    salt = bytes(range(20))
    stream, block = b"", salt
    while len(stream) < len(key):
        block = hashlib.sha1(utf16(password) + block).digest()
        stream += block
    hidden = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    check = hashlib.sha1(utf16(password) + key).digest()
    return der(0x30, der(0x30, b"") + der(0x04, salt + hidden + check))


def store(*entries: bytes, password: str = PASSWORD) -> bytes:
    body = MAGIC + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    return body + hashlib.sha1(utf16(password) + b"Mighty Aphrodite" + body).digest()


def key_entry() -> bytes:
    head = struct.pack(">I", 1) + text("mine") + struct.pack(">Q", 0)
    chain = struct.pack(">I", 1) + text("X.509") + sized(CERTIFICATE)
    return head + sized(protected(KEY, KEY_PASSWORD)) + chain


def trusted_entry() -> bytes:
    head = struct.pack(">I", 2) + text("ca") + struct.pack(">Q", 0)
    return head + text("X.509") + sized(CERTIFICATE)


def test_keys_and_certificates_come_out_as_they_went_in() -> None:
    read = read_jks(store(key_entry(), trusted_entry()), Secret(PASSWORD))
    assert isinstance(read, JksStore)
    assert read.certificates == (CERTIFICATE,)
    keys = read.keys(Secret(KEY_PASSWORD))
    assert not isinstance(keys, Refused)
    assert [(k.alias, k.key, k.chain) for k in keys] == [("mine", KEY, (CERTIFICATE,))]
    assert "private key" not in repr(keys)


def test_trust_is_read_without_a_password() -> None:
    read = read_jks(store(trusted_entry()), None)
    assert isinstance(read, JksStore)
    assert read.certificates == (CERTIFICATE,)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"0" * 40, "it is no JKS"),
        (store(trusted_entry(), password="other"), "the password is wrong"),
        (store(trusted_entry())[:-21] + b"x" * 21, "the password is wrong"),
    ],
)
def test_what_cannot_be_opened_is_told(data: bytes, why: str) -> None:
    told = read_jks(data, Secret(PASSWORD))
    assert isinstance(told, Refused)
    assert why in told.why


def test_a_wrong_password_of_a_key_names_the_setting() -> None:
    read = read_jks(store(key_entry()), Secret(PASSWORD))
    assert isinstance(read, JksStore)
    told = read.keys(Secret("wrong"))
    assert isinstance(told, Refused)
    assert "'mine'" in told.why
    assert "ssl.key.password" in told.why


@given(st.binary(max_size=120))
def test_spoilt_stores_are_refused_and_nothing_else(rest: bytes) -> None:
    assert isinstance(read_jks(MAGIC + rest + bytes(20), None), Refused | JksStore)
