"""The commands against a running cluster: what they print, and their exit codes."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from klamm import Cluster
from klamm.cli.__main__ import main


class Said(NamedTuple):
    """How one command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)


Klamm = Callable[..., Said]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Leaders move when a test moves them, and not five seconds after a controller's restart.
    settings = {
        "auto.create.topics.enable": False,
        "auto.leader.rebalance.enable": False,
        "klamm.placement.strict.assignment": False,  # topics that never get a leader are wanted
    }
    with Cluster(3, settings=settings) as running:
        yield running


@pytest.fixture
def klamm(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Klamm:
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", cluster.bootstrap_servers)

    def run(*args: str, stdin: str = "") -> Said:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(args)
        said = capfdbinary.readouterr()
        return Said(code, said.out.decode(), said.err.decode())

    return run


@pytest.fixture
def kafka(cluster: Cluster, klamm: Klamm) -> Klamm:
    def run(tool: str, *args: str) -> Said:
        return klamm(tool, "--bootstrap-server", cluster.bootstrap_servers, *args)

    return run


def test_a_topic_is_created_described_altered_and_deleted(klamm: Klamm, cluster: Cluster) -> None:
    made = klamm("topics", "create", "orders", "-p", "3", "-r", "3", "-c", "retention.ms=1000")
    assert made == Said(0, "created topic orders: 3 partitions, replication factor 3\n", "")
    cluster.wait_for_isr("orders", size=3)

    (described,) = klamm("topics", "describe", "orders", "-o", "json").json()
    assert described["configs"] == {"retention.ms": "1000"}
    assert [p["isr"] for p in described["partitions"]] == [
        p["replicas"] for p in described["partitions"]
    ]
    text = klamm("topics", "describe", "orders").out
    assert "retention.ms = 1000" in text
    assert "PARTITION  LEADER  EPOCH" in text

    altered = klamm("topics", "alter", "orders", "-p", "5", "--unset", "retention.ms")
    assert altered == Said(0, "altered topic orders\n", "")
    cluster.wait_for_topic("orders", partitions=5)
    listed = klamm("topics", "list", "-o", "json").json()
    assert isinstance(listed, list)
    (entry,) = (topic for topic in listed if topic["name"] == "orders")
    assert (entry["partitions"], entry["replication_factor"]) == (5, 3)

    assert klamm("topics", "delete", "orders") == Said(0, "deleted topic orders\n", "")
    cluster.wait_for_no_topic("orders")
    assert "orders" not in klamm("topics", "list").out


def test_manual_assignments_are_kept(klamm: Klamm, cluster: Cluster) -> None:
    assert klamm("topics", "create", "placed", "--assignment", "0:1,2:0").code == 0
    cluster.wait_for_topic("placed", partitions=2)
    assert klamm("topics", "alter", "placed", "-p", "3", "--assignment", "1:2").code == 0
    cluster.wait_for_topic("placed", partitions=3)
    found = [cluster.partition("placed", at) for at in range(3)]
    assert [p.replicas for p in found if p] == [(0, 1), (2, 0), (1, 2)]


def test_a_dry_run_checks_and_changes_nothing(klamm: Klamm) -> None:
    said = klamm("topics", "create", "maybe", "-p", "2", "-r", "2", "--dry-run")
    assert said.out.startswith("would create topic maybe: 2 partitions, replication factor 2\n")
    assert "maybe" not in klamm("topics", "list").out
    assert klamm("topics", "create", "maybe", "-r", "9", "--dry-run").code == 1


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("topics", "create", "bad name"), 1, "topic 'bad name'"),
        (("topics", "create", "t", "-r", "7"), 1, "topic 't'"),
        (("topics", "create", "t", "-c", "retention.mz=1"), 1, "retention.mz"),
        (("topics", "create", "t", "-c", "retention.ms"), 2, "--config takes name=value"),
        (("topics", "create", "t", "-p", "1", "--assignment", "0"), 2, "already says"),
        (("topics", "create", "t", "--assignment", "0:0"), 2, "names a broker twice"),
        (("topics", "alter", "nobody", "-p", "3"), 1, "nobody"),
        (("topics", "alter", "t"), 2, "nothing to alter"),
        (("topics", "delete", "nobody"), 1, "there is no topic 'nobody'"),
        (("topics", "describe", "nobody"), 1, "there is no topic 'nobody'"),
        (("consume", "nobody"), 1, "there is no topic 'nobody'"),
        (("configs", "get"), 2, "give exactly one of --topic"),
        (("elect", "preferred"), 2, "name partitions"),
        (
            ("brokers", "describe", "77"),
            1,
            "there is no broker 77, or it is down; live brokers: 0, 1, 2",
        ),
        (
            ("brokers", "drain", "77"),
            1,
            "there is no broker 77, or it is down; live brokers: 0, 1, 2",
        ),
        (("reassign", "apply", "/absent"), 2, "cannot read /absent: No such file"),
        (("reassign", "cancel", "nobody-0"), 1, "nobody-0 is not being moved"),
    ],
)
def test_a_refusal_is_one_sentence(
    klamm: Klamm, args: tuple[str, ...], code: int, said: str
) -> None:
    result = klamm(*args)
    assert result.code == code
    assert said in result.err
    assert result.out == ""
    assert len(result.err.splitlines()) == 1


