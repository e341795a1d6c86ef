"""A real ZooKeeper behind TLS, SASL and grants: who gets in, and who gets to read what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from klamm.ensemble import free_port
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.model.settings import BrokerSettings
from klamm.store import layout
from klamm.store.port import Create, SetData
from klamm.store.zookeeper_opening import zookeeper_store
from unit.store.zookeeper_server import ZooKeeperServer, why_not

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

PASSWORD = "open sesame"
LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule required"
SERVER_JAAS = f'Server {{ {LOGIN} user_broker="b-secret" user_eve="e-secret"; }};'
roots = count(1)


class Secured(ZooKeeperServer):
    """A server that takes plain and encrypted connections, logins, and certificates."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.secure_port = free_port()
        ca, other = trustme.CA(), trustme.CA()
        own, broker = ca.issue_cert("localhost"), ca.issue_cert("broker.example")
        ca.cert_pem.write_to_path(place / "ca.pem")
        other.cert_pem.write_to_path(place / "other.pem")
        for name, made in (("server", own), ("broker", broker)):
            made.private_key_and_cert_chain_pem.write_to_path(place / f"{name}.pem")
        _as_pkcs12(place / "broker.pem", place / "broker.p12")
        for name in ("server", "broker"):
            _converted_key(place / f"{name}.pem")
        (place / "jaas.conf").write_text(SERVER_JAAS)
        providers = "org.apache.zookeeper.server.auth"
        super().__init__(
            config={
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": self.secure_port,
                "secureClientPortAddress": "127.0.0.1",
                "ssl.keyStore.location": place / "server.pem",
                "ssl.trustStore.location": place / "ca.pem",
                "ssl.clientAuth": "want",
                "authProvider.sasl": f"{providers}.SASLAuthenticationProvider",
                "authProvider.x509": f"{providers}.X509AuthenticationProvider",
            },
            java_options=(f"-Djava.security.auth.login.config={place / 'jaas.conf'}",),
        )

    def settings(self, *, root: int | None = None, secure: bool = True, **more: str) -> Any:
        port = self.secure_port if secure else self.port
        given = {
            "zookeeper.connect": f"localhost:{port}/{root or next(roots)}",
            "zookeeper.connection.timeout.ms": "4000",
            "zookeeper.session.timeout.ms": "4000",
        }
        if secure:
            given["zookeeper.ssl.client.enable"] = "true"
            given["zookeeper.ssl.truststore.location"] = str(self.place / "ca.pem")
        dotted = {name.replace("_", "."): text for name, text in more.items()}
        return BrokerSettings.parse(given | dotted)


