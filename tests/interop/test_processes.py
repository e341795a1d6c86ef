"""A cluster with a process a broker: what it has over one process, and what it must not lose."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.lifecycle import SETTINGS, live_and_die
from interop.process import Up, data_args, refused, up
from interop.test_lifecycle_confluent import Confluent
from klamm import Cluster
from klamm.model.errors import UsageError

pytestmark = pytest.mark.processes


def cluster(data: Path, *words: str) -> str:
    """The output of a `klamm cluster` that succeeds."""
    command = [sys.executable, "-m", "klamm.cli", "cluster", *words, "--data", str(data)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def status(data: Path) -> dict[int, dict[str, Any]]:
    found = json.loads(cluster(data, "status", "-o", "json"))
    return {broker["id"]: broker for broker in found["brokers"]}


def await_end(pid: int) -> None:
    """Wait for a process to end that is no child of ours."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 20)[0], f"process {pid} lives on"
    finally:
        os.close(handle)


def produce(running: Up, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all"})
    for at in range(partitions):
        producer.produce(topic, b"x", partition=at)
    assert producer.flush(30) == 0


def told_of(running: Up, broker: int) -> str:
    """The next line about the process of a broker; brokers may write others."""
    assert running.process.stderr is not None
    for line in running.process.stderr:
        if f"broker {broker} (process" in line:
            return line
    raise AssertionError("it ended without a word")


def test_a_killed_broker_takes_nobody_along_and_a_killed_parent_everybody(tmp_path: Path) -> None:
    with up("--processes", *data_args(tmp_path)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("t", 6, 3)])["t"].result(30)
        pids = {at: broker["pid"] for at, broker in status(tmp_path).items()}
        assert len({running.process.pid, *pids.values()}) == 4

        os.kill(pids[1], signal.SIGKILL)
        told = told_of(running, 1)
        assert f"broker 1 (process {pids[1]}) was killed by SIGKILL" in told
        assert "klamm cluster start 1" in told
        produce(running, "t", 6)
        assert status(tmp_path)[1]["state"] == "killed"
        assert cluster(tmp_path, "start", "1") == "broker 1 started\n"

        os.kill(pids[2], signal.SIGTERM)
        assert f"broker 2 (process {pids[2]}) stopped" in told_of(running, 2)
        assert (tmp_path / "broker-2" / ".kafka_cleanshutdown").exists(), "in a controlled way"
        assert cluster(tmp_path, "start") == "broker 2 started\n"
        cluster(tmp_path, "pause", "0")
        before = status(tmp_path)
        assert [before[at]["state"] for at in range(3)] == ["paused", "running", "running"]

        running.crash()
        for broker in before.values():
            await_end(broker["pid"])
    with up("--processes", *data_args(tmp_path)) as again:
        produce(again, "t", 6)
        assert again.stop() == 0


def test_all_stop_together_and_are_what_they_were(tmp_path: Path) -> None:
    def leaders(running: Up) -> list[tuple[int, list[int]]]:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        partitions = admin.list_topics("t", timeout=10).topics["t"].partitions
        return [(p.leader, sorted(p.isrs)) for _, p in sorted(partitions.items())]

    with up("--processes", *data_args(tmp_path)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("t", 6, 3)])["t"].result(30)
        produce(running, "t", 6)
        cluster(tmp_path, "rolling-restart")
        before = leaders(running)
        assert all(isr == [0, 1, 2] for _, isr in before)
        cluster(tmp_path, "restart")
        assert leaders(running) == before
        assert running.stop(signal.SIGINT) == 0
        assert running.process.stderr is not None
        assert running.process.stderr.read() == ""
    for at in range(3):
        assert (tmp_path / f"broker-{at}" / ".kafka_cleanshutdown").exists()


def test_a_second_signal_does_not_wait_for_a_broker_that_hangs(tmp_path: Path) -> None:
    with up("--processes", *data_args(tmp_path, brokers=2)) as running:
        pids = [broker["pid"] for broker in status(tmp_path).values()]
        with stopped_again_and_again(pids[0]):
            assert status(tmp_path)[0]["state"] == "paused", "behind its parent's back"
            running.process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                running.process.wait(1)
            assert running.stop() == 130
        for pid in pids:
            await_end(pid)


