"""`klamm up` as a user meets it: the ready line, signals, restarts and refusals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.process import data_args, refused, up
from klamm.app.one_process import ClusterApp
from klamm.app.plan import Plan
from klamm.log.directory import LogDirectory


def test_the_ready_line_names_brokers_that_serve(tmp_path: Path) -> None:
    with up(*data_args(tmp_path)) as running:
        addresses = running.bootstrap.split(",")
        assert len(addresses) == 3
        for address in addresses:
            known = AdminClient({"bootstrap.servers": address}).list_topics(timeout=10).brokers
            assert sorted(known) == [0, 1, 2]
        assert running.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_a_controlled_way(tmp_path: Path, number: signal.Signals) -> None:
    with up(*data_args(tmp_path, brokers=2)) as running:
        assert running.stop(number) == 0
        assert running.process.stderr is not None
        assert running.process.stderr.read() == ""
    for broker in (0, 1):
        assert (tmp_path / f"broker-{broker}" / ".kafka_cleanshutdown").exists()


def test_fixed_ports_follow_each_other(tmp_path: Path) -> None:
    first = _three_free_ports()
    with up("--port", str(first), "--data", str(tmp_path)) as running:
        assert running.bootstrap == ",".join(f"127.0.0.1:{first + at}" for at in range(3))
        assert running.stop() == 0


def test_a_second_start_brings_everything_back(tmp_path: Path) -> None:
    with up(*data_args(tmp_path)) as first:
        _create(first.bootstrap, "kept", partitions=4, replication_factor=3)
        _produce(first.bootstrap, "kept", [b"one", b"two", b"three"])
        assert first.stop() == 0
    with up(*data_args(tmp_path)) as second:
        assert _read(second.bootstrap, "kept", 3) == [b"one", b"two", b"three"]
        assert second.stop() == 0


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--port", str(port), "--brokers", "1", "--data", str(tmp_path))
    assert f"port {port} is taken" in said


def test_a_locked_directory_is_one_sentence(tmp_path: Path) -> None:
    with up(*data_args(tmp_path, brokers=1)) as running:
        said = refused(*data_args(tmp_path, brokers=1))
        assert f"{tmp_path} is in use by process {running.process.pid}" in said
        assert running.stop() == 0


def test_a_directory_that_cannot_be_written_is_one_sentence() -> None:
    assert "cannot write to /proc/klamm" in refused("--port", "0", "--data", "/proc/klamm")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-X", "log.retention.msec=5"], "log.retention.ms"),
        (["-X", "num.partitions=many"], "num.partitions"),
        (["-X", "num.partitions"], "-X takes name=value"),
        (["--brokers", "0"], "at least one broker"),
        (["--brokers", "3", "--rack", "a,b"], "2 racks were named for 3 brokers"),
        (["--zookeeper", ""], "the list of ZooKeeper servers is empty"),
        (["--zookeeper-nodes", "2"], "1, 3, 5 or 7 nodes, not 2"),
        (["--zookeeper", "h:1", "--zookeeper-nodes", "3"], "another was named"),
        (["--zookeeper", "h:1", "-X", "zookeeper.set.acl=true"], "who made the nodes"),
        (["--ephemeral", "--data", "/tmp/x"], "cannot be used together"),
        (["--port", "65535"], "leaves no room"),
        (["-X", "broker.id=1"], "broker.id cannot be set for a whole cluster"),
        (["-X", "node.id=1"], "node.id cannot be set for a whole cluster"),
    ],
)
def test_a_wrong_wish_is_one_sentence(arguments: list[str], said: str) -> None:
    assert said in refused("--port", "0", *arguments)


def test_settings_reach_the_brokers() -> None:
    with up("--port", "0", "--ephemeral", "-X", "num.partitions=7") as running:
        # Auto-creation takes the partition count from the broker's settings.
        _produce(running.bootstrap, "made-on-the-way", [b"x"])
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = admin.list_topics(timeout=10).topics
        assert len(topics["made-on-the-way"].partitions) == 7
        assert running.stop() == 0


def test_an_ephemeral_cluster_leaves_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [sys.executable, "-m", "klamm.cli", "up", "--port", "0", "--ephemeral"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        assert list(tmp_path.glob("klamm-*/broker-0"))
        process.terminate()
        assert process.wait(timeout=30) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_it_starts_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "klamm.cli", "up", *data_args(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "klamm.lock").exists():
            assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=30) in (0, -signal.SIGTERM)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def _three_free_ports() -> int:
    """A port with two free ones behind it; near the top, where the system seldom hands them out."""
    for first in range(20_000, 30_000, 3):
        try:
            for port in range(first, first + 3):
                with socket.create_server(("127.0.0.1", port)):
                    pass
        except OSError:
            continue
        return first
    raise AssertionError("no three free ports in a row")


def _create(bootstrap: str, topic: str, *, partitions: int, replication_factor: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, replication_factor)
    admin.create_topics([new])[topic].result(timeout=30)


def _produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(30) == 0


def _read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, timeout=20)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_a_missing_zookeeper_is_told_soon_and_given_up_in_time(tmp_path: Path) -> None:
    pytest.importorskip("kazoo")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "klamm.cli", "up", *data_args(tmp_path)]
        command += ["--zookeeper", address, "-X", "zookeeper.connection.timeout.ms=2000"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert process.poll() is None, "it is told while it is being tried"
            (last,) = process.stderr.read().splitlines()
    assert address in first
    assert "trying for 2 s" in first
    assert last.startswith(f"klamm: no ZooKeeper could be reached within 2 s ({address}: ")
    assert "--zookeeper" in last
    assert process.returncode == 2


@pytest.mark.parametrize("place", ["removed", "data", "log.dirs"])
async def test_what_is_removed_next_is_not_brought_to_the_disk(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bringing logs to a busy disk is most of what a stop takes."""
    closed: list[bool] = []
    close = LogDirectory.close

    def noting(self: LogDirectory, *, clean: bool = True, broker_epoch: int = -1) -> None:
        closed.append(clean)
        close(self, clean=clean, broker_epoch=broker_epoch)

    monkeypatch.setattr(LogDirectory, "close", noting)
    settings = {"log.dirs": str(tmp_path / "logs")} if place == "log.dirs" else {}
    data = tmp_path if place == "data" else None
    app = ClusterApp(Plan(brokers=1, port=0, data=data, settings=settings))
    await app.start()
    await app.stop()
    assert closed == [place != "removed"]
