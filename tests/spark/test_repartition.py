"""Topics in another number of partitions: order, proof, groups, interruptions, undo."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from pyspark.sql import SparkSession

from klamm import Cluster as Running
from klamm.cli.__main__ import main
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.partitioner import partition_of
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.model.settings.topic import KEPT_UNTIL
from klamm.pipelines.jobs.progress import Silent
from klamm.pipelines.repartition import repartition as pipeline
from klamm.pipelines.repartition.plan import stretches
from klamm.pipelines.repartition.repartition import Repartitioning, RepartitionReport
from klamm.pipelines.repartition.steps import TopicCluster
from klamm.pipelines.repartition.undoing import undo
from spark.conftest import FOREIGN, LARGE

pytestmark = pytest.mark.skipif(FOREIGN is not None, reason="names are exchanged by klamm alone")

KEYS = 40
RECORDS = 600 * LARGE


@pytest.fixture(scope="module")
def trio() -> Iterator[Running]:
    with Running(brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(trio: Running) -> TopicCluster:
    options = ConnectionOptions(bootstrap=parse_bootstrap(trio.bootstrap_servers))
    return TopicCluster(Lookup(options), None)


class Writing:
    """A producer that goes on while a topic is re-partitioned."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 2, "partitioner": "murmur2_random"}
        )
        self._topic = topic
        self._stop = threading.Event()
        self.written: list[tuple[bytes | None, bytes]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def some(self, count: int) -> None:
        for n in range(count):
            number = len(self.written)
            key = None if number % 11 == 0 else b"k%d" % (n * 7 % KEYS)
            value = b"%d" % number
            self._producer.produce(self._topic, value, key, on_delivery=self._noted)
            self.written.append((key, value))
            self._producer.poll(0)
        self._producer.flush(60)

    def _noted(self, fault: Any, message: Any) -> None:
        if fault is not None:
            self.written.remove((message.key(), message.value()))

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.some(20)


def content(cluster: TopicCluster, servers: str, topic: str) -> dict[int, list[Any]]:
    """The records of each partition, in order."""
    ends = cluster.lookup.latest(cluster.topic(topic).partitions)
    found: dict[int, list[Any]] = {tp.partition: [] for tp in ends}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "looks"})
    consumer.assign([Place(topic, tp.partition, 0) for tp in ends])
    while sum(map(len, found.values())) < sum(ends.values()):
        message = consumer.poll(20)
        assert message is not None, {p: len(own) for p, own in found.items()}
        assert message.error() is None, message.error()
        found[message.partition()].append((message.key(), message.value()))
    consumer.close()
    return found


def check_order(
    found: dict[int, list[Any]], written: list[tuple[bytes | None, bytes]], targets: int
) -> None:
    """Every record once, each key in its partition and in its order."""
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for partition, records in found.items():
        for key, value in records:
            if key is not None:
                assert partition == partition_of(key, targets), (key, partition)
            by_key[key].append(int(value))
    wanted: dict[bytes | None, list[int]] = defaultdict(list)
    for key, value in written:
        wanted[key].append(int(value))
    assert sorted(by_key.pop(None, [])) == sorted(wanted.pop(None, []))
    assert by_key == wanted


def repartitioned(
    spark: SparkSession,
    cluster: TopicCluster,
    topic: str,
    targets: int,
    root: Path,
    progress: Silent | None = None,
) -> RepartitionReport:
    return Repartitioning(spark, cluster, topic, targets, root, 20.0, progress or Silent()).run()


