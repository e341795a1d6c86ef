"""Listeners and certificates that change while a broker runs (KIP-226)."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from guarded import Authority, Issued, Raw
from klamm import Cluster
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import incremental_alter_configs as messages
from klamm.protocol.messages import metadata

pytestmark = pytest.mark.interop
ALL = metadata.Request(topics=[])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("broker")


@pytest.fixture(scope="module")
def cluster(authority: Authority, issued: Issued) -> Iterator[Cluster]:
    prefix = "listener.name.ssl."
    stores = {prefix + name: text for name, text in authority.settings(issued).items()}
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", **stores}
    with Cluster(2, settings=settings) as running:
        yield running


def alter(cluster: Cluster, name: str, changes: Mapping[str, str | None]) -> str:
    """What broker 0 says to a change of a broker's settings; '' where it is made."""
    port = cluster._app.brokers[0].listeners.ports["PLAINTEXT"]
    configs = [
        messages.AlterableConfig(setting, 0 if text else 1, text)
        for setting, text in changes.items()
    ]
    asked = messages.Request(resources=[messages.AlterConfigsResource(4, name, configs)])
    with Raw(f"127.0.0.1:{port}") as raw:
        (answer,) = raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked).responses
    return answer.error_message or ""


def until(cluster: Cluster, listener: str, *, is_there: bool) -> None:
    """Wait until broker 0 hands a listener out, or no longer, in everybody's view."""

    def seen(view: object) -> bool:
        return all(
            any(e.listener == listener for e in broker.parts.metadata.snapshot.brokers[0].endpoints)
            is is_there
            for broker in cluster._app.brokers.values()
        )

    cluster.wait_until(seen)


def listening(cluster: Cluster) -> str:
    ports = cluster._app.brokers[0].listeners.ports
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def test_a_listener_comes_and_goes(cluster: Cluster) -> None:
    before = listening(cluster)
    added = {
        "listeners": f"{before},EXTRA://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,EXTRA:PLAINTEXT",
    }
    assert alter(cluster, "0", added) == ""
    until(cluster, "EXTRA", is_there=True)
    port = cluster._app.brokers[0].listeners.ports["EXTRA"]
    with Raw(f"127.0.0.1:{port}") as raw:
        assert [b.port for b in raw.ask(ApiKey.METADATA, 9, ALL).brokers] == [port]
        removed = dict.fromkeys(added)
        assert alter(cluster, "0", removed) == ""
        until(cluster, "EXTRA", is_there=False)
        assert raw.is_closed()
    assert listening(cluster) == before


@pytest.mark.parametrize(
    ("broker", "changes", "why"),
    [
        ("0", {"listeners": "SSL://127.0.0.1:0"}, "must be specified for inter-broker listener"),
        ("0", {"listeners": "PLAINTEXT://:0,X://:0"}, "must be subset of listener map"),
        ("0", {"listeners": "nonsense"}, "subset of listener map"),
        ("0", {"ssl.keystore.location": "/x"}, "only per-listener using the listener prefix"),
        ("0", {"listener.name.ssl.ssl.client.auth": "required"}, "for existing listener SSL"),
        ("0", {"listener.name.ssl.ssl.keystore.password": "x"}, "Password encoder secret not"),
        ("0", {"listener.name.ssl.ssl.keystore.location": "/none"}, "No such file"),
        ("0", {"inter.broker.listener.name": "SSL"}, "Cannot update these configs dynamically"),
        ("0", {"ssl.engine.factory.class": "com.example.X"}, "names a class of Java's"),
        ("", {"listeners": "PLAINTEXT://:0"}, "broker id must be specified"),
        ("", {"listener.name.ssl.ssl.keystore.password": "x"}, "only at broker level"),
    ],
)
def test_what_would_weaken_or_cannot_be_is_refused(
    cluster: Cluster, broker: str, changes: dict[str, str], why: str
) -> None:
    before = listening(cluster)
    assert why in alter(cluster, broker, changes)
    assert listening(cluster) == before


def shown(cluster: Cluster, authority: Authority) -> int:
    """The number of the certificate that broker 0 shows."""
    port = cluster._app.brokers[0].listeners.ports["SSL"]
    with Raw(f"127.0.0.1:{port}", authority.client_tls()) as raw:
        assert isinstance(raw.socket, ssl.SSLSocket)
        certificate = raw.socket.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)


def test_renewed_certificates_hold_for_new_connections(
    cluster: Cluster, authority: Authority, issued: Issued
) -> None:
    first = shown(cluster, authority)
    port = cluster._app.brokers[0].listeners.ports["SSL"]
    with Raw(f"127.0.0.1:{port}", authority.client_tls()) as raw:
        raw.ask(ApiKey.METADATA, 9, ALL)
        authority.issue("broker")  # the same file, the same names
        assert alter(cluster, "0", {"log.cleaner.threads": "1"}) == "", "any change makes it look"
        wait(lambda: shown(cluster, authority) != first)
        assert raw.ask(ApiKey.METADATA, 9, ALL).brokers, "open connections stay"


def test_a_certificate_of_somebody_else_is_not_taken(
    cluster: Cluster, authority: Authority
) -> None:
    before = shown(cluster, authority)
    other = authority.issue("other")
    location = {"listener.name.ssl.ssl.keystore.location": str(other.path)}
    assert "DistinguishedName does not match" in alter(cluster, "0", location)
    same = Issued(authority.issue("broker").certificate, authority.directory / "again.pem")
    same.write()
    location = {"listener.name.ssl.ssl.keystore.location": str(same.path)}
    assert alter(cluster, "0", location) == ""
    wait(lambda: shown(cluster, authority) != before)
    cluster.restart_broker(0)
    assert shown(cluster, authority) == same.certificate_serial, "it holds over a restart"


def wait(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen")
