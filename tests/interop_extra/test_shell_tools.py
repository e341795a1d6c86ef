"""Kafka's shell tools, the ones operators have in their fingers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interop_extra.kafka import VERSIONS, shell
from interop_extra.lives import SETTINGS
from klamm import Cluster

TOPIC = "life-in-the-shell"


class Shell:
    """The tools of one version, pointed at one cluster."""

    def __init__(self, version: str, cluster: Cluster) -> None:
        self._version = version
        self._bootstrap = cluster.bootstrap_servers

    def __call__(self, name: str, *words: str, stdin: str = "") -> str:
        return shell(
            self._version, name, "--bootstrap-server", self._bootstrap, *words, stdin=stdin
        )


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_topics_life_with_the_shell_tools(
    klamm_cluster: Cluster, version: str, tmp_path: Path
) -> None:
    tools = Shell(version, klamm_cluster)
    tools("kafka-topics", "--create", "--topic", TOPIC, "--partitions", "2", *_factor(3))
    described = tools("kafka-topics", "--describe", "--topic", TOPIC)
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 3", described), described
    assert len(re.findall(r"Leader: [012]\s+Replicas: \d,\d,\d\s+Isr: \d,\d,\d", described)) == 2

    _records(tools)
    _group(tools)
    _configs(tools)
    tools("kafka-topics", "--alter", "--topic", TOPIC, "--partitions", "3")
    klamm_cluster.wait_for_topic(TOPIC, partitions=3)
    _reassign(tools, klamm_cluster, tmp_path / "plan.json")
    _elect(tools, klamm_cluster)

    tools("kafka-topics", "--delete", "--topic", TOPIC)
    klamm_cluster.wait_for_no_topic(TOPIC)
    assert TOPIC not in tools("kafka-topics", "--list").split()


def _factor(count: int) -> tuple[str, str]:
    return ("--replication-factor", str(count))


def _records(tools: Shell) -> None:
    written = [f"key-{at}\tvalue {at}" for at in range(100)]
    tools(
        *("kafka-console-producer", "--topic", TOPIC, "--property", "parse.key=true"),
        *("--producer-property", "acks=all", "--producer-property", "enable.idempotence=true"),
        stdin="\n".join(written) + "\n",
    )
    read = tools(
        *("kafka-console-consumer", "--topic", TOPIC, "--from-beginning", "--group", "shell"),
        *("--property", "print.key=true", "--max-messages", "100", "--timeout-ms", "60000"),
    )
    # A tool may say before that a flag is going to have another name.
    assert sorted(line for line in read.splitlines() if "\t" in line) == sorted(written)
    ends = tools("kafka-get-offsets", "--topic", TOPIC).split()
    assert sum(int(line.rsplit(":", 1)[1]) for line in ends) == 100


def _group(tools: Shell) -> None:
    assert tools("kafka-consumer-groups", "--list").split() == ["shell"]
    rows = _rows(tools("kafka-consumer-groups", "--describe", "--group", "shell"))
    assert sum(int(row["CURRENT-OFFSET"]) for row in rows) == 100
    assert [row["LAG"] for row in rows] == ["0", "0"]
    state = _rows(tools("kafka-consumer-groups", "--describe", "--group", "shell", "--state"))
    assert [row["GROUP"] for row in state] == ["shell"]
    tools(
        *("kafka-consumer-groups", "--group", "shell", "--topic", TOPIC),
        *("--reset-offsets", "--to-earliest", "--execute"),
    )
    rows = _rows(tools("kafka-consumer-groups", "--describe", "--group", "shell"))
    assert sum(int(row["LAG"]) for row in rows) == 100
    tools("kafka-consumer-groups", "--delete", "--group", "shell")
    assert tools("kafka-consumer-groups", "--list").split() == []


def _rows(table: str) -> list[dict[str, str]]:
    """A table with a line of titles, as the tools print it."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    (head,) = [at for at, words in enumerate(lines) if words[0] == "GROUP"]
    return [dict(zip(lines[head], words, strict=False)) for words in lines[head + 1 :]]


