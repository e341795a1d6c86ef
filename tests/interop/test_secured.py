"""Clients and commands before a cluster that wants TLS, certificates and passwords.

The doors are those of `doors`: real TLS, and a broker's half of SASL that verifies each proof.
`tests/interop_extra` does the same with Apache Kafka.
"""

from __future__ import annotations

import asyncio
import io
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from doors import PASSWORD, TOKEN, USER, Door, doors, server_tls
from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.client.addresses import parse_bootstrap
from klamm.client.aio.cluster import Client
from klamm.client.blocking.wire import close_idle, lease
from klamm.client.errors import ClientError, ConnectionLost, Distrusted
from klamm.client.settings import of_properties, parse_connection
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata

Properties = dict[str, str]
Ask = Callable[[str, Properties], int]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, settings={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusted(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Properties:
    path = tmp_path_factory.mktemp("trusted") / "ca.pem"
    ca.cert_pem.write_to_path(path)
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}
    return {"security.protocol": "SSL"} | store


@pytest.fixture
def build(cluster: Cluster) -> Iterator[Callable[..., list[Door]]]:
    with ExitStack() as stack:
        brokers = parse_bootstrap(cluster.bootstrap_servers)
        yield lambda *args, **more: stack.enter_context(doors(brokers, *args, **more))
        close_idle()


def with_asyncio(servers: str, given: Properties) -> int:
    """How many brokers an asyncio client sees; all of them are asked."""

    async def main() -> int:
        async with Client.of(servers, of_properties(given)) as client:
            await client.reach()
            picture = await client.refresh([])
            for node_id in picture.nodes:
                await client.at_node(node_id, ApiKey.METADATA, metadata.Request(topics=[]))
            return len(picture.nodes)

    return asyncio.run(main())


def with_blocking(servers: str, given: Properties) -> int:
    """The same with the blocking one."""
    reach = parse_connection(servers, given)
    request = metadata.Request(topics=[])
    with lease(reach.bootstrap[0], reach) as wire:
        found = wire.call(ApiKey.METADATA, request).brokers
    for broker in found:
        with lease((broker.host, broker.port), reach) as wire:
            wire.call(ApiKey.METADATA, request)
    return len(found)


BOTH = pytest.mark.parametrize("ask", [with_asyncio, with_blocking])


def signed_in(mechanism: str, tmp_path: Path) -> Properties:
    if mechanism == "OAUTHBEARER":
        (tmp_path / "token").write_text(f"{TOKEN}\n")
        url = (tmp_path / "token").as_uri()
        return {"sasl.mechanism": mechanism, "sasl.oauthbearer.token.endpoint.url": url}
    kind = mechanism.split("-")[0]
    module = f"org.apache.kafka.common.security.{kind.lower()}.{kind.capitalize()}LoginModule"
    jaas = f'{module} required username="{USER}" password="{PASSWORD}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


@BOTH
def test_tls_with_certificates_on_both_sides(
    ask: Ask, build: Any, ca: trustme.CA, trusted: Properties, tmp_path: Path
) -> None:
    built = build(server_tls(ca, clients=ca))
    with pytest.raises(ConnectionLost, match=r"certificate.*ssl\.keystore\.location"):
        ask(built[0].address, trusted)
    mine = ca.issue_cert("client.example")
    mine.private_key_and_cert_chain_pem.write_to_path(tmp_path / "me.pem")
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "me.pem")}
    assert ask(built[0].address, trusted | store) == 2
    one_line = {
        "ssl.keystore.certificate.chain": mine.cert_chain_pems[0].bytes().decode(),
        "ssl.keystore.key": mine.private_key_pem.bytes().decode(),
    }
    joined = {name: " ".join(pem.split("\n")) for name, pem in one_line.items()}
    close_idle()
    assert ask(built[0].address, trusted | joined) == 2
    stranger = trustme.CA().issue_cert("client.example")
    stranger.private_key_and_cert_chain_pem.write_to_path(tmp_path / "me.pem")
    other = {"ssl.certificate.location": str(tmp_path / "me.pem")}
    close_idle()
    with pytest.raises(ConnectionLost, match="does not trust our certificate"):
        ask(built[0].address, trusted | other)


