"""Names in certificates: Java's spelling of RFC 2253."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from klamm.model.errors import Refused
from klamm.security.tls.names import name_text


def name(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes]).public_bytes()


def test_most_specific_first_with_keywords() -> None:
    der = name(
        (NameOID.COUNTRY_NAME, "CZ"),
        (NameOID.ORGANIZATION_NAME, "ACME, Inc"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Data"),
        (NameOID.COMMON_NAME, "kafka-1"),
    )
    assert name_text(der) == r"CN=kafka-1,OU=Data,O=ACME\, Inc,C=CZ"


def test_every_keyword() -> None:
    oids = {
        "CN": NameOID.COMMON_NAME, "L": NameOID.LOCALITY_NAME, "ST": NameOID.STATE_OR_PROVINCE_NAME,
        "O": NameOID.ORGANIZATION_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
        "STREET": NameOID.STREET_ADDRESS, "DC": NameOID.DOMAIN_COMPONENT, "UID": NameOID.USER_ID,
    }  # fmt: skip
    for keyword, oid in oids.items():
        assert name_text(name((oid, "x"))) == f"{keyword}=x"


def test_other_attributes_are_numbers_and_raw_values() -> None:
    der = name((NameOID.EMAIL_ADDRESS, "a@b.c"))
    assert name_text(der) == "1.2.840.113549.1.9.1=#16056140622e63"
    assert name_text(name((NameOID.SERIAL_NUMBER, "42"))) == "2.5.4.5=#13023432"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a+b<c>d;e"f\\g#h=i', r"a\+b\<c\>d\;e\"f\\g\#h\=i"),
        (" a b ", r"\ a b\ "),
        ("grüße", "grüße"),
    ],
)
def test_escapes(value: str, text: str) -> None:
    assert name_text(name((NameOID.COMMON_NAME, value))) == f"CN={text}"


def test_several_attributes_in_one_part() -> None:
    part = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
    )
    told = name_text(x509.Name([part]).public_bytes())
    assert isinstance(told, str)
    assert sorted(told.split("+")) == ["CN=a", "UID=b"]


@pytest.mark.parametrize(
    "der", [b"", b"\x30", b"\x30\x05\x00", b"\x30\x84\xff\xff\xff\xff", b"\x31\x00"]
)
def test_nonsense_is_refused(der: bytes) -> None:
    assert isinstance(name_text(der), Refused)


def test_any_cut_of_a_name_is_refused_or_read_but_never_raises() -> None:
    der = name((NameOID.COUNTRY_NAME, "CZ"), (NameOID.COMMON_NAME, "kafka"))
    for end in range(len(der)):
        assert isinstance(name_text(der[:end]), Refused)
    for at in range(len(der)):
        name_text(der[:at] + b"\xff" + der[at + 1 :])