def test_an_unreachable_cluster_is_said_at_once(klamm: Klamm) -> None:
    said = klamm("topics", "list", "-b", "127.0.0.1:1")
    assert said.code == 1
    assert "no broker can be reached" in said.err


def test_records_go_in_and_come_out(klamm: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("lines", partitions=2, replication_factor=2)
    said = klamm(
        "produce", "lines", "--key-separator", ":", "-H", "from=test", stdin="a:1\nb:2\na:3\n"
    )
    assert (said.code, said.err) == (0, "wrote 3 records to lines\n")
    assert sorted(klamm("consume", "lines").out.splitlines()) == ["1", "2", "3"]
    assert klamm("consume", "lines", "-n", "1", "--key-separator", ":").out.count(":") == 1

    lines = [json.loads(line) for line in klamm("consume", "lines", "-o", "json").out.splitlines()]
    assert {(line["key"], line["value"]) for line in lines} == {("a", "1"), ("b", "2"), ("a", "3")}
    assert all(line["headers"] == [{"name": "from", "value": "test"}] for line in lines)
    # Equal keys are in one partition, in order.
    assert [line["value"] for line in lines if line["key"] == "a"] == ["1", "3"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_json_lines_survive_the_round_trip(klamm: Klamm, cluster: Cluster, codec: str) -> None:
    cluster.create_topic(f"copy-{codec}", partitions=1, replication_factor=3)
    line = '{"key_base64": "/w==", "value": "ü", "headers": [{"name": "h", "value": null}]}\n'
    produced = klamm("produce", f"copy-{codec}", "-f", "json", "--compression", codec, stdin=line)
    assert produced.code == 0
    consumed = klamm("consume", f"copy-{codec}", "-o", "json").json()
    assert isinstance(consumed, dict)
    assert consumed["key_base64"] == "/w=="
    assert consumed["value"] == "ü"
    assert consumed["headers"] == [{"name": "h", "value": None}]


def test_a_topic_is_copied_with_every_key_in_its_partition(klamm: Klamm, cluster: Cluster) -> None:
    """A compacted topic that grew: the values of a key meet again in the copy."""
    made = klamm("topics", "create", "grown", "-p", "2", "-r", "2", "-c", "cleanup.policy=compact")
    assert made.code == 0
    lines = "".join(f"k{at}:old\n" for at in range(40))
    assert klamm("produce", "grown", "--key-separator", ":", stdin=lines).code == 0
    assert klamm("topics", "alter", "grown", "-p", "5").code == 0
    cluster.wait_for_topic("grown", partitions=5)
    written = "".join(f"k{at}:new\n" for at in range(40))
    assert klamm("produce", "grown", "-H", "h=1", "--key-separator", ":", stdin=written).code == 0
    assert klamm("topics", "freeze", "grown").code == 0

    said = klamm("topics", "copy", "grown", "whole", "-p", "3", "--compression", "zstd")
    assert said == Said(0, "copied 80 records of grown to whole: 3 partitions\n", "")
    (described,) = klamm("topics", "describe", "whole", "-o", "json").json()
    assert described["configs"] == {"cleanup.policy": "compact"}
    assert (len(described["partitions"]), described["replication_factor"]) == (3, 2)

    def records(topic: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in klamm("consume", topic, "-o", "json").out.splitlines()]

    found = records("whole")
    homes = {record["key"]: record["partition"] for record in found}
    assert all(homes[record["key"]] == record["partition"] for record in found)
    last = {record["key"]: record["value"] for record in found}
    assert set(last.values()) == {"new"}
    what = ("key", "value", "headers", "timestamp")
    before, after = (
        sorted(json.dumps([record[name] for name in what]) for record in read)
        for read in (records("grown"), found)
    )
    assert before == after
    assert klamm("topics", "copy", "grown", "whole").err.count("already exists") == 1


def test_the_story_of_a_topic(klamm: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("told", partitions=1, replication_factor=3)
    records = klamm("story", "told", "-o", "json").json()
    assert isinstance(records, list)
    order = [(r["controller_epoch"], r["sequence"]) for r in records]
    assert order == sorted(order)
    assert {"time_ms", "cause", "subject", "before", "after", "why"} <= records[0].keys()
    text = klamm("story", "told").out
    assert "told-0" in text
    assert " -> " in text
    assert "there is no topic 'never'" in klamm("story", "never").err


def test_settings_are_set_read_and_unset(klamm: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("tuned", partitions=1, replication_factor=1)
    assert klamm("configs", "set", "-t", "tuned", "retention.ms=5000").code == 0
    got = klamm("configs", "get", "-t", "tuned", "retention.ms", "-o", "json").json()
    assert got == {"retention.ms": {"value": "5000", "source": "DYNAMIC_TOPIC_CONFIG"}}
    assert klamm("configs", "unset", "-t", "tuned", "retention.ms").code == 0
    assert "retention.ms" not in klamm("configs", "get", "-t", "tuned").out
    assert "retention.ms" in klamm("configs", "get", "-t", "tuned", "--all").out
    assert klamm("configs", "set", "-t", "tuned", "retention.ms=soon").code == 1


def test_brokers_are_listed(klamm: Klamm, cluster: Cluster) -> None:
    rows = klamm("brokers", "list", "-o", "json").json()
    assert isinstance(rows, list)
    assert [row["id"] for row in rows] == [0, 1, 2]
    assert [row["id"] for row in rows if row["controller"]] == [cluster.controller_id]
    assert "CONTROLLER" in klamm("brokers", "list").out
    assert klamm("brokers", "describe", "1").code == 0


def test_replicas_are_moved_as_planned(klamm: Klamm, cluster: Cluster) -> None:
    assert klamm("topics", "create", "moved", "--assignment", "0,1").code == 0
    cluster.wait_for_topic("moved", partitions=2)
    plan = klamm("reassign", "plan", "moved", "--brokers", "2").out
    assert klamm("reassign", "apply", "-", stdin=plan) == Said(0, "started 2 moves\n", "")
    cluster.wait_until(
        lambda view: all(
            b.partitions("moved")[at].replicas == (2,)
            for b in view.brokers.values()
            for at in range(2)
        )
    )
    assert klamm("reassign", "status").out == ""


def test_the_preferred_leader_is_elected(klamm: Klamm, cluster: Cluster) -> None:
    assert klamm("topics", "create", "led", "--assignment", "1:2").code == 0
    cluster.wait_for_isr("led", size=2)
    cluster.restart_broker(1)
    cluster.wait_for_isr("led", size=2)
    assert cluster.wait_for_leader("led") == 2
    assert "elected" in klamm("elect", "preferred", "led-0").out
    assert cluster.wait_for_leader("led", other_than=2) == 1
    assert "nothing to do" in klamm("elect", "preferred", "led-0").out


def test_a_broker_is_drained(klamm: Klamm, klamm_cluster: Cluster) -> None:
    where = ("-b", klamm_cluster.bootstrap_servers)
    create = ("topics", "create", "drained", "--assignment", "0:1,1:0,1:2")
    assert klamm(*create, *where).code == 0
    klamm_cluster.wait_for_isr("drained", size=2)
    plan = klamm("brokers", "drain", "0", "--dry-run", "-o", "json", *where).json()
    assert [entry["replicas"] for entry in plan["partitions"]] == [[2, 1], [1, 2]]
    assert "started 2 moves" in klamm("brokers", "drain", "0", *where).out
    klamm_cluster.wait_until(
        lambda view: all(
            0 not in p.replicas
            for b in view.brokers.values()
            for p in b.partitions("drained").values()
        )
    )
    assert klamm("reassign", "cancel", "drained-0", *where).code == 1


def test_groups_are_described_reset_and_deleted(klamm: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("read", partitions=1, replication_factor=1)
    assert klamm("produce", "read", stdin="1\n2\n3\n").code == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["read"])
    try:
        assert len(consumer.consume(2, timeout=20)) == 2
        consumer.commit(offsets=[TopicPartition("read", 0, 2)], asynchronous=False)
        assert "Stable" in klamm("groups", "list").out
        refused = klamm("groups", "reset", "readers", "-t", "read", "--to-earliest")
        assert (refused.code, "has active members" in refused.err) == (2, True)
    finally:
        consumer.close()
    described = klamm("groups", "describe", "readers", "-o", "json").json()
    assert isinstance(described, dict)
    (standing,) = described["offsets"]
    assert (standing["offset"], standing["end"], standing["lag"]) == (2, 3, 1)

    reset = ("groups", "reset", "readers", "-t", "read", "--to-earliest")
    assert "nothing was changed" in klamm(*reset).out
    assert klamm("groups", "describe", "readers", "-o", "json").json()["offsets"][0]["lag"] == 1
    assert klamm(*reset, "--execute").code == 0
    assert (
        json.loads(klamm("groups", "describe", "readers", "-o", "json").out)["offsets"][0]["lag"]
        == 3
    )
    assert klamm("groups", "delete", "readers") == Said(0, "deleted group readers\n", "")
    assert "readers" not in klamm("groups", "list").out


def test_groups_of_the_new_protocol_show_their_epochs(klamm: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("read-new", partitions=2, replication_factor=1)
    assert klamm("produce", "read-new", stdin="1\n2\n3\n").code == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "new-readers",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["read-new"])
    try:
        assert len(consumer.consume(3, timeout=20)) == 3
        listed = klamm("groups", "list", "-o", "json").json()
        assert {"group": "new-readers", "type": "consumer", "state": "Stable"} in listed
        said = klamm("groups", "describe", "new-readers").out
        assert said.startswith(
            "new-readers  consumer, Stable, 1 members, assignor uniform, epoch 1, assigned for 1\n"
        )
        assert "epoch 1: read-new 0,1\n" in said
        described = klamm("groups", "describe", "new-readers", "-o", "json").json()
        assert isinstance(described, dict)
        (member,) = described["members"]
        assert member["partitions"] == member["target"] == {"read-new": [0, 1]}
    finally:
        consumer.close()


def test_kafka_topics_prints_what_kafka_prints(kafka: Klamm, cluster: Cluster) -> None:
    create = ("kafka-topics", "--create", "--topic", "dropin")
    assert kafka(*create, "--partitions", "2", "--replication-factor", "2") == Said(
        0, "Created topic dropin.\n", ""
    )
    cluster.wait_for_isr("dropin", size=2)
    again = kafka(*create)
    assert again.code == 1
    assert again.err == ("Error while executing topic command : Topic 'dropin' already exists.\n")
    assert kafka(*create, "--if-not-exists") == Said(0, "", "")
    assert kafka("kafka-topics", "--list", "--topic", "drop.*") == Said(0, "dropin\n", "")

    header, *lines = kafka("kafka-topics", "--describe", "--topic", "dropin").out.splitlines()
    assert header.startswith("Topic: dropin\tTopicId: ")
    assert "\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: " in header
    assert [line.split("\t")[2] for line in lines] == ["Partition: 0", "Partition: 1"]
    healthy = kafka("kafka-topics", "--describe", "--under-replicated-partitions")
    assert "dropin" not in healthy.out

    alter = ("kafka-topics", "--alter", "--topic", "dropin", "--partitions", "3")
    assert kafka(*alter) == Said(0, "", "")
    cluster.wait_for_topic("dropin", partitions=3)
    assert kafka("kafka-topics", "--delete", "--topic", "dropin") == Said(0, "", "")
    cluster.wait_for_no_topic("dropin")
    gone = kafka("kafka-topics", "--delete", "--topic", "dropin")
    assert gone.code == 1
    assert "Topic 'dropin' does not exist as expected" in gone.err
    gently = kafka("kafka-topics", "--delete", "--topic", "dropin", "--if-exists")
    assert gently == Said(0, "", "")


def test_kafka_topics_waits_for_leaders_and_says_when_none_came(
    kafka: Klamm, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=1000\n")
    create = ("kafka-topics", "--create", "--topic", "nowhere", "--replica-assignment", "97:98")
    said = kafka(*create, "--command-config", str(file))
    assert said.code == 1
    assert "already exists" not in said.err, "the broker was asked again for what it had done"
    assert "REQUEST_TIMED_OUT" in said.err
    again = kafka(*create)
    assert "Topic 'nowhere' already exists." in again.err


def test_a_topic_that_never_had_a_leader_is_explained_and_deleted(klamm: Klamm) -> None:
    planned = klamm("topics", "create", "unborn", "--assignment", "97:98", "--dry-run")
    assert "unborn-0 stays New: no assigned replica is live" in planned.out
    # What the test before has left behind.
    assert "until one of brokers 97, 98 is there" in klamm("topics", "explain", "nowhere").out
    delete = ("topics", "delete", "nowhere")
    assert "topic nowhere is marked for deletion, and the deletion waits" in klamm(*delete).out
    assert "is being deleted already: see klamm topics explain" in klamm(*delete).err
    assert klamm(*delete, "--forget-broker", "97", "--forget-broker", "98", "--wait").code == 0
    assert "there is no topic 'nowhere'" in klamm("topics", "explain", "nowhere").err
    assert "there is no topic" in klamm(*delete).err


def test_kafka_topics_warns_of_what_is_deprecated_and_takes_no_id_for_none(kafka: Klamm) -> None:
    config = ("--config", "message.format.version=2.8")
    said = kafka("kafka-topics", "--create", "--topic", "old", *config)
    assert (said.code, said.err) == (0, "")
    warning, created = said.out.splitlines()
    assert warning.startswith("WARNING: message.format.version is deprecated")
    assert created == "Created topic old."
    zero = ("--topic-id", "AAAAAAAAAAAAAAAAAAAAAA", "--topic", "old")
    assert kafka("kafka-topics", "--describe", *zero).out.startswith("Topic: old\t")
    limit = ("--partition-size-limit-per-response", "few")
    assert kafka("kafka-topics", "--describe", *limit).code == 1
    assert kafka("kafka-topics", "--delete", "--topic", "old").code == 0


def test_kafka_configs_shows_and_deletes_only_what_was_set_for_a_broker(kafka: Klamm) -> None:
    setting, value = "log.cleaner.backoff.ms", "14999"
    done = "Completed updating default config for brokers in the cluster.\n"
    default = ("kafka-configs", "--alter", "--broker-defaults")
    assert kafka(*default, "--add-config", f"{setting}={value}") == Said(0, done, "")
    shown = kafka("kafka-configs", "--describe", "--broker-defaults").out.splitlines()
    assert shown[0] == "Default configs for brokers in the cluster are:"
    assert shown[1].startswith(f"  {setting}={value} ")
    own = kafka("kafka-configs", "--describe", "--broker", "0")
    assert own == Said(0, "Dynamic configs for broker 0 are:\n", "")
    wrong = kafka("kafka-configs", "--alter", "--broker", "0", "--delete-config", setting)
    assert wrong == Said(1, "", f"Invalid config(s): {setting}\n")
    assert kafka(*default, "--delete-config", setting) == Said(0, done, "")


def test_kafka_configs_of_all_brokers_shows_each_one_what_is_its_own(kafka: Klamm) -> None:
    own, default = ("log.cleaner.threads", "2"), ("log.cleaner.io.buffer.size", "600000")
    brokers = ("--entity-type", "brokers")
    alter = ("kafka-configs", "--alter", *brokers)
    try:
        for where, (name, value) in (
            (("--entity-name", "1"), own),
            (("--entity-default",), default),
        ):
            assert kafka(*alter, *where, "--add-config", f"{name}={value}").code == 0
        shown = kafka("kafka-configs", "--describe", *brokers).out
        parts = re.split(r"^(\S.*) are:$", shown, flags=re.MULTILINE)[1:]
        found = {
            title: [line.split("=")[0].strip() for line in body.splitlines() if line.strip()]
            for title, body in zip(parts[::2], parts[1::2], strict=True)
        }
        assert found == {
            "Dynamic configs for broker 0": [],
            "Dynamic configs for broker 1": [own[0]],
            "Dynamic configs for broker 2": [],
            "Default configs for brokers in the cluster": [default[0]],
        }
    finally:
        kafka(*alter, "--entity-name", "1", "--delete-config", own[0])
        kafka(*alter, "--entity-default", "--delete-config", default[0])


def test_kafka_configs_prints_what_kafka_prints(kafka: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("configured", partitions=1, replication_factor=1)
    about = ("--entity-type", "topics", "--entity-name", "configured")
    add = ("--add-config", "retention.ms=7,cleanup.policy=[compact,delete]")
    assert kafka("kafka-configs", "--alter", *about, *add) == Said(
        0, "Completed updating config for topic configured.\n", ""
    )
    said = kafka("kafka-configs", "--describe", *about).out.splitlines()
    assert said[0] == "Dynamic configs for topic configured are:"
    assert said[1].startswith("  cleanup.policy=compact,delete sensitive=false synonyms={")
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=7" in said[2]
    assert "DEFAULT_CONFIG:log.retention.hours=168" in said[2]

    wrong = kafka("kafka-configs", "--alter", *about, "--delete-config", "segment.bytes")
    assert wrong.code == 1
    assert "Invalid config(s): segment.bytes" in wrong.err
    drop = ("--delete-config", "retention.ms,cleanup.policy")
    assert kafka("kafka-configs", "--alter", *about, *drop).code == 0
    assert kafka("kafka-configs", "--describe", *about).out.splitlines() == said[:1]


def test_kafka_configs_sets_and_shows_quotas(kafka: Klamm) -> None:
    def alter(*args: str) -> Said:
        return kafka("kafka-configs", "--alter", *args)

    pair = ("--entity-type", "users", "--entity-name", "ann")
    pair += ("--entity-type", "clients", "--entity-default")
    rates = ("--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    assert alter(*pair, *rates) == Said(0, "Completed updating config for user ann.\n", "")
    line = "Quota configs for user-principal 'ann', the default client-id are "
    values = "producer_byte_rate=1024.0, request_percentage=12.5\n"
    assert kafka("kafka-configs", "--describe", *pair) == Said(0, line + values, "")
    any_client = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients")
    assert kafka("kafka-configs", "--describe", *any_client).out == line + values
    # The user alone, without any client, has none.
    assert kafka("kafka-configs", "--describe", "--user", "ann") == Said(0, "", "")

    assert alter("--ip", "127.0.0.9", "--add-config", "connection_creation_rate=5") == Said(
        0, "Completed updating config for ip 127.0.0.9.\n", ""
    )
    shown = kafka("kafka-configs", "--describe", "--entity-type", "ips").out
    assert shown == "Quota configs for ip '127.0.0.9' are connection_creation_rate=5.0\n"
    assert alter("--client-defaults", "--add-config", "consumer_byte_rate=100000000").out == (
        "Completed updating default config for clients in the cluster.\n"
    )

    wrong = alter("--ip", "127.0.0.9", "--delete-config", "connection_creation_rate,x")
    assert wrong.code == 1
    assert "Unexpected config names: x" in wrong.err
    unset = alter(*pair, "--delete-config", "consumer_byte_rate")
    assert (unset.code, "Invalid config(s): consumer_byte_rate" in unset.err) == (1, True)
    scram = alter("--user", "ann", "--add-config", "SCRAM-SHA-256=[password=x]")
    assert scram.out == "Completed updating config for user ann.\n"
    described = kafka("kafka-configs", "--describe", "--entity-type", "users").out
    assert "SCRAM credential configs for user-principal 'ann' are SCRAM-SHA-256=" in described
    assert alter("--user", "ann", "--delete-config", "SCRAM-SHA-256").code == 0

    assert alter(*pair, "--delete-config", "producer_byte_rate,request_percentage").code == 0
    assert alter("--ip", "127.0.0.9", "--delete-config", "connection_creation_rate").code == 0
    assert alter("--client-defaults", "--delete-config", "consumer_byte_rate").code == 0
    assert kafka("kafka-configs", "--describe", *pair) == Said(0, "", "")


def test_command_config_is_read_by_both_tools(kafka: Klamm, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=nightly\nrequest.timeout.ms=20000\n")
    config = ("--command-config", str(file))
    assert kafka("kafka-topics", "--list", *config).code == 0
    assert kafka("kafka-configs", "--describe", "--client", "none", *config).code == 0
    file.write_text("security.protocol=SSL\n")
    for refused in (
        kafka("kafka-topics", "--list", *config),
        kafka("kafka-configs", "--describe", "--client", "none", *config),
    ):
        assert refused.code == 1
        assert refused.err.count("set security.protocol to PLAINTEXT") == 1


def test_text_from_strangers_steers_no_terminal(klamm: Klamm, cluster: Cluster) -> None:
    evil = "\x1b]0;owned\x07[bold]g\nFAKE\u202e"
    klamm("topics", "create", "strange", "-p", "1")
    line = json.dumps({"key": evil, "value": evil})
    assert klamm("produce", "strange", "-f", "json", stdin=f"{line}\n").code == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": evil})
    try:
        consumer.commit(offsets=[TopicPartition("strange", 0, 1)], asynchronous=False)
    finally:
        consumer.close()
    shown = r"\x1b]0;owned\x07[bold]g\nFAKE\u202e"
    for words in (
        ("groups", "list"),
        ("groups", "describe", evil),
        ("consume", "strange", "--key-separator", "="),
        ("groups", "delete", evil),
        ("groups", "describe", evil),
    ):
        said = klamm(*words)
        assert not set(said.out + said.err) & set("\x1b\x07\u202e"), words
        assert shown in said.out + said.err, words
    assert klamm("consume", "strange", "--raw").out == f"{evil}\n"
    (record,) = [json.loads(klamm("consume", "strange", "-o", "json").out)]
    assert record["value"] == evil
    assert klamm("consume", "strange", "--raw", "-o", "json").code == 2


def test_records_go_through_patterns_and_begin_at_a_time(klamm: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("formed", partitions=2, replication_factor=1)
    lines = f"1 1000 old=x\n0 {time.time_ns() // 1_000_000} new=y\n"
    assert klamm("produce", "formed", "-f", "%p %t %k=%v", stdin=lines).code == 0
    shown = klamm("consume", "formed", "--format", "%T-%p@%o %k:%v")
    assert sorted(shown.out.splitlines()) == ["formed-0@0 new:y", "formed-1@0 old:x"]
    assert klamm("consume", "formed", "--from", "@-1h").out == "y\n"
    assert klamm("consume", "formed", "--from", "@-1w").code == 2
    refused = klamm("produce", "formed", "-f", "%k=%v", stdin="odd\n")
    assert (refused.code, "line 1 does not fit" in refused.err) == (2, True)
