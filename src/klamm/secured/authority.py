"""A certificate authority for one cluster: certificates of brokers and of users, made at once.

Keys are P-256 in PKCS#8, which Java, OpenSSL and librdkafka read alike. Every certificate names the
key that signed it, is good for TLS in one or both roles, and ends; the authority itself may sign
nothing that could sign. Nothing here touches a disk, and the time is the caller's.

This page needs `cryptography`, so others import it when they make a certificate (`libraries`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from klamm.model.errors import UsageError

AUTHORITY_LIFE: Final = timedelta(days=3650)
LIFE: Final = timedelta(days=365)
# Clocks differ: a certificate is good from a while ago on.
_LEEWAY: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its chain, and the key that belongs to it, as PEM."""

    certificate: str
    key: str = field(repr=False)

    @property
    def both(self) -> str:
        """One text with key and chain, as a PEM store of Kafka's has them."""
        return self.key + self.certificate


class Authority:
    """An authority whose key is at hand."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._certificate = _parse(pair.certificate)
        self._key = _parse_key(pair.key)
        if self._certificate.public_key() != self._key.public_key():
            raise UsageError("the key of the cluster's authority does not fit its certificate")

    @classmethod
    def make(cls, name: str, now: datetime) -> Authority:
        """A new authority, which signs itself."""
        key = _new_key()
        builder = _builder(_name(name), _name(name), key, now - _LEEWAY, now + AUTHORITY_LIFE)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).add_extension(_usage(signs_certificates=True), critical=True)
        return cls(Pair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key)))

    @property
    def certificate(self) -> str:
        """The certificate that clients and brokers trust, as PEM."""
        return self.pair.certificate

    @property
    def ends(self) -> datetime:
        """The end of the authority's own life."""
        return self._certificate.not_valid_after_utc

    def issue(
        self, name: str, now: datetime, *, hosts: Sequence[str] = (), life: timedelta = LIFE
    ) -> Pair:
        """A certificate for `CN=name`; one with hosts is good for a server as well.

        A life below zero makes a certificate that expired that long ago, for tests.
        """
        key = _new_key()
        ends = min(now + life, self.ends)
        begins = min(now, ends) - _LEEWAY
        builder = _builder(_name(name), self._certificate.subject, key, begins, ends)
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(_roles(is_server=bool(hosts)), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(_pem(signed) + self.certificate, _key_pem(key))


def ends_of(pem: str) -> datetime:
    """The end of the first certificate in a text."""
    return _parse(pem).not_valid_after_utc


def hosts_of(pem: str) -> frozenset[str]:
    """The names and addresses of the first certificate in a text."""
    try:
        names = _parse(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in names)


def is_signed_by(pem: str, authority: Authority) -> bool:
    """Whether this authority signed the first certificate in a text."""
    try:
        _parse(pem).verify_directly_issued_by(_parse(authority.certificate))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _roles(*, is_server: bool) -> x509.ExtendedKeyUsage:
    client = ExtendedKeyUsageOID.CLIENT_AUTH  # a broker is a client of other brokers, too
    return x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, client] if is_server else [client]
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _parse(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as fault:
        raise UsageError("a certificate of the cluster cannot be read: it is no PEM") from fault


def _parse_key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError) as fault:
        raise UsageError("the key of the cluster's authority cannot be read") from fault
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError("the key of the cluster's authority is of another kind than klamm makes")
    return key
