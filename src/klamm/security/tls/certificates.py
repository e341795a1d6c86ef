"""Facts of a certificate in DER: its subject, the names it holds for besides, and its end."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from klamm.model.errors import Refused
from klamm.security.listeners.reconfiguration import CertificateFacts
from klamm.security.tls.names import elements, name_text, oid_number

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_VALIDITY_AT: Final = 3
_TIMES: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
_SUBJECT_AT: Final = 4  # behind serial number, algorithm, issuer and validity
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_TEXT_KINDS: Final = {0x81: "email", 0x82: "DNS", 0x86: "URI"}
_ADDRESS_KIND: Final = 0x87
_SIZE_MAX: Final = 64 * 1024
_NO_CERTIFICATE: Final = Refused("the certificate is none in DER")


def subject_of(certificate: bytes) -> bytes | Refused:
    """The subject's name, in DER."""
    fields = _fields(certificate)
    if isinstance(fields, Refused):
        return fields
    tag, _, whole = fields[_SUBJECT_AT]
    return whole if tag == _SEQUENCE else _NO_CERTIFICATE


def alternative_names(certificate: bytes) -> frozenset[str] | Refused:
    """The names besides the subject, such as `DNS:k1.example` and `IP:10.0.0.7`."""
    fields = _fields(certificate)
    if isinstance(fields, Refused):
        return fields
    try:
        return frozenset(
            _name(tag, content)
            for kind, body, _ in fields
            if kind == _EXTENSIONS
            for _, extensions, _ in elements(body)
            for _, extension, _ in elements(extensions)
            for tag, content in _listed(extension)
        )
    except (ValueError, IndexError):
        return _NO_CERTIFICATE


def end_of(certificate: bytes) -> int | Refused:
    """The moment after which nobody believes it any more, in seconds of Unix."""
    fields = _fields(certificate)
    if isinstance(fields, Refused):
        return fields
    try:
        _, (tag, text, _) = elements(fields[_VALIDITY_AT][1])
        return int(datetime.strptime(text.decode(), _TIMES[tag]).replace(tzinfo=UTC).timestamp())
    except (ValueError, IndexError, KeyError):
        return _NO_CERTIFICATE


def facts_of(certificates: Iterable[bytes]) -> CertificateFacts | Refused:
    """The facts that must stay when a key store changes, of the entries' own certificates."""
    subjects, names = [], []
    for certificate in certificates:
        subject, alternative = subject_of(certificate), alternative_names(certificate)
        if isinstance(subject, Refused):
            return subject
        if isinstance(alternative, Refused):
            return alternative
        text = name_text(subject)
        if isinstance(text, Refused):
            return text
        subjects.append(text)
        names.append(alternative)
    return CertificateFacts(tuple(subjects), tuple(names))


def _fields(certificate: bytes) -> list[tuple[int, bytes, bytes]] | Refused:
    """The fields of what was signed, without its version."""
    if len(certificate) > _SIZE_MAX:
        return Refused(f"a certificate of {len(certificate)} bytes is too long")
    try:
        ((tag, body, _),) = elements(certificate)
        (_, signed, _), *_ = elements(body)
        fields = [field for field in elements(signed) if field[0] != _VERSION]
    except (ValueError, IndexError):
        return _NO_CERTIFICATE
    return fields if tag == _SEQUENCE and len(fields) > _SUBJECT_AT else _NO_CERTIFICATE


def _listed(extension: bytes) -> list[tuple[int, bytes]]:
    """The names in an extension; none in one about something else."""
    (_, oid, _), *rest = elements(extension)
    if oid_number(oid) != _ALTERNATIVE_NAMES:
        return []
    return [
        (tag, content)
        for kind, octets, _ in rest
        if kind == _OCTETS
        for _, names, _ in elements(octets)
        for tag, content, _ in elements(names)
    ]


def _name(tag: int, content: bytes) -> str:
    if tag in _TEXT_KINDS:
        return f"{_TEXT_KINDS[tag]}:{content.decode('ascii', 'backslashreplace')}"
    if tag == _ADDRESS_KIND and len(content) in (4, 16):
        return f"IP:{ipaddress.ip_address(content)}"
    return f"{tag}:#{content.hex()}"