@BOTH
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_signing_in_over_tls(
    ask: Ask, mechanism: str, build: Any, ca: trustme.CA, trusted: Properties, tmp_path: Path
) -> None:
    built = build(server_tls(ca), [mechanism])
    given = trusted | {"security.protocol": "SASL_SSL"} | signed_in(mechanism, tmp_path)
    assert ask(",".join(door.address for door in built), given) == 2
    assert all(door.logins for door in built)


@BOTH
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_secret_is_said_once(
    ask: Ask, mechanism: str, build: Any, ca: trustme.CA, tmp_path: Path
) -> None:
    built = build(None, [mechanism])
    given = {"security.protocol": "SASL_PLAINTEXT"} | signed_in(mechanism, tmp_path)
    if mechanism == "OAUTHBEARER":
        (tmp_path / "token").write_text("another.token")
        says = r"refused to let us in: .*invalid_token"
    else:
        given["sasl.password"] = "guessed"
        says = "refused to let us in: the user or the password is wrong$"
    with pytest.raises(Distrusted, match=says) as caught:
        ask(",".join(door.address for door in built), given)
    assert str(caught.value).count("refused") == 1
    assert sum(door.callers for door in built) == 1, "the others would say the same"


@BOTH
def test_what_else_can_be_wrong_is_said_with_what_to_do(
    ask: Ask, build: Any, ca: trustme.CA, trusted: Properties, cluster: Cluster, tmp_path: Path
) -> None:
    plain = cluster.bootstrap_servers.split(",")[0]
    (encrypted, _), (elsewhere, _) = build(server_tls(ca)), build(server_tls(ca, "b.example"))
    (guarded, _) = build(None, ["PLAIN", "SCRAM-SHA-512"])
    sasl = {"security.protocol": "SASL_PLAINTEXT"} | signed_in("SCRAM-SHA-256", tmp_path)
    cases: Sequence[tuple[str, Properties, type[ClientError], str]] = [
        (encrypted.address, {"security.protocol": "SSL"}, Distrusted, "ssl.truststore.location"),
        (elsewhere.address, trusted, Distrusted, "mismatch.*connect by a name"),
        (encrypted.address, {}, ClientError, "TLS.*security.protocol"),
        (plain, trusted, ClientError, "security.protocol to PLAINTEXT"),
        (plain, sasl, Distrusted, "nobody can sign in.*security.protocol to PLAINTEXT"),
        (guarded.address, sasl, Distrusted, "SCRAM-SHA-256, but PLAIN, SCRAM-SHA-512$"),
        (guarded.address, {}, ConnectionLost, "wants SASL.*security.protocol"),
    ]
    for address, given, kind, says in cases:
        with pytest.raises(kind, match=says) as caught:
            ask(address, given)
        assert str(caught.value).count(address) == 1, str(caught.value)
    unnamed = trusted | {"ssl.endpoint.identification.algorithm": ""}
    assert ask(elsewhere.address, unnamed) == 2
    unchecked = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
    assert ask(encrypted.address, unchecked) == 2


