"""Every form of a store gives the same PEM, and what cannot be read is told."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from guarded import Authority, Issued, pkcs8
from klamm.broker.identity.contexts import handshake_fault
from klamm.broker.identity.stores import Material, read_material
from klamm.broker.identity.tls import Tls, read_tls, replacement_fault
from klamm.model.errors import Refused
from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.tls.config import TlsConfig, tls_config


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("k1")


def settings(texts: dict[str, str]) -> ListenerSettings:
    return ListenerSettings("SSL", SecurityProtocol.SSL, texts)


def read(texts: dict[str, str]) -> Material | Refused:
    config = tls_config(settings(texts))
    assert isinstance(config, TlsConfig), config
    return read_material(config)


def tls(texts: dict[str, str], *, between: bool = False) -> Tls | Refused:
    return read_tls(settings(texts), between_brokers=between)


def made(texts: dict[str, str], *, between: bool = False) -> Tls:
    told = tls(texts, between=between)
    assert isinstance(told, Tls), told
    return told


def p12(issued: Issued, path: Path, password: bytes = b"pw") -> Path:
    key = serialization.load_pem_private_key(issued.key, None)
    chain = x509.load_pem_x509_certificates(issued.chain)
    how = serialization.BestAvailableEncryption(password)
    data = pkcs12.serialize_key_and_certificates(b"k", key, chain[0], chain[1:], how)  # type: ignore[arg-type]
    path.write_bytes(data)
    return path


def forms(authority: Authority, issued: Issued, directory: Path) -> dict[str, dict[str, str]]:
    """The same key and certificate in every form."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.trusted)}
    chain_first = directory / "chain-first.pem"
    chain_first.write_bytes(b"text before\n" + issued.chain + b"and between\n" + issued.key)
    locked = directory / "locked.pem"
    locked.write_bytes(pkcs8(issued.certificate.private_key_pem.bytes(), "secret") + issued.chain)
    return {
        "file": authority.settings(issued),
        "chain first": {
            **trust,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(chain_first),
        },
        "encrypted": {
            **trust,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(locked),
            "ssl.key.password": "secret",
        },
        "inline": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key.decode().replace("\n", " "),
            "ssl.keystore.certificate.chain": issued.chain.decode(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.trusted.read_text(),
        },
        "PKCS12": {
            **trust,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(p12(issued, directory / "k.p12")),
            "ssl.keystore.password": "pw",
        },
        "PKCS12 called JKS": {
            **trust,
            "ssl.keystore.location": str(directory / "k.p12"),
            "ssl.keystore.password": "pw",
        },
    }


@pytest.mark.parametrize(
    "form", ["file", "chain first", "encrypted", "inline", "PKCS12", "PKCS12 called JKS"]
)
def test_every_form_serves(authority: Authority, issued: Issued, tmp_path: Path, form: str) -> None:
    texts = forms(authority, issued, tmp_path)[form] | {"ssl.client.auth": "required"}
    served = made(texts, between=True)
    assert served.material.facts.subjects[0].startswith("CN=k1,")
    assert served.material.facts.names == ({"DNS:localhost", "IP:127.0.0.1"},)
    assert "PRIVATE" not in repr(served.material)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs Java's keytool")
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_of_javas_own_tool_serve(
    authority: Authority, issued: Issued, tmp_path: Path, kind: str
) -> None:
    keys, trust = tmp_path / "keys", tmp_path / "trust"

    def keytool(*arguments: str) -> None:
        subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)

    source = p12(issued, tmp_path / "source.p12", b"changeit")
    keytool(
        *("-importkeystore", "-srckeystore", str(source), "-srcstoretype", "PKCS12"),
        *("-srcstorepass", "changeit", "-destkeystore", str(keys), "-deststoretype", kind),
        *("-deststorepass", "changeit", "-destkeypass", "changeit", "-noprompt"),
    )
    keytool(
        *("-importcert", "-alias", "ca", "-file", str(authority.trusted), "-noprompt"),
        *("-keystore", str(trust), "-storetype", kind, "-storepass", "changeit"),
    )
    texts = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": "changeit",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": "changeit",
        "ssl.client.auth": "required",
    }
    served = made(texts, between=True)
    assert served.material.facts.subjects[0].startswith("CN=k1,")
    told = tls(texts | {"ssl.keystore.password": "wrong1"})
    assert isinstance(told, Refused)
    assert f"Failed to load SSL keystore {keys} of type {kind}" in told.why


