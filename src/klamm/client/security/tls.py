"""TLS: what a context trusts and shows, and what its failures mean."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Final

from klamm.client.addresses import Address, text
from klamm.client.errors import ClientError, ConnectionLost, Distrusted, why_not
from klamm.client.security.settings import Security
from klamm.model.errors import UsageError

_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# OpenSSL's numbers: the certificate names another host, or another address.
_MISMATCHES: Final = frozenset({62, 64})
_SHOW: Final = "set ssl.keystore.location (PEM) to a certificate and its key"


def context_of(security: Security, *, checks_name: bool | None = None) -> ssl.SSLContext:
    """The TLS context: whom we trust, what we show. Changed files are read again."""
    named = (security.trusted, security.certificate, security.key)
    if checks_name is not None:
        security = replace(security, checks_name=checks_name)
    return _context(security, tuple(map(_stamp, named)))


def _stamp(pem: str | None) -> tuple[int, int] | None:
    if pem is None or _is_pem(pem):
        return None
    try:
        found = os.stat(pem)
    except OSError:
        return None  # whoever reads it says so
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=32)
def _context(security: Security, _stamps: tuple[tuple[int, int] | None, ...]) -> ssl.SSLContext:
    given = security.trusted
    is_text = given is not None and _is_pem(given)
    if given is not None and is_text:
        given = pem_lines(given)
    try:
        # Where something is named, only that is trusted, not what the machine trusts besides.
        context = ssl.create_default_context(
            cadata=given if is_text else None, cafile=None if is_text else given
        )
        if security.certificate is not None:
            with _as_file(security.certificate) as chain, _as_file(security.key) as key:
                assert chain is not None
                context.load_cert_chain(chain, key, security.key_password or "")
    except (OSError, ValueError) as fault:  # what is no PEM is an OSError, too
        why = fault.strerror if isinstance(fault, FileNotFoundError) else "that is no PEM of it"
        raise UsageError(f"the certificates for TLS cannot be read: {why} ({fault})") from None
    if security.tls_versions:
        wanted = sorted(_VERSIONS[name] for name in security.tls_versions)
        context.minimum_version, context.maximum_version = wanted[0], wanted[-1]
    if security.ciphers is not None:
        context.set_ciphers(security.ciphers)
    context.check_hostname = security.checks_name and security.checks_certificate
    if not security.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    return context


def failure(address: Address, fault: OSError, *, opening: bool) -> ClientError:
    """The error for a broken connection, with advice; `opening`: during the TLS handshake."""
    place = text(address)
    if isinstance(fault, ssl.SSLCertVerificationError):
        advice = (
            "connect by a name that stands in it"
            if fault.verify_code in _MISMATCHES
            else "name the CA that signed it in ssl.truststore.location (PEM)"
        )
        return Distrusted(
            f"the certificate of {place} is not trusted: {fault.verify_message} ({advice})"
        )
    reason = (fault.reason or "") if isinstance(fault, ssl.SSLError) else ""
    if reason in (
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "UNKNOWN_PROTOCOL",
        "RECORD_LAYER_FAILURE",
    ):
        return Distrusted(
            f"{place} does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT, "
            "or name the port where it does"
        )
    if "CERTIFICATE_REQUIRED" in reason or (opening and "HANDSHAKE_FAILURE" in reason):
        return ConnectionLost.to(address, f"it asks for a certificate: {_SHOW}")
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        said = reason.rpartition("ALERT_")[2].replace("_", " ").lower()
        return ConnectionLost.to(address, f"it does not trust our certificate ({said})")
    if opening and is_end(fault):
        return ConnectionLost(
            f"TLS with {place} failed: it hung up in the handshake. Either it listens in clear "
            f"text (set security.protocol to PLAINTEXT), or it asks for a certificate ({_SHOW})"
        )
    if opening:
        return ConnectionLost(f"TLS with {place} failed: {_words(fault)}")
    return ConnectionLost.to(address, _words(fault))


def _words(fault: OSError) -> str:
    # The numbers of TLS's own errors are not those of the operating system.
    if isinstance(fault, ssl.SSLError) and fault.reason:
        return fault.reason.replace("_", " ").lower()
    return str(fault.strerror) if isinstance(fault, ssl.SSLError) else why_not(fault)


def is_end(fault: Exception) -> bool:
    """Whether the other side closed the connection, with or without the words of TLS for it."""
    return isinstance(fault, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError)


@contextmanager
def _as_file(pem: str | None) -> Iterator[str | None]:
    """TLS reads keys from files only: a text becomes one that nobody else can read."""
    if pem is None or not _is_pem(pem):
        yield pem
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem_lines(pem))
        file.flush()
        yield file.name


def pem_lines(given: str) -> str:
    """PEM in lines, as OpenSSL wants it: a properties file may have joined them to one."""

    def block(match: re.Match[str]) -> str:
        kind, body = match[1], match[2]
        if ":" not in body:  # an old encrypted key has headers, whose lines must stay
            body = "\n".join(textwrap.wrap("".join(body.split()), 64))
        return f"-----BEGIN {kind}-----\n{body.strip()}\n-----END {kind}-----\n"

    return "".join(block(match) for match in _PEM.finditer(given)) or given


def _is_pem(given: str) -> bool:
    """Whether this is a certificate or key itself, and no path to one."""
    return "-----BEGIN" in given