def _converted_key(pem: Path) -> None:
    """Java reads keys in PKCS#8 alone."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text = pem.read_bytes()
    key = load_pem_private_key(text, None)
    chain = text[text.index(b"-----BEGIN CERTIFICATE") :]
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain)


def _as_pkcs12(pem: Path, target: Path) -> None:
    text = pem.read_bytes()
    key: Any = load_pem_private_key(text, None)
    certificate = load_pem_x509_certificate(text[text.index(b"-----BEGIN CERTIFICATE") :])
    encryption = BestAvailableEncryption(PASSWORD.encode())
    target.write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, encryption)
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    server = Secured(tmp_path_factory.mktemp("secured"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


@asynccontextmanager
async def opened(settings: BrokerSettings, digest: str = "") -> AsyncIterator[Any]:
    store = zookeeper_store(settings, digest=digest)
    try:
        yield await store.connect()
    finally:
        await store.close()


def jaas(user: str, password: str) -> dict[str, str]:
    text = f'{LOGIN} username="{user}" password="{password}";'
    return {"klamm_zookeeper_sasl_jaas_config": text}


def shown(server: Secured, kind: str) -> dict[str, str]:
    """The settings of one who shows something."""
    keys = {
        "PEM": {"zookeeper_ssl_keystore_location": str(server.place / "broker.pem")},
        "PKCS12": {
            "zookeeper_ssl_keystore_location": str(server.place / "broker.p12"),
            "zookeeper_ssl_keystore_password": PASSWORD,
        },
        "SASL": jaas("broker", "b-secret"),
        "nothing": {},
    }
    return keys[kind]


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "SASL"])
async def test_whom_it_knows_can_protect_nodes(server: Secured, kind: str) -> None:
    root = next(roots)
    known = server.settings(root=root, zookeeper_set_acl="true", **shown(server, kind))
    secret, open_to_read = "/config/users/alice", "/brokers/topics"
    async with opened(known) as session:
        await session.multis(
            [Create(path, b"0")] for path in layout.with_parents([secret, open_to_read])
        )
        assert (await session.get(secret)).data == b"0"
    # The same again: another session of the same one may change what the first has made.
    async with opened(known) as session:
        assert (await session.multi([SetData(secret, b"1")]))[0].ok
    store = zookeeper_store(server.settings(root=root, secure=False, **jaas("eve", "e-secret")))
    try:
        session = await store.look_in()
        assert (await session.get(open_to_read)).data == b"0"
        with pytest.raises(StoreUnavailable, match="/config/users/alice may not be read: log in"):
            await session.get(secret)
        with pytest.raises(UsageError, match=r"klamm\.tickets cannot be made in .* no auth"):
            await store.connect()
    finally:
        await store.close()
    with stranger(server, root) as tool:
        for write in (
            lambda: tool.set(open_to_read, b"x"),
            lambda: tool.create("/new"),
            lambda: tool.delete(secret),
            lambda: tool.set_acls(open_to_read, []),
        ):
            with pytest.raises(KazooException):
                write()


@contextmanager
def stranger(server: Secured, root: int) -> Iterator[KazooClient]:
    """Somebody on the machine with a tool of their own."""
    tool = KazooClient(f"127.0.0.1:{server.port}/{root}")
    tool.start()
    try:
        yield tool
    finally:
        tool.stop()
        tool.close()


async def test_neither_logins_nor_what_nodes_hold_are_ever_logged(
    server: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    settings = server.settings(secure=False, zookeeper_set_acl="true", **jaas("broker", "b-secret"))
    async with opened(settings, digest="me:d-secret") as session:
        await session.multi([Create("/config"), Create("/config/users", b"n-secret")])
        assert (await session.get("/config/users")).data == b"n-secret"
    for secret in ("b-secret", "d-secret", "n-secret"):
        assert secret not in caplog.text


async def test_nodes_are_everybodys_without_it(server: Secured) -> None:
    root = next(roots)
    async with opened(server.settings(root=root)) as session:
        await session.multi([Create("/a", b"0")])
    async with opened(server.settings(root=root, secure=False)) as session:
        assert (await session.multi([SetData("/a", b"1")]))[0].ok


REFUSED: Sequence[tuple[dict[str, str], str]] = (
    ({"zookeeper_ssl_truststore_location": "other.pem"}, "certificate is not trusted"),
    ({"zookeeper_connect": "127.0.0.1:{secure}/x"}, "certificate is not trusted"),
    ({"zookeeper_connect": "localhost:{plain}/x"}, "secureClientPort"),
    (jaas("broker", "wrong"), "refused the login"),
)


@pytest.mark.parametrize(("more", "said"), REFUSED, ids=[said for _, said in REFUSED])
async def test_what_does_not_fit_is_told(server: Secured, more: dict[str, str], said: str) -> None:
    named = {
        name: text.format(secure=server.secure_port, plain=server.port)
        if "connect" in name
        else str(server.place / text)
        if "location" in name
        else text
        for name, text in more.items()
    }
    store = zookeeper_store(server.settings(zookeeper_connection_timeout_ms="1500", **named))
    with pytest.raises((StoreUnavailable, UsageError), match=said):
        await store.reach()
    await store.close()


async def test_a_name_that_is_not_in_the_certificate_passes_where_nobody_looks(
    server: Secured,
) -> None:
    settings = server.settings(
        zookeeper_connect=f"127.0.0.1:{server.secure_port}/names",
        zookeeper_ssl_endpoint_identification_algorithm="",
    )
    async with opened(settings) as session:
        assert await session.get("/") is not None


def test_protection_without_a_login_is_refused() -> None:
    settings = BrokerSettings.parse({"zookeeper.connect": "zk:2181", "zookeeper.set.acl": "true"})
    with pytest.raises(UsageError, match=r"zookeeper\.set\.acl is true, but .* who made the nodes"):
        zookeeper_store(settings)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.pem", None, "No such file"),
        ("empty.pem", b"", "At least one certificate expected"),
        ("wrong.p12", b"\x30x", "the password is wrong, or it is no PKCS12"),
        ("some.jks", b"x", "it is no JKS"),
    ],
)
def test_a_store_of_certificates_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    given = {
        "zookeeper.connect": "zk:2181",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(file),
    }
    if not name.endswith(".pem"):
        given["zookeeper.ssl.truststore.password"] = "x"
    with pytest.raises(UsageError, match=said):
        zookeeper_store(BrokerSettings.parse(given))
