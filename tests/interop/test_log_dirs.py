"""Logs that move between a broker's directories, asked for by kafka-python and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartitionReplica
from kafka.errors import LogDirNotFoundError, NoError, ReplicaNotAvailableError

from klamm import Cluster
from klamm.cli.__main__ import main


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp("dirs")
    settings = {"log.dirs": "one,two", "num.partitions": 1}
    with Cluster(2, settings=settings, data=data) as running:
        yield running


@pytest.fixture
def klamm(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", cluster.bootstrap_servers)

    def run(*args: str) -> tuple[int, str]:
        code = main(args)
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def directories(cluster: Cluster, broker: int) -> list[Path]:
    return [Path(cluster.data) / f"broker-{broker}" / name for name in ("one", "two")]


def home_of(cluster: Cluster, broker: int, name: str) -> tuple[Path, Path]:
    """Where a log is, and where else it could be."""
    one, two = directories(cluster, broker)
    assert (one / name).exists() != (two / name).exists()
    return (one, two) if (one / name).exists() else (two, one)


def arrives(path: Path, admin: KafkaAdminClient) -> bool:
    """Whether a log is here at last; asking its broker lets the time pass that a move takes."""
    for _ in range(2000):
        admin.describe_log_dirs()
        if path.exists():
            return True
    return False


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield client
    client.close()


def test_kafka_python_moves_a_log(cluster: Cluster, admin: KafkaAdminClient) -> None:
    cluster.create_topic("moved", partitions=1, replication_factor=2)
    for broker in (0, 1):
        source, target = home_of(cluster, broker, "moved-0")
        replica = TopicPartitionReplica("moved", 0, broker)
        assert admin.alter_replica_log_dirs({replica: "/nowhere"}) == {replica: LogDirNotFoundError}
        assert admin.alter_replica_log_dirs({replica: str(target)}) == {replica: NoError}
        assert arrives(target / "moved-0", admin)
        assert not (source / "moved-0").exists()


def test_a_replica_goes_where_the_plan_says(
    cluster: Cluster,
    admin: KafkaAdminClient,
    klamm: Callable[..., tuple[int, str]],
    tmp_path: Path,
) -> None:
    assert klamm("topics", "create", "planned", "--assignment", "0")[0] == 0
    cluster.wait_for_topic("planned")
    for wanted in directories(cluster, 1):
        replica = TopicPartitionReplica("planned", 0, 1)
        asked = admin.alter_replica_log_dirs({replica: str(wanted)})
        assert asked == {replica: ReplicaNotAvailableError}
    plan = {
        "topic": "planned",
        "partition": 0,
        "replicas": [1, 0],
        "log_dirs": [str(directories(cluster, 1)[0]), "any"],
    }
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [plan]}))
    assert klamm("reassign", "apply", str(file)) == (0, "started 1 move\n")
    cluster.wait_until(
        lambda view: all(
            sorted(b.partitions("planned")[0].isr) == [0, 1] for b in view.brokers.values()
        )
    )
    assert (directories(cluster, 1)[0] / "planned-0").exists()


def test_the_command_line_moves_logs_and_says_where_they_are(
    cluster: Cluster, admin: KafkaAdminClient, klamm: Callable[..., tuple[int, str]]
) -> None:
    cluster.create_topic("placed", partitions=2, replication_factor=1)
    (broker,) = (cluster.partition("placed", 0) or pytest.fail("no partition")).replicas
    _, target = home_of(cluster, broker, "placed-0")
    code, said = klamm("brokers", "move-logs", str(broker), str(target), "placed-0")
    assert (code, said) == (0, f"1 log of broker {broker} will be in {target}\n")
    assert arrives(target / "placed-0", admin)
    code, said = klamm("brokers", "dirs", str(broker), "-o", "json")
    rows = json.loads(said)
    assert [row["directory"] for row in rows] == list(map(str, directories(cluster, broker)))
    assert all(row["state"] == "online" and not row["arriving"] for row in rows)
    assert str(target) in klamm("brokers", "dirs")[1]
    code, said = klamm("brokers", "move-logs", str(broker), "/nowhere", "placed-0")
    assert code == 1
    assert "LOG_DIR_NOT_FOUND" in said


def test_the_drop_in_starts_tells_and_cancels_moves_between_directories(
    cluster: Cluster, klamm: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    cluster.create_topic("packed", partitions=1, replication_factor=1)
    fill = "kafka-console-producer --topic packed --bootstrap-server"
    with pytest.MonkeyPatch.context() as patch, (tmp_path / "lines").open("w+") as lines:
        lines.write(f"{'x' * 1000}\n" * 3000)
        lines.seek(0)
        patch.setattr("sys.stdin", lines)
        assert klamm(*fill.split(), cluster.bootstrap_servers)[0] == 0
    broker = cluster.wait_for_leader("packed")
    home, other = home_of(cluster, broker, "packed-0")
    plan = tmp_path / "plan.json"

    def tool(*words: str) -> tuple[int, list[str]]:
        where = ["--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file"]
        code, said = klamm("kafka-reassign-partitions", *where, str(plan), *words)
        return code, said.splitlines()

    def want(directory: Path) -> None:
        entry = {"topic": "packed", "partition": 0, "replicas": [broker]}
        plan.write_text(json.dumps({"partitions": [{**entry, "log_dirs": [str(directory)]}]}))

    want(other)
    code, told = tool("--execute", "--replica-alter-log-dirs-throttle", "1000")
    begun = f"Successfully started moving log directory to {other} for replica packed-0 with broker"
    assert (code, told[-1].strip()) == (0, f"{begun} {broker}")
    code, told = tool("--verify")
    going = f"Reassignment of replica packed-0-{broker} is still in progress."
    assert (code, told[2:]) == (0, [going])
    code, told = tool("--cancel", "--preserve-throttles")
    assert (code, told[0]) == (0, "None of the specified partition reassignments are active.")
    assert told[1].startswith(f"Successfully started moving log directory to {home} for replica")
    code, told = tool("--verify")
    stays = f"is not being moved from log dir {home} to {other}."
    assert told[2] == f"Partition packed-0 on broker {broker} {stays}"
    want(home)
    done = f"Reassignment of replica packed-0-{broker} completed successfully."
    assert tool("--verify")[1][2] == done
