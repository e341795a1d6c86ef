"""Kafka's own tools and clients before a secured cluster, and klamm's drop-ins beside them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop_extra.kafka import VERSIONS, java, shell
from interop_extra.toolbox import RUN_TIMEOUT
from klamm import Cluster, Security
from klamm.cli.__main__ import main

Drop = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    wishes = Security(users=["alice"], listeners=("SASL_SSL", "MTLS"))
    with Cluster(1, security=wishes) as running:
        yield running


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def where(cluster: Cluster) -> list[str]:
    config = str(cluster.clients / "admin.properties")
    return ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", config]


@pytest.fixture
def drop_in(where: list[str], capfd: pytest.CaptureFixture[str]) -> Drop:
    def run(tool: str, *words: str) -> str:
        capfd.readouterr()
        assert main([tool, *where, *words]) == 0
        return capfd.readouterr().out

    return run


def lines(text: str) -> list[str]:
    """Lines in an order: Kafka's tools have none."""
    return sorted(line.strip() for line in text.splitlines() if line.strip())


def test_lists_by_either_tool(version: str, where: list[str], drop_in: Drop) -> None:
    name = f"lists-{version}"
    added = ("--allow-principal", "User:alice", "--consumer", "--topic", name, "--group", name)
    theirs = shell(version, "kafka-acls", *where, "--add", *added)
    assert lines(drop_in("kafka-acls", "--add", *added)) == lines(theirs)
    denied = ("--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Write")
    drop_in("kafka-acls", "--add", *denied, "--topic", name, "--resource-pattern-type", "prefixed")
    for more in (
        ["--list", "--topic", name],
        ["--list", "--topic", name, "--resource-pattern-type", "match"],
        ["--list", "--topic", name, "--principal", "User:alice", "--principal", "User:nobody"],
    ):
        theirs = shell(version, "kafka-acls", *where, *more)
        assert lines(theirs)
        assert lines(drop_in("kafka-acls", *more)) == lines(theirs)
    gone = ("--remove", "--force", "--topic", name, "--group", name)
    shell(version, "kafka-acls", *where, *gone, "--resource-pattern-type", "any")
    assert drop_in("kafka-acls", "--list", "--topic", name, "--group", name) == ""


def test_credentials_by_either_tool(version: str, where: list[str], drop_in: Drop) -> None:
    name = f"carol-{version}"
    user = ("--entity-type", "users", "--entity-name", name)
    set_ = ("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=a b]")
    assert drop_in("kafka-configs", *set_) == shell(version, "kafka-configs", *where, *set_)
    described = shell(version, "kafka-configs", *where, "--describe", *user)
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert drop_in("kafka-configs", "--describe", *user) == described
    shell(version, "kafka-configs", *where, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert drop_in("kafka-configs", "--describe", *user) == ""


def test_a_token_of_kafkas_tool_lets_its_client_in(
    version: str, cluster: Cluster, where: list[str], drop_in: Drop, tmp_path: Path
) -> None:
    made = shell(
        version, "kafka-delegation-tokens", *where, "--create", "--max-life-time-period", "-1"
    )
    token, hmac = made.splitlines()[-1].split()[:2]
    assert token in drop_in("kafka-delegation-tokens", "--describe")
    given = dict(cluster.client_config("admin", "java"))
    given["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token}" password="{hmac}" tokenauth="true";'
    )
    file = tmp_path / "token.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    cluster_args = ("--bootstrap-server", cluster.bootstrap_servers)
    cluster.wait_for_controller()
    shell(version, "kafka-topics", *cluster_args, "--command-config", str(file), "--list")
    ended = drop_in(
        "kafka-delegation-tokens", "--expire", "--hmac", hmac, "--expiry-time-period", "-1"
    )
    assert "Completed expire operation" in ended
    assert token not in drop_in("kafka-delegation-tokens", "--describe")


@pytest.mark.parametrize("listener", ["SASL_SSL", "MTLS"])
def test_javas_clients_write_and_read(
    version: str, listener: str, cluster: Cluster, tmp_path: Path
) -> None:
    name = f"java-{version}-{listener}"
    cluster.create_topic(name, 1, 1)
    cluster.allow("alice", "produce", f"topic:{name}")
    cluster.allow("alice", "consume", f"topic:{name}", f"group:{name}")
    given = cluster.client_config("alice", "java", listener=listener)
    file = tmp_path / "alice.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in given.items()))
    to = ("--bootstrap-server", given["bootstrap.servers"], "--topic", name)
    # The newest tools warn of the old names of the option on stdout.
    old = version.startswith("3")
    writing, reading = (
        ("--producer.config", "--consumer.config") if old else ("--command-config",) * 2
    )
    shell(version, "kafka-console-producer", *to, writing, str(file), stdin="a coat\n")
    group = ("--group", name, "--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
    read = shell(version, "kafka-console-consumer", *to, reading, str(file), *group)
    assert read == "a coat\n"


@pytest.mark.parametrize("wrong", ["password", "expired"])
def test_javas_admin_is_told_what_is_wrong(cluster: Cluster, wrong: str, tmp_path: Path) -> None:
    listener = "SASL_SSL" if wrong == "password" else "MTLS"
    given = cluster.client_config("alice", "java", listener=listener, wrong=wrong)
    file = tmp_path / "wrong.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in given.items()))
    to = ("--bootstrap-server", given["bootstrap.servers"], "--command-config", str(file))
    done = subprocess.run(
        java("3.9.1", "org.apache.kafka.tools.TopicCommand", *to, "--list"),
        capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 1
    expected = "SaslAuthenticationException" if wrong == "password" else "SslAuthentication"
    assert expected in done.stdout + done.stderr


def test_kcat_takes_librdkafkas_file(cluster: Cluster) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("no kcat on this machine")
    file = str(cluster.clients / "admin.librdkafka.properties")
    done = subprocess.run(
        [kcat, "-F", file, "-L"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