def read(servers: str, topic: str, group: str, wanted: int, seen: set[bytes]) -> None:
    """Lets a group read until it has seen so many values, and commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    while len(seen) < wanted:
        message = consumer.poll(30)
        assert message is not None, (group, len(seen), wanted)
        assert message.error() is None, message.error()
        seen.add(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()


def made(cluster: TopicCluster, servers: str, topic: str, count: int = RECORDS) -> Writing:
    cluster.lookup.create(topic, 6, replicas=2, configs={"retention.ms": "-1"})
    writing = Writing(servers, topic)
    writing.some(count)
    return writing


@pytest.mark.parametrize("targets", [4, 12, 1, 7])
def test_a_topic_that_is_written_and_read(
    spark: SparkSession, cluster: TopicCluster, trio: Running, tmp_path: Path, targets: int
) -> None:
    topic, servers = f"orders-{targets}", trio.bootstrap_servers
    writing = made(cluster, servers, topic)
    seen: dict[str, set[bytes]] = {}
    for group, count in (("first", RECORDS // 10), ("second", RECORDS // 2), ("third", RECORDS)):
        name = f"{group}-{targets}"
        read(servers, topic, name, count, seen.setdefault(name, set()))
    with writing:
        report = repartitioned(spark, cluster, topic, targets, tmp_path)
    assert (report.violations, report.faults, report.is_swapped) == (0, [], True)
    assert report.way == {4: "shuffle", 12: "grow", 1: "shrink", 7: "shuffle"}[targets]
    found = content(cluster, servers, topic)
    # A producer that has not heard of the new count yet chooses by the old one for a moment.
    copied = {p: own[: report.target_records[p]] for p, own in found.items()}
    check_order(copied, writing.written[: report.records], targets)
    everything = {value for own in found.values() for _, value in own}
    assert everything == {value for _, value in writing.written}
    for group, values in seen.items():
        assert report.groups_before[group]
        read(servers, topic, group, len(writing.written), values)
        assert values == everything
    assert cluster.lookup.configs(topic) == {"retention.ms": "-1"}
    old = content(cluster, servers, report.kept_as)
    assert sum(map(len, old.values())) == report.records


class Broken(Exception):
    """The process died here."""


class DiesAt(Silent):
    """A watcher under which the driver dies when a step begins."""

    def __init__(self, step: str) -> None:
        self._step = step

    def begin(self, what: str, total: int) -> None:
        if what.startswith(self._step):
            raise Broken(what)


def test_killed_at_any_step_it_goes_on(
    spark: SparkSession,
    cluster: TopicCluster,
    trio: Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, servers = "killed", trio.bootstrap_servers
    writing = made(cluster, servers, topic)
    seen: set[bytes] = set()
    read(servers, topic, "killed-readers", 100, seen)
    monkeypatch.setattr(Repartitioning, "_thaw", lambda *_: None)  # who is killed undoes nothing
    # The first run, what came while it was made, and again for the last one of the frozen topic.
    for step in ("copying", "proving", "copying", "proving"):
        with pytest.raises(Broken):
            repartitioned(spark, cluster, topic, 4, tmp_path, DiesAt(step))
    with pytest.raises(UsageError, match="is on its way to 4 partitions"):
        repartitioned(spark, cluster, topic, 5, tmp_path)
    for name, is_done in (("swap", False), ("swap", True), ("unfreeze", False)):
        whole = getattr(TopicCluster, name)

        def dies(*given: Any, whole: Any = whole, is_done: bool = is_done) -> None:
            if is_done:
                whole(*given)
            raise Broken

        with monkeypatch.context() as patched:
            patched.setattr(TopicCluster, name, dies)
            with pytest.raises(Broken):
                repartitioned(spark, cluster, topic, 4, tmp_path)
    report = repartitioned(spark, cluster, topic, 4, tmp_path)
    assert (report.violations, report.faults, report.is_swapped) == (0, [], True)
    check_order(content(cluster, servers, topic), writing.written, 4)
    read(servers, topic, "killed-readers", RECORDS, seen)
    writing.some(10)  # it takes records
    with pytest.raises(UsageError, match="has 4 partitions already"):
        repartitioned(spark, cluster, topic, 4, tmp_path)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (
            lambda windows: [w._replace(time=-w.first) for w in windows],
            "records come after a later one of their key",
        ),
        (lambda windows: windows[:-1], "records were to be copied"),
    ],
    ids=["misorder", "loss"],
)
def test_what_is_planted_is_found(
    spark: SparkSession,
    cluster: TopicCluster,
    trio: Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[Any], Any],
    words: str,
) -> None:
    topic, servers = f"planted-{len(words)}", trio.bootstrap_servers
    writing = made(cluster, servers, topic)
    monkeypatch.setattr(pipeline, "fitting_window", lambda _: 64)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "stretches", lambda *given: plant(stretches(*given)))
        with pytest.raises(KlammError, match=words):
            repartitioned(spark, cluster, topic, 4, tmp_path)
    told = json.loads(next(tmp_path.rglob("report.json")).read_text())
    assert any(words in fault for fault in told["faults"])
    assert not told["is_swapped"]
    writing.some(10)  # nothing was exchanged, and it takes records
    report = repartitioned(spark, cluster, topic, 4, tmp_path)  # made anew
    assert report.faults == []
    check_order(content(cluster, servers, topic), writing.written, 4)


def test_undo(spark: SparkSession, cluster: TopicCluster, trio: Running, tmp_path: Path) -> None:
    topic, servers = "undone", trio.bootstrap_servers
    writing = made(cluster, servers, topic, 200)
    before = content(cluster, servers, topic)
    cluster.lookup.commit("undone-readers", {TopicPartition(topic, 5): Committed(3)})
    with pytest.raises(Broken):
        repartitioned(spark, cluster, topic, 3, tmp_path, DiesAt("copying"))
    assert not undo(cluster, topic, tmp_path, group_patience_s=5).was_swapped
    report = repartitioned(spark, cluster, topic, 3, tmp_path)
    writing.some(7)
    done = undo(cluster, topic, tmp_path, group_patience_s=5)
    since = len(writing.written) - 200  # some were for partitions that were gone
    assert (done.was_swapped, done.written_since) == (True, since)
    assert content(cluster, servers, topic) == before
    assert cluster.lookup.committed("undone-readers")[TopicPartition(topic, 5)].offset == 3
    assert sum(map(len, content(cluster, servers, report.kept_as).values())) == 200 + since
    writing.some(1)
    with pytest.raises(UsageError, match="no re-partitioning of undone that could be undone"):
        undo(cluster, topic, tmp_path, group_patience_s=5)


def test_topic_that_is_deleted_meanwhile(
    spark: SparkSession, cluster: TopicCluster, trio: Running, tmp_path: Path
) -> None:
    topic = "replaced"
    made(cluster, trio.bootstrap_servers, topic, 20)
    with pytest.raises(Broken):
        repartitioned(spark, cluster, topic, 3, tmp_path, DiesAt("copying"))
    cluster.lookup.delete(topic)
    trio.wait_for_no_topic(topic)
    with pytest.raises(UsageError, match="there is no topic replaced"):
        repartitioned(spark, cluster, topic, 3, tmp_path)
    cluster.lookup.create(topic, 2, replicas=1, configs={})
    with pytest.raises(UsageError, match="is another topic than the one"):
        repartitioned(spark, cluster, topic, 3, tmp_path)
    assert not undo(cluster, topic, tmp_path, group_patience_s=5).was_swapped
    assert "replaced.repartition-3" not in cluster.lookup.view(["replaced.repartition-3"]).topics
    assert cluster.topic(topic).leaders


def test_commands(
    cluster: TopicCluster, trio: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, servers = "told", trio.bootstrap_servers
    made(cluster, servers, topic, 300)
    line = ["repartition", topic, "--to", str(tmp_path), "-b", servers]
    assert main([*line, "--partitions", "3", "--dry-run", "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["records"] == sum(told["target_records"]) == 300
    assert (told["strange"], len(told["target_bytes"])) == (0, 3)
    assert main([*line, "--partitions", "6"]) == 2
    assert "told has 6 partitions already" in capsys.readouterr().err
    assert main([*line, "--partitions", "3"]) == 0
    out = capsys.readouterr().out
    assert "proven: every record is there once" in out
    assert re.search(r"kept as told\.repartition-3 until 20\d\d-.*, and then deleted", out)
    assert KEPT_UNTIL in cluster.lookup.configs("told.repartition-3")
    assert main(["repartition", "undo", topic, "--to", str(tmp_path), "-b", servers]) == 0
    assert "told is what it was before" in capsys.readouterr().out
    # What was written since is in the copy alone: it goes when somebody deletes it.
    assert KEPT_UNTIL not in cluster.lookup.configs("told.repartition-3")