def test_what_cannot_be_read_is_told_with_the_path(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    given = authority.settings(issued)
    missing = read(given | {"ssl.keystore.location": str(tmp_path / "none.pem")})
    assert isinstance(missing, Refused)
    assert "none.pem" in missing.why
    assert "No such file" in missing.why
    old = tmp_path / "old.pem"
    old.write_bytes(issued.certificate.private_key_pem.bytes() + issued.chain)
    told = read(given | {"ssl.keystore.location": str(old)})
    assert isinstance(told, Refused)
    assert "not PKCS#8" in told.why
    other = authority.issue("other")
    mixed = tmp_path / "mixed.pem"
    mixed.write_bytes(other.key + issued.chain)
    told = tls(given | {"ssl.keystore.location": str(mixed)})
    assert isinstance(told, Refused)
    assert "cannot be used: key values mismatch" in told.why


def test_brokers_have_to_trust_themselves(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    texts = stranger.settings(stranger.issue("k1"))
    texts["ssl.truststore.location"] = str(authority.trusted)
    told = tls(texts, between=True)
    assert isinstance(told, Refused)
    assert "A client SSLEngine created with the provided settings can't connect" in told.why
    assert isinstance(tls(texts), Tls), "a listener for clients need not"


def test_a_running_listener_stays_who_it_is(authority: Authority, issued: Issued) -> None:
    texts = authority.settings(issued) | {"ssl.client.auth": "required"}
    old = made(texts)
    again = made(authority.settings(authority.issue("k1", "localhost", "127.0.0.1", "more")))
    assert replacement_fault(old, again, settings(texts), between_brokers=False) is None
    for name, identities, allowing in (
        ("k2", (), "ssl.allow.dn.changes"),
        ("k1", ("localhost",), "ssl.allow.san.changes"),
    ):
        other = made(authority.settings(authority.issue(name, *identities)))
        told = replacement_fault(old, other, settings(texts), between_brokers=False)
        assert told is not None
        assert allowing in told.why
        allowed = settings(texts | {allowing: "true"})
        assert replacement_fault(old, other, allowed, between_brokers=False) is None
    issued.write()


def test_brokers_before_and_behind_a_change_understand_each_other(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    texts = authority.settings(issued) | {"ssl.client.auth": "required"}
    stranger = Authority(tmp_path)
    new = stranger.settings(stranger.issue("k1")) | {"ssl.client.auth": "required"}
    told = replacement_fault(made(texts), made(new), settings(texts), between_brokers=True)
    assert told is not None
    assert "old certificates" in told.why or "DistinguishedName" in told.why


def test_a_changed_file_is_noticed(authority: Authority) -> None:
    changing = authority.issue("changing")
    read_now = made(authority.settings(changing))
    assert not read_now.is_stale
    changing.path.write_bytes(changing.path.read_bytes() + b"\n")
    assert read_now.is_stale


def test_versions_and_ciphers_are_those_asked_for(authority: Authority, issued: Issued) -> None:
    texts = authority.settings(issued)
    only = made(texts | {"ssl.enabled.protocols": "TLSv1.2"})
    assert only.context.maximum_version is ssl.TLSVersion.TLSv1_2
    newer = made(texts | {"ssl.enabled.protocols": "TLSv1.3"})
    assert handshake_fault(only.as_client, newer.context) is not None
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    chosen = made(texts | {"ssl.cipher.suites": suite, "ssl.enabled.protocols": "TLSv1.2"})
    names = {
        cipher["name"] for cipher in chosen.context.get_ciphers() if "TLSv1.2" in cipher["protocol"]
    }
    assert names == {"ECDHE-ECDSA-AES256-GCM-SHA384"}


def test_no_ticket_lets_anybody_past_a_changed_trust_store(
    authority: Authority, issued: Issued
) -> None:
    asking = made(authority.settings(issued) | {"ssl.client.auth": "requested"})
    assert asking.context.num_tickets == 0
    assert asking.context.options & ssl.OP_NO_TICKET


def test_a_revoked_certificate_is_refused_and_so_is_everybody_once_the_list_has_ended(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    lost = authority.issue("lost")
    lists = tmp_path / "revoked.pem"
    texts = authority.settings(issued) | {
        "ssl.client.auth": "required",
        "klamm.ssl.crl.location": str(lists),
    }
    lists.write_bytes(revocation(authority, lost, days=1))
    asking = made(texts)
    assert handshake_fault(made(authority.settings(issued)).as_client, asking.context) is None
    assert handshake_fault(made(authority.settings(lost)).as_client, asking.context) is not None
    assert not asking.is_stale
    lists.write_bytes(revocation(authority, lost, days=-1))
    assert asking.is_stale
    ended = made(texts)
    assert handshake_fault(made(authority.settings(issued)).as_client, ended.context) is not None
    lists.write_text("no list\n")
    assert isinstance(tls(texts), Refused)
    nobody_asked = tls_config(settings({**texts, "ssl.client.auth": "none"}))
    assert isinstance(nobody_asked, Refused)


def revocation(authority: Authority, lost: Issued, days: int) -> bytes:
    """A list of one certificate, which holds for so many days from now."""
    now = datetime.now(UTC)
    key = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    (ours,) = x509.load_pem_x509_certificates(authority.trusted.read_bytes())
    gone = x509.load_pem_x509_certificates(lost.chain)[0]
    entry = x509.RevokedCertificateBuilder(gone.serial_number, now - timedelta(days=3)).build()
    made = x509.CertificateRevocationListBuilder(
        ours.subject,
        now - timedelta(days=2),
        now + timedelta(days=days),
        revoked_certificates=[entry],
    )
    signed = made.sign(key, hashes.SHA256())  # type: ignore[arg-type]
    return signed.public_bytes(serialization.Encoding.PEM)
