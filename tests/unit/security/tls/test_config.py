# ruff: noqa: E501
"""TLS of a listener: what is read, and the words of every refusal."""

from __future__ import annotations

import ssl

import pytest
import trustme

from klamm.model.errors import Refused
from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.tls.config import (
    _SUITES_1_2,
    ClientAuth,
    InlineKey,
    InlineTrust,
    StoreFile,
    StoreType,
    TlsConfig,
    tls_config,
)
from klamm.security.tls.pem import PemKey, key_and_chain

BODY = "QUJD" * 30
KEY = f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n"
LOCKED = KEY.replace("PRIVATE", "ENCRYPTED PRIVATE")
OLD = KEY.replace("PRIVATE", "RSA PRIVATE")
CERTIFICATE = KEY.replace("PRIVATE KEY", "CERTIFICATE")
FILE = {
    "ssl.keystore.location": "k.p12",
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.password": "s3cret",
}
INLINE = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": KEY,
    "ssl.keystore.certificate.chain": CERTIFICATE,
}


def told(
    texts: dict[str, str], protocol: SecurityProtocol = SecurityProtocol.SSL
) -> TlsConfig | Refused:
    return tls_config(ListenerSettings("CLIENTS", protocol, texts))


def read(texts: dict[str, str], protocol: SecurityProtocol = SecurityProtocol.SSL) -> TlsConfig:
    config = told(texts, protocol)
    assert isinstance(config, TlsConfig), config
    return config


def test_defaults() -> None:
    config = read(FILE)
    assert isinstance(config.key, StoreFile)
    assert (config.key.type, config.key.location) == (StoreType.PKCS12, "k.p12")
    assert config.trust is None
    assert config.client_auth is ClientAuth.NONE
    assert config.versions == ("TLSv1.2", "TLSv1.3")
    assert config.ciphers is None
    assert config.checks_host
    assert "s3cret" not in repr(config)


def test_pem_in_the_settings() -> None:
    texts = INLINE | {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CERTIFICATE * 2}
    config = read(texts)
    assert isinstance(config.key, InlineKey)
    assert config.trust == InlineTrust(CERTIFICATE.replace(BODY, BODY[:64] + "\n" + BODY[64:]) * 2)
    assert BODY not in repr(config)


def test_certificates_of_clients_on_both_kinds_of_listeners() -> None:
    base = FILE | {"ssl.client.auth": "required"}
    assert read(base).client_auth is ClientAuth.REQUIRED
    sasl = SecurityProtocol.SASL_SSL
    assert read(base, sasl).client_auth is ClientAuth.NONE
    own = base | {"listener.name.clients.ssl.client.auth": "requested"}
    assert read(own, sasl).client_auth is ClientAuth.REQUESTED


