"""Certificates: what TLS makes of them, with Python's own TLS as the judge."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from klamm.model.errors import UsageError
from klamm.secured.authority import Authority, Pair, ends_of, hosts_of, is_signed_by

NOW = datetime.now(UTC)
HOSTS = ("localhost", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("a test", NOW)


def shake(
    tmp_path: Path,
    trusted: Authority,
    server: Pair,
    *,
    host: str = "localhost",
    client: Pair | None = None,
) -> dict[str, object]:
    """A handshake in memory; the certificate that the server was shown."""
    (tmp_path / "server.pem").write_text(server.both)
    accept = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accept.load_cert_chain(tmp_path / "server.pem")
    accept.load_verify_locations(cadata=trusted.certificate)
    accept.verify_mode = ssl.CERT_REQUIRED if client else ssl.CERT_NONE
    ask = ssl.create_default_context(cadata=trusted.certificate)
    ask.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        (tmp_path / "client.pem").write_text(client.both)
        ask.load_cert_chain(tmp_path / "client.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = ask.wrap_bio(to_client, to_server, server_hostname=host)
    other = accept.wrap_bio(to_server, to_client, server_side=True)
    waiting = [one, other]
    for _ in range(8):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return dict(other.getpeercert() or {})


@pytest.mark.parametrize("host", HOSTS)
def test_a_broker_is_trusted_by_each_of_its_names(
    host: str, authority: Authority, tmp_path: Path
) -> None:
    shake(tmp_path, authority, authority.issue("broker", NOW, hosts=HOSTS), host=host)


def test_a_user_is_known_by_the_name_in_the_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    broker = authority.issue("broker", NOW, hosts=HOSTS)
    shown = shake(tmp_path, authority, broker, client=authority.issue("alice", NOW))
    assert shown["subject"] == ((("commonName", "alice"),),)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("expired", "certificate has expired"),
        ("stranger", "unable to get local issuer certificate|self-signed"),
        ("other host", "Hostname mismatch"),
        ("a user's", "unsuitable certificate purpose|Hostname mismatch"),
    ],
)
def test_what_is_wrong_is_not_trusted(
    what: str, says: str, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority.make("a test", NOW)
    server = {
        "expired": authority.issue("broker", NOW, hosts=HOSTS, life=timedelta(days=-1)),
        "stranger": stranger.issue("broker", NOW, hosts=HOSTS),
        "other host": authority.issue("broker", NOW, hosts=("b.example",)),
        "a user's": authority.issue("localhost", NOW),
    }[what]
    with pytest.raises(ssl.SSLCertVerificationError, match=says):
        shake(tmp_path, authority, server)


def test_an_expired_user_is_turned_away(authority: Authority, tmp_path: Path) -> None:
    broker = authority.issue("broker", NOW, hosts=HOSTS)
    late = authority.issue("alice", NOW, life=timedelta(days=-1))
    with pytest.raises(ssl.SSLCertVerificationError, match="has expired"):
        shake(tmp_path, authority, broker, client=late)


def test_a_certificate_tells_what_it_has(authority: Authority) -> None:
    pair = authority.issue("broker", NOW, hosts=HOSTS, life=timedelta(days=5))
    assert hosts_of(pair.both) == frozenset(HOSTS)
    assert hosts_of(authority.issue("alice", NOW).certificate) == frozenset()
    assert abs(ends_of(pair.both) - NOW - timedelta(days=5)) < timedelta(seconds=2)
    assert is_signed_by(pair.both, authority)
    assert not is_signed_by(pair.both, Authority.make("a test", NOW))
    assert "PRIVATE" not in repr(pair)


def test_no_certificate_outlives_its_authority(authority: Authority) -> None:
    pair = authority.issue("broker", NOW, life=timedelta(days=9999))
    assert ends_of(pair.certificate) == authority.ends


def test_an_authority_is_read_again_and_must_fit(authority: Authority) -> None:
    again = Authority(authority.pair)
    assert is_signed_by(again.issue("alice", NOW).certificate, authority)
    other = Authority.make("a test", NOW)
    with pytest.raises(UsageError, match="does not fit"):
        Authority(Pair(authority.certificate, other.pair.key))
    with pytest.raises(UsageError, match="cannot be read"):
        Authority(Pair("no PEM", other.pair.key))