@contextmanager
def stopped_again_and_again(pid: int) -> Iterator[None]:
    """A process that hangs, though somebody resumes it."""
    over = threading.Event()

    def stop() -> None:
        with suppress(ProcessLookupError):
            while not over.wait(0.001):
                os.kill(pid, signal.SIGSTOP)

    stopping = threading.Thread(target=stop)
    os.kill(pid, signal.SIGSTOP)
    stopping.start()
    try:
        yield
    finally:
        over.set()
        stopping.join()


def test_a_killed_nursery_is_told_and_ends_the_cluster(tmp_path: Path) -> None:
    with up("--processes", *data_args(tmp_path, brokers=2)) as running:
        pids = [broker["pid"] for broker in status(tmp_path).values()]
        # The brokers' parent, which is the cluster's child.
        nursery = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(nursery, signal.SIGKILL)
        assert running.process.wait(30) == 3
        assert running.process.stderr is not None
        said = running.process.stderr.read()
        assert "the process that starts brokers was killed, and every broker with it" in said
        assert "klamm: no broker is left" in said
        for pid in pids:
            await_end(pid)


def test_what_cannot_start_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--processes", "--port", str(port), "--brokers", "1", "--data", "/nowhere")
    assert f"port {port} is taken" in said
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "meta.properties").write_text("broker.id=5\ncluster.id=x\n")
    said = refused("--processes", *data_args(tmp_path))
    assert "belongs to broker 5, not to broker 1" in said


@pytest.mark.one_process
def test_one_process_is_operated_as_far_as_it_can_be(tmp_path: Path) -> None:
    with up(*data_args(tmp_path, brokers=2)) as running:
        assert {b["pid"] for b in status(tmp_path).values()} == {running.process.pid}
        assert cluster(tmp_path, "stop", "1") == "broker 1 stopped\n"
        assert cluster(tmp_path, "start", "1") == "broker 1 started\n"
        with pytest.raises(subprocess.CalledProcessError) as refusal:
            cluster(tmp_path, "pause", "1")
        assert refusal.value.returncode == 2
        assert "--processes" in refusal.value.stderr
        assert (tmp_path / "klamm.control").stat().st_mode & 0o777 == 0o600
        cluster(tmp_path, "down")
        assert running.process.wait(30) == 0
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        cluster(tmp_path, "status")
    assert f"no cluster runs on {tmp_path}" in refusal.value.stderr


def test_a_topic_lives_and_dies_over_processes() -> None:
    with Cluster(settings=SETTINGS, processes=True) as running:
        client = Confluent(running.bootstrap_servers)
        client.codecs = ("none", "zstd")
        live_and_die(client, running, "orders")


def test_brokers_are_killed_paused_and_brought_back_from_python() -> None:
    with Cluster(processes=True) as running:
        running.create_topic("t", partitions=3, replication_factor=3)
        running.wait_for_isr("t")
        leader = running.wait_for_leader("t")
        pid = running.pid(leader)
        assert pid not in (None, os.getpid())
        running.kill_broker(leader)
        assert running.pid(leader) is None
        assert running.wait_for_leader("t", other_than=leader) != leader
        running.start_broker(leader)
        running.wait_for_isr("t")
        controller = running.wait_for_controller()
        running.stop_broker(controller)
        assert running.wait_for_controller(other_than=controller) == running.controller_id
        running.start_broker(controller)
        running.pause_broker(0)
        assert running.view.brokers.keys() == {1, 2}
        running.resume_broker(0)
        running.wait_for_isr("t")
        assert "/brokers/topics/t" in running.store_paths()
        with pytest.raises(UsageError, match="already runs"):
            running.start_broker(0)


@pytest.mark.one_process
def test_in_one_process_there_is_no_process_of_a_broker() -> None:
    with Cluster(1) as running, pytest.raises(UsageError, match="processes=True"):
        running.pid(0)


@pytest.mark.klamm(brokers=2, processes=True)
def test_the_marker_takes_processes(klamm_cluster: Cluster) -> None:
    assert klamm_cluster.pid(0) != klamm_cluster.pid(1)


def test_a_killed_parent_takes_its_console_along(tmp_path: Path) -> None:
    with up("--console-port", "0", *data_args(tmp_path, 1)) as running:
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
        (console,) = [
            int(pid)
            for pid in children.read_text().split()
            if b"console" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        ]
        running.crash()
        await_end(console)
