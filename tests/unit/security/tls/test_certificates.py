"""Facts of certificates, read without a library."""

from __future__ import annotations

import ssl

import pytest
import trustme
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import Refused
from klamm.security.tls.certificates import alternative_names, facts_of, subject_of
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


def test_what_is_cut_off_is_none(der: bytes) -> None:
    for end in range(0, len(der) - 1, 7):
        assert isinstance(subject_of(der[:end]), Refused)
        assert isinstance(alternative_names(der[:end]), Refused)


@given(st.binary(max_size=200))
def test_nothing_but_certificates_is_taken_for_one(data: bytes) -> None:
    for read in (subject_of, alternative_names):
        assert isinstance(read(data), Refused | bytes | frozenset)
