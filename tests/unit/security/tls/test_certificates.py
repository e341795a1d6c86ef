"""Facts of certificates, read without a library."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest
import trustme
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import Refused
from klamm.security.tls.certificates import alternative_names, end_of, facts_of, subject_of
from klamm.security.tls.names import name_text


@pytest.fixture(scope="module")
def der() -> bytes:
    made = trustme.CA().issue_cert("k1.example", "10.0.0.7", "::1", common_name="k1")
    return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())


def test_the_subject_is_what_a_library_reads(der: bytes) -> None:
    found = subject_of(der)
    assert found == x509.load_der_x509_certificate(der).subject.public_bytes()
    assert isinstance(found, bytes)
    text = name_text(found)
    assert isinstance(text, str)
    assert text.startswith("CN=k1,")


def test_alternative_names_are_those_of_the_certificate(der: bytes) -> None:
    assert alternative_names(der) == {"DNS:k1.example", "IP:10.0.0.7", "IP:::1"}


def test_the_facts_of_a_store_have_one_entry_each(der: bytes) -> None:
    facts = facts_of([der, der])
    assert not isinstance(facts, Refused)
    assert len(facts.subjects) == len(facts.names) == 2


def test_a_certificate_ends_when_a_library_says(der: bytes) -> None:
    ends = x509.load_der_x509_certificate(der).not_valid_after_utc
    assert end_of(der) == ends.timestamp()
    late = trustme.CA().issue_cert("k", not_after=datetime(2091, 2, 3, 4, 5, 6, tzinfo=UTC))
    chain = late.cert_chain_pems[0].bytes().decode()
    assert end_of(ssl.PEM_cert_to_DER_cert(chain)) == 3821313906


def test_what_is_cut_off_is_none(der: bytes) -> None:
    for end in range(0, len(der) - 1, 7):
        assert isinstance(subject_of(der[:end]), Refused)
        assert isinstance(alternative_names(der[:end]), Refused)
        assert isinstance(end_of(der[:end]), Refused)


@given(st.binary(max_size=200))
def test_nothing_but_certificates_is_taken_for_one(data: bytes) -> None:
    for read in (subject_of, alternative_names, end_of):
        assert isinstance(read(data), Refused | bytes | frozenset | int)