def _configs(tools: Shell) -> None:
    topic = ("--entity-type", "topics", "--entity-name", TOPIC)
    tools("kafka-configs", "--alter", *topic, "--add-config", "retention.ms=86400001")
    described = tools("kafka-configs", "--describe", *topic)
    assert "retention.ms=86400001" in described
    tools("kafka-configs", "--alter", *topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools("kafka-configs", "--describe", *topic)
    broker = ("--entity-type", "brokers", "--entity-name", "0")
    everything = tools("kafka-configs", "--describe", *broker, "--all")
    assert re.search(r"^  log\.dirs=/\S*broker-0 ", everything, re.MULTILINE), everything
    assert re.search(r"^  listeners=PLAINTEXT://127", everything, re.MULTILINE)
    tools("kafka-configs", "--alter", "--user", "ann", "--add-config", "producer_byte_rate=1024")
    quotas = tools("kafka-configs", "--describe", "--entity-type", "users")
    assert "Quota configs for user-principal 'ann' are producer_byte_rate=1024.0" in quotas
    tools("kafka-configs", "--alter", "--user", "ann", "--delete-config", "producer_byte_rate")


def _reassign(tools: Shell, cluster: Cluster, plan: Path) -> None:
    """Partition 0 keeps one replica, on a broker that did not lead it."""
    before = cluster.partition(TOPIC, 0)
    assert before is not None
    target = before.replicas[1]
    move = {"topic": TOPIC, "partition": 0, "replicas": [target]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    file = ("--reassignment-json-file", str(plan))
    tools("kafka-reassign-partitions", *file, "--execute", "--throttle", "50000000")
    cluster.wait_until(
        lambda view: (at := view.partition(TOPIC, 0)) is not None and at.replicas == (target,)
    )
    verified = tools("kafka-reassign-partitions", *file, "--verify")
    assert f"Reassignment of partition {TOPIC}-0 is completed." in verified
    listed = tools("kafka-reassign-partitions", "--list")
    assert "No partition reassignments found." in listed


def _elect(tools: Shell, cluster: Cluster) -> None:
    """A restarted broker gets back what it led."""
    before = cluster.partition(TOPIC, 1)
    assert before is not None
    preferred = before.replicas[0]
    cluster.restart_broker(preferred)
    cluster.wait_for_isr(TOPIC, 1, size=3)
    assert cluster.wait_for_leader(TOPIC, 1) != preferred
    one = ("--topic", TOPIC, "--partition", "1")
    elected = tools("kafka-leader-election", "--election-type", "preferred", *one)
    assert "Successfully completed leader election" in elected
    cluster.wait_until(
        lambda view: (at := view.partition(TOPIC, 1)) is not None and at.leader == preferred
    )


@pytest.mark.klamm(brokers=2, settings={**SETTINGS, "log.dirs": "one,two"})
def test_logs_are_moved_to_the_directories_of_a_plan(
    klamm_cluster: Cluster, tmp_path: Path
) -> None:
    tools = Shell(VERSIONS[0], klamm_cluster)
    klamm_cluster.create_topic("placed", partitions=1, replication_factor=2)
    homes = {
        broker: next(Path(klamm_cluster.data, f"broker-{broker}").glob("*/placed-0")).parent
        for broker in (0, 1)
    }
    others = {
        b: home.with_name({"one": "two", "two": "one"}[home.name]) for b, home in homes.items()
    }
    partition = {
        "topic": "placed",
        "partition": 0,
        "replicas": [0, 1],
        "log_dirs": [str(others[0]), str(others[1])],
    }
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    words = ("kafka-reassign-partitions", "--reassignment-json-file", str(plan))
    said = tools(*words, "--execute", "--replica-alter-log-dirs-throttle", "10000000")
    assert said.count("Successfully started moving log directory") == 2, said
    assert "is complete" in tools(*words, "--verify")
    assert all((other / "placed-0").exists() for other in others.values())
    told = tools("kafka-log-dirs", "--describe", "--topic-list", "placed")
    (line,) = [line for line in told.splitlines() if line.startswith("{")]
    held = {
        (broker["broker"], directory["logDir"]): [p["partition"] for p in directory["partitions"]]
        for broker in json.loads(line)["brokers"]
        for directory in broker["logDirs"]
    }
    assert all(held[broker, str(other)] == ["placed-0"] for broker, other in others.items())
    assert all(held[broker, str(home)] == [] for broker, home in homes.items())
