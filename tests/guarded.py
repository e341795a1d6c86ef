"""Certificates, settings and raw logins for tests of guarded listeners."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    KeySerializationEncryption,
    NoEncryption,
)

from klamm.protocol import codec
from klamm.protocol.frames import encode_request_frame, parse_response_header

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def pkcs8(key_pem: bytes, password: str | None = None) -> bytes:
    """A private key as Kafka wants it."""
    how: KeySerializationEncryption = NoEncryption()
    if password is not None:
        how = BestAvailableEncryption(password.encode())
    return serialization.load_pem_private_key(key_pem, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how
    )


@dataclass
class Issued:
    """One certificate with its key, in a file as PEM, and for Python's TLS."""

    certificate: trustme.LeafCert
    path: Path

    @property
    def key(self) -> bytes:
        return pkcs8(self.certificate.private_key_pem.bytes())

    @property
    def chain(self) -> bytes:
        return b"".join(pem.bytes() for pem in self.certificate.cert_chain_pems)

    @property
    def certificate_serial(self) -> int:
        return x509.load_pem_x509_certificates(self.chain)[0].serial_number

    def write(self) -> None:
        self.path.write_bytes(self.key + self.chain)


class Authority:
    """A CA, and what it issues, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.trusted = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(self.trusted)

    def issue(self, name: str, *identities: str, **more: Any) -> Issued:
        names = identities or ("localhost", "127.0.0.1")
        made = self.ca.issue_cert(*names, common_name=name, organization_unit_name="tests", **more)
        issued = Issued(made, self.directory / f"{name}.pem")
        issued.write()
        return issued

    def settings(self, issued: Issued) -> dict[str, str]:
        """The stores of a listener."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(issued.path),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }

    def client_tls(self, issued: Issued | None = None, version: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.trusted))
        if issued is not None:
            context.load_cert_chain(str(issued.path))
        if version:
            pinned = ssl.TLSVersion[version]
            context.minimum_version = context.maximum_version = pinned
        return context


class Raw:
    """A socket that speaks frames, one after the other."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.partition(",")[0].rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=10)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def tell(self, key: int, version: int, message: Any) -> None:
        body = codec.encode_request(key, version, message)
        self.socket.sendall(encode_request_frame(key, version, 7, "raw", body))

    def tell_token(self, token: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(token)) + token)

    def hear_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, key: int, version: int, message: Any) -> Any:
        self.tell(key, version, message)
        return self.hear(key, version)

    def hear(self, key: int, version: int) -> Any:
        frame = self.hear_frame()
        answered, at = parse_response_header(key, version, frame)
        assert answered == 7
        return codec.decode_response(key, version, memoryview(frame)[at:])

    def is_closed(self) -> bool:
        """Whether the other side has nothing to say but the end."""
        try:
            return self.socket.recv(1) == b""
        except (ConnectionError, ssl.SSLError):
            return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError("the other side has closed")
            data += piece
        return data


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def s(self) -> float:
        return time.monotonic() - self._began