def test_a_server_of_tls_1_2_and_a_client_that_wants_more(
    build: Any, ca: trustme.CA, trusted: Properties
) -> None:
    import ssl

    old = server_tls(ca)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    (door, _) = build(old)
    assert with_blocking(door.address, trusted | {"ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}) == 2
    close_idle()
    with pytest.raises(ConnectionLost, match=r"TLS with .* failed"):
        with_blocking(door.address, trusted | {"ssl.enabled.protocols": "TLSv1.3"})


async def test_sessions_that_end_are_renewed_on_the_open_connection(
    build: Any, tmp_path: Path
) -> None:
    (door, _) = build(None, ["SCRAM-SHA-256"], lifetime_ms=300)
    given = {"security.protocol": "SASL_PLAINTEXT"} | signed_in("SCRAM-SHA-256", tmp_path)
    request = metadata.Request(topics=[])

    async def main() -> None:
        async with Client.of(door.address, of_properties(given)) as client:
            connection = await client.to_any(client.deadline())
            version = connection.version_of(ApiKey.METADATA)
            while door.logins < 3:
                asked = (connection.request(ApiKey.METADATA, version, request) for _ in range(3))
                assert all(answer.brokers for answer in await asyncio.gather(*asked))

    await main()
    reach = parse_connection(door.address, given)
    with lease(reach.bootstrap[0], reach) as wire:
        version = wire.version(ApiKey.METADATA)
        from klamm.protocol.codec import decode_response, encode_request

        wire.post(ApiKey.METADATA, version, encode_request(ApiKey.METADATA, version, request))
        while door.logins < 6:  # two are always under way, also while we sign in again
            wire.post(ApiKey.METADATA, version, encode_request(ApiKey.METADATA, version, request))
            assert decode_response(ApiKey.METADATA, version, wire.take()).brokers
        wire.take()
    assert door.callers == 2


@contextmanager
def _listener(says: bytes) -> Iterator[str]:
    """Somebody who is no broker: hears a little and says something."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            with caller:
                caller.recv(4096)
                caller.sendall(says)

    thread = threading.Thread(target=serve)
    thread.start()
    yield "127.0.0.1:{}".format(*server.getsockname()[1:])
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(10)


@BOTH
def test_somebody_who_is_no_broker(ask: Ask, trusted: Properties) -> None:
    from klamm.model.errors import KlammError

    with _listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        with pytest.raises(KlammError, match="does not speak Kafka's protocol"):
            ask(address, {})
        with pytest.raises(Distrusted, match="does not speak TLS"):
            ask(address, trusted)


COMMANDS = (
    "topics create paid -p 2 -r 2",
    "topics list",
    "topics describe paid",
    "topics alter paid -c retention.ms=100000",
    "topics explain paid",
    "topics freeze paid",
    "topics unfreeze paid",
    "produce paid",
    "consume paid -n 2",
    "topics copy paid paid-again -p 1",
    "story paid",
    "configs get --topic paid",
    "brokers list",
    "brokers describe 0",
    "brokers dirs 0",
    "elect preferred paid-0",
    "reassign status",
    "groups list",
    "kafka-topics --list",
    "kafka-configs --describe --entity-type topics --entity-name paid",
    "topics delete paid paid-again",
)


def test_every_command_comes_in_by_the_door(
    build: Any,
    ca: trustme.CA,
    trusted: Properties,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    built = build(server_tls(ca), ["SCRAM-SHA-512"])
    file = tmp_path / "client.properties"
    given = trusted | {"security.protocol": "SASL_SSL"} | signed_in("SCRAM-SHA-512", tmp_path)
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    servers = built[0].address
    for line in COMMANDS:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
        args = [*line.split(), "--bootstrap-server", servers, "--command-config", str(file)]
        assert main(args) == 0, f"{line}: {capfd.readouterr().err}"
    assert capfd.readouterr().out.count("SCRAM") == 0
    wrong = ["brokers", "list", "-b", servers, "-X", str(file), "-X", "sasl.password=guessed"]
    assert main(wrong) == 1
    assert "refused to let us in: the user or the password" in capfd.readouterr().err
    (guarded, _) = build(None, ["PLAIN"])
    assert main(["brokers", "list", "-b", guarded.address]) == 1
    said = capfd.readouterr().err
    assert "as one that wants SASL does: see security.protocol" in said
    assert "gave up" not in said, "a person should not have to wait for what will not pass"
    monkeypatch.setenv("KLAMM_COMMAND_CONFIG", str(file))
    assert main(["brokers", "list", "-b", servers]) == 0
