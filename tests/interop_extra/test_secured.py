"""Both drivers against an Apache Kafka that wants TLS, both ways, and a password.

Records are written by a sink's task, read by a source's, and archived by the command; the other
commands come in by the same door.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from interop_extra.kafka_server import kafka_server
from klamm.client.aio.cluster import Client
from klamm.client.blocking.wire import close_idle, lease
from klamm.client.errors import Distrusted
from klamm.client.settings import of_properties, parse_connection
from klamm.pipelines.source.fetcher import read_range
from klamm.pipelines.source.options import parse_read, parse_write
from klamm.pipelines.source.planning import plan_batch
from klamm.pipelines.source.sink import write_frames
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata
from unit.store.zookeeper_server import ZooKeeperServer

TOPIC = "behind-the-door"
JAAS = (
    'org.apache.kafka.common.security.{}.{}LoginModule required username="ada" password="a,=b"{};'
)


def _java_form(leaf: trustme.LeafCert) -> str:
    """A key in the one form that Java reads, and the certificate after it."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    form = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (form + leaf.cert_chain_pems[0].bytes()).decode()


@pytest.fixture(scope="module")
def secured(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A broker with a door, and what a client needs to come in."""
    place = tmp_path_factory.mktemp("secured")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(place / "ca.pem")
    (place / "broker.pem").write_text(_java_form(ca.issue_cert("127.0.0.1")))
    (place / "me.pem").write_text(_java_form(ca.issue_cert("client.example")))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        door = f"127.0.0.1:{probe.getsockname()[1]}"
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            plain = f"127.0.0.1:{other.getsockname()[1]}"
    settings = {
        "listeners": f"PLAINTEXT://{plain},SASL_SSL://{door}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS.format(
            "plain", "Plain", ' user_ada="a,=b"'
        ),
        **{
            f"listener.name.sasl_ssl.scram-sha-{bits}.sasl.jaas.config": JAAS.format(
                "scram", "Scram", ""
            )
            for bits in (256, 512)
        },
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": place / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": place / "ca.pem",
        "ssl.client.auth": "required",
        "offsets.topic.replication.factor": 1,
        # A session holds for a moment only: whoever stays has to sign in again.
        "connections.max.reauth.ms": 2000,
    }
    connect = f"{zookeeper.connect_string}/secured"
    with kafka_server(
        place / "data", connect, place / "output", settings, address=plain
    ) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(kind, 4096)
            change = UserScramCredentialUpsertion("ada", credential, b"a,=b")
            admin.alter_user_scram_credentials([change])["ada"].result(30)
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        yield {
            "bootstrap.servers": door,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(place / "ca.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(place / "me.pem"),
        }


def _named(mechanism: str) -> dict[str, str]:
    kind = mechanism.split("-")[0]
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": JAAS.format(kind.lower(), kind.capitalize(), ""),
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sink_and_source(secured: dict[str, str], mechanism: str) -> None:
    given = {f"kafka.{name}": v for name, v in (secured | _named(mechanism)).items()}
    frame = pa.RecordBatch.from_pydict({"value": [f"{mechanism} {i}" for i in range(1000)]})
    written = write_frames(parse_write(given | {"topic": TOPIC}), [frame], task=0)
    assert written.records == 1000
    options = parse_read(given | {"subscribe": TOPIC}, streaming=False)
    found = [
        bytes(value).decode()
        for split in plan_batch(options)
        for piece in split
        for frame in read_range(options, piece, ("value",))
        for value in frame.column("value").to_pylist()
    ]
    assert found[-1000:] == frame.column("value").to_pylist()
    close_idle()
    wrong = given | {"kafka.sasl.jaas.config": "", "kafka.sasl.username": "ada"}
    with pytest.raises(Distrusted, match="refused to let us in"):
        plan_batch(
            parse_read(
                wrong | {"kafka.sasl.password": "guessed", "subscribe": TOPIC}, streaming=False
            )
        )
    close_idle()


def test_archive(secured: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    given = secured | _named("SCRAM-SHA-512")
    config.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    line = ["archive", TOPIC, "--to", str(tmp_path / "a"), "--verify", "-o", "json"]
    line += ["-b", given["bootstrap.servers"], "--command-config", str(config)]
    ran = subprocess.run(
        [sys.executable, "-m", "klamm.cli", *line],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["records"] == 3000


def _klamm(config: Path, bootstrap: str, *words: str, stdin: str = "") -> str:
    line = [*words, "--bootstrap-server", bootstrap, "--command-config", str(config)]
    ran = subprocess.run(
        [sys.executable, "-m", "klamm.cli", *line],
        env=os.environ,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_commands(secured: dict[str, str], tmp_path: Path, mechanism: str) -> None:
    config = tmp_path / "client.properties"
    given = secured | _named(mechanism)
    config.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    door = given["bootstrap.servers"]
    name = f"made-with-{mechanism.lower()}"
    _klamm(config, door, "topics", "create", name, "-p", "1", "-r", "1")
    _klamm(config, door, "produce", name, stdin="one\ntwo\n")
    assert _klamm(config, door, "consume", name) == "one\ntwo\n"
    assert name in _klamm(config, door, "topics", "list")
    assert name in _klamm(config, door, "kafka-topics", "--list")
    _klamm(config, door, "groups", "list")


async def test_sessions_are_renewed(secured: dict[str, str]) -> None:
    given = {n: v for n, v in (secured | _named("SCRAM-SHA-256")).items() if n[0] == "s"}
    door = secured["bootstrap.servers"]
    request = metadata.Request(topics=[])
    end = time.monotonic() + 5  # more than twice as long as a session holds

    async def main() -> int:
        async with Client.of(door, of_properties(given)) as client:
            connection = await client.to_any(client.deadline())
            version, asked = connection.version_of(ApiKey.METADATA), 0
            while time.monotonic() < end:
                await connection.request(ApiKey.METADATA, version, request)
                asked += 1
            return asked

    assert await main() > 10
    reach = parse_connection(door, given)
    end += 5
    with lease(reach.bootstrap[0], reach) as wire:
        while time.monotonic() < end:
            assert wire.call(ApiKey.METADATA, request).brokers
    close_idle()
