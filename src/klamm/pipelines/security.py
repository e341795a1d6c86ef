"""Who is who on a connection: TLS and SASL, by the settings of Kafka's clients.

The names are those of the Java client where its form can be read here (PEM; a keystore of Java's
own is refused with the way out of it), and librdkafka's. A client that was told to encrypt never
goes on in clear text, and one that checks a broker by SCRAM hangs up on a broker that cannot prove
that it knows the password, too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from klamm.model.errors import KlammError, UsageError

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Below this a password could be guessed from what is overheard; Kafka asks for as many.
_ROUNDS_MIN: Final = 4096
_JAAS: Final = re.compile(r"""\b(username|password)\s*=\s*("|')((?:\\.|(?!\2).)*)\2""")

Text = Callable[[str], str | None]
Ask = Callable[[bytes], bytes]


class Distrusted(KlammError):
    """The broker is not who it should be, or does not take us for who we say we are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Everything that a connection needs to prove and to be shown. PEM: a path, or the text."""

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str = ""
    password: str = field(default="", repr=False)
    trusted: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_name: bool = True

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS comes before everything else."""
        return self.protocol.endswith("SSL")

    @property
    def signs_in(self) -> bool:
        """Whether SASL comes before everything else."""
        return self.protocol.startswith("SASL")


def security_of(text: Text) -> Security:
    """The settings, looked up by the names of Kafka's clients."""
    protocol = (text("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    mechanism = text("sasl.mechanism") or text("sasl.mechanisms") or "PLAIN"
    names = _credentials(text)
    if protocol.startswith("SASL"):
        if mechanism not in MECHANISMS:
            raise UsageError(f"sasl.mechanism: {mechanism!r} is none of {', '.join(MECHANISMS)}")
        if not names["username"] or not names["password"]:
            raise UsageError(
                f"security.protocol={protocol} needs sasl.username and sasl.password, "
                "or sasl.jaas.config with both"
            )
    for store in ("truststore", "keystore"):
        _refuse_java(text, store)
    return Security(
        protocol=protocol,
        mechanism=mechanism,
        **names,
        trusted=text("ssl.ca.location")
        or text("ssl.truststore.certificates")
        or text("ssl.truststore.location"),
        certificate=text("ssl.certificate.location")
        or text("ssl.keystore.certificate.chain")
        or text("ssl.keystore.location"),
        key=text("ssl.key.location") or text("ssl.keystore.key"),
        key_password=text("ssl.key.password"),
        checks_name=text("ssl.endpoint.identification.algorithm") not in ("", "none"),
    )


def _credentials(text: Text) -> dict[str, str]:
    jaas = {
        name: re.sub(r"\\(.)", r"\1", value)
        for name, _, value in _JAAS.findall(text("sasl.jaas.config") or "")
    }
    return {name: text(f"sasl.{name}") or jaas.get(name, "") for name in ("username", "password")}


def _refuse_java(text: Text, store: str) -> None:
    location, kind = text(f"ssl.{store}.location"), text(f"ssl.{store}.type") or "JKS"
    if location is not None and kind.upper() != "PEM":
        raise UsageError(
            f"ssl.{store}.location is of the type {kind}, which is Java's own: "
            f"write it as PEM, and set ssl.{store}.type=PEM"
        )


@lru_cache
def context_of(security: Security) -> ssl.SSLContext:
    """What TLS trusts and shows; the files are read once."""
    given = security.trusted
    is_text = given is not None and _is_pem(given)
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
    context.check_hostname = security.checks_name
    return context


@contextmanager
def _as_file(pem: str | None) -> Iterator[str | None]:
    """TLS reads keys from files only: a text becomes one that nobody else can read."""
    if pem is None or not _is_pem(pem):
        yield pem
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        yield file.name


def _is_pem(text: str) -> bool:
    """Whether this is a certificate or key itself, and no path to one."""
    return "-----BEGIN" in text


def plain_token(security: Security) -> bytes:
    """What PLAIN sends (RFC 4616)."""
    return b"\0" + security.username.encode() + b"\0" + security.password.encode()


def sign_in_by_scram(security: Security, ask: Ask, nonce: str | None = None) -> None:
    """Both sides prove that they know the password, and none says it (RFC 5802, RFC 7677)."""
    digest = security.mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    user = security.username.replace("=", "=3D").replace(",", "=2C")
    mine = nonce or base64.b64encode(os.urandom(24)).decode()
    first = f"n={user},r={mine}"
    server_first = ask(f"n,,{first}".encode()).decode()
    told = _fields(server_first)
    rounds = int(told["i"]) if told.get("i", "").isdigit() else 0
    if not {"r", "s"} <= told.keys() or not told["r"].startswith(mine) or rounds < _ROUNDS_MIN:
        raise Distrusted(f"the broker's answer to SCRAM cannot be trusted: {server_first!r}")
    salted = hashlib.pbkdf2_hmac(
        digest, security.password.encode(), base64.b64decode(told["s"]), rounds
    )
    last = f"c=biws,r={told['r']}"
    signed = f"{first},{server_first},{last}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = _fields(ask(f"{last},p={base64.b64encode(proof).decode()}".encode()).decode())
    shown = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(answer.get("v", ""), base64.b64encode(shown).decode()):
        raise Distrusted("the broker has not proven by SCRAM that it knows the password")


def _fields(message: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in message.split(","))
    return {name: value for name, _, value in pairs}