def test_versions_and_ciphers() -> None:
    assert read(FILE | {"ssl.enabled.protocols": "TLSv1.3"}).versions == ("TLSv1.3",)
    assert read(FILE | {"ssl.protocol": "TLSv1.2"}).versions == ("TLSv1.2",)
    assert read(FILE | {"ssl.protocol": "TLS"}).versions == ("TLSv1.2", "TLSv1.3")
    config = read(FILE | {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"})
    # Without a suite of TLS 1.3 there is no TLS 1.3.
    assert (config.ciphers, config.versions) == ("ECDHE-RSA-AES256-GCM-SHA384", ("TLSv1.2",))
    newer = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    assert read(FILE | {"ssl.cipher.suites": newer}).versions == ("TLSv1.3",)


def test_openssl_knows_every_suite_by_its_name() -> None:
    for name in _SUITES_1_2.values():
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name + ":@SECLEVEL=0")


def test_host_check_can_be_switched_off() -> None:
    assert not read(FILE | {"ssl.endpoint.identification.algorithm": ""}).checks_host
    assert read(FILE | {"ssl.endpoint.identification.algorithm": "HTTPS"}).checks_host


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (INLINE | {"ssl.keystore.type": "JKS"}, "SSL private key can be specified only for PEM, but key store type is JKS."),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": KEY}, "SSL private key is specified, but certificate chain is not specified."),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": CERTIFICATE}, "SSL certificate chain is specified, but private key is not specified"),
        (INLINE | {"ssl.keystore.location": "k"}, "Both SSL key store location and separate private key are specified."),
        (INLINE | {"ssl.keystore.password": "x"}, "SSL key store password cannot be specified with PEM format, only key password may be specified"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "k", "ssl.keystore.password": "x"}, "SSL key store password cannot be specified with PEM format"),
        ({"ssl.keystore.password": "x"}, "SSL key store is not specified, but key store password is specified."),
        ({"ssl.keystore.location": "k"}, "SSL key store is specified, but key store password is not specified."),
        ({}, "Listener CLIENTS speaks TLS, but has no certificate to show."),
        (FILE | {"ssl.keystore.type": "BKS"}, "ssl.keystore.type is PEM, PKCS12 or JKS, not BKS"),
        (FILE | {"ssl.truststore.certificates": CERTIFICATE}, "SSL trust store certs can be specified only for PEM, but trust store type is JKS."),
        (FILE | {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CERTIFICATE, "ssl.truststore.location": "t"}, "Both SSL trust store location and separate trust certificates are specified."),
        (FILE | {"ssl.truststore.type": "PEM", "ssl.truststore.location": "t", "ssl.truststore.password": "x"}, "SSL trust store password cannot be specified for PEM format."),
        (FILE | {"ssl.truststore.password": "x"}, "SSL trust store is not specified, but trust store password is specified."),
        (FILE | {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x"}, "At least one certificate expected, but none found"),
        (FILE | {"ssl.client.auth": "Required"}, "Invalid value Required for configuration ssl.client.auth"),
        (FILE | {"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not spoken here"),
        (FILE | {"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "leaves nothing under ssl.protocol=TLSv1.2"),
        (FILE | {"ssl.protocol": "SSLv3"}, "ssl.protocol is"),
        (FILE | {"ssl.cipher.suites": "TLS_NULL"}, "TLS_NULL is not known here"),
        (FILE | {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "can only be had together"),
        (FILE | {"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA", "ssl.enabled.protocols": "TLSv1.3"}, "leaves no suite"),
        (FILE | {"ssl.endpoint.identification.algorithm": "none"}, "ssl.endpoint.identification.algorithm is https or empty"),
    ],
)  # fmt: skip
def test_refusals(texts: dict[str, str], words: str) -> None:
    fault = told(texts)
    assert isinstance(fault, Refused), fault
    assert words in fault.why


@pytest.mark.parametrize(
    ("text", "password", "words"),
    [
        (CERTIFICATE, False, "No matching PRIVATE KEY entries in PEM file"),
        (KEY + KEY + CERTIFICATE, False, "Expected one private key, but found 2"),
        (KEY, False, "At least one certificate expected, but none found"),
        (OLD + CERTIFICATE, False, "RSA PRIVATE KEY, not PKCS#8"),
        (LOCKED + CERTIFICATE, False, "set ssl.key.password"),
        (KEY + CERTIFICATE, True, "is not encrypted"),
    ],
)
def test_pem_refusals(text: str, password: bool, words: str) -> None:
    fault = key_and_chain(text, text, has_password=password)
    assert isinstance(fault, Refused)
    assert words in fault.why


def test_pem_in_any_order_with_text_around_and_lines_joined() -> None:
    for text in (
        KEY + CERTIFICATE,
        f"hello\n{CERTIFICATE}between{KEY}",
        (LOCKED + CERTIFICATE).replace("\n", " "),
    ):
        read = key_and_chain(text, text, has_password="ENCRYPTED" in text)
        assert isinstance(read, PemKey)
        assert read.key.count("\n") == read.chain.count("\n") == 4


def test_real_certificate_is_loaded_from_what_was_read() -> None:
    issued = trustme.CA().issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode().replace("\n", " ")
    context = ssl.create_default_context(cadata=read(INLINE | {
        "ssl.truststore.type": "PEM", "ssl.truststore.certificates": chain,
    }).trust.certificates)  # type: ignore[union-attr]  # fmt: skip
    assert context.get_ca_certs() == [] or context.cert_store_stats()["x509"] > 0
    assert context.cert_store_stats()["x509"] == 1
