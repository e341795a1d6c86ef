"""`klamm broker`: one broker, one process, on a store that another process serves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.process import Up, up

pytestmark = pytest.mark.processes


class Home:
    """A cluster of one broker that serves its store, and what a second broker needs."""

    def __init__(self, running: Up, path: Path) -> None:
        self.running = running
        self.path = path

    def arguments(self, *more: str, log_dirs: str = "") -> list[str]:
        digest = self.path / "up" / "store.digest"
        logs = log_dirs or str(self.path / "logs")
        given = ["--zookeeper", self.running.more["zookeeper"], "--log-dirs", logs]
        given += ["-X", f"klamm.zookeeper.digest.file={digest}"]
        return [*given, "--listeners", "PLAINTEXT://127.0.0.1:0", *more]

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.running.bootstrap})

    def create(self, topic: str, replicas: Sequence[int], partitions: int = 1) -> None:
        new = NewTopic(topic, partitions, replica_assignment=[list(replicas)] * partitions)
        admin = self.admin
        admin.create_topics([new])[topic].result(30)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    path = tmp_path_factory.mktemp("home")
    arguments = ("--brokers", "1", "--port", "0", "--zookeeper-port", "0")
    with up(*arguments, "--data", str(path / "up")) as running:
        yield Home(running, path)
        assert running.stop() == 0


@pytest.fixture
def home(shared: Home, tmp_path: Path) -> Home:
    mine = Home(shared.running, tmp_path)
    (tmp_path / "up").symlink_to(shared.path / "up")
    return mine


@contextmanager
def broker(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Up]:
    """A `klamm broker` that is ready; whatever happens, it is gone afterwards."""
    with subprocess.Popen(
        [sys.executable, "-m", "klamm.cli", "broker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    ) as process:
        running = Up(process)
        try:
            running.wait_ready()
            yield running
        finally:
            process.kill()


def refused(*arguments: str) -> str:
    """The one sentence that a `klamm broker` says which must not start, with exit code 2."""
    done = subprocess.run(
        [sys.executable, "-m", "klamm.cli", "broker", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done
    return done.stderr.splitlines()[-1]


def _stderr(running: Up) -> list[str]:
    assert running.process.stderr is not None
    return running.process.stderr.read().splitlines()


def test_it_joins_from_a_file_serves_and_hands_over_when_it_is_stopped(home: Home) -> None:
    file = home.path / "server.properties"
    file.write_text(
        "broker.id=7\nlisteners=OTHER://127.0.0.1:0,PLAINTEXT://127.0.0.1:0\n"
        "listener.security.protocol.map=OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        f"log.dirs={home.path}/a,\\\n    {home.path}/b\n"
        f"zookeeper.connect={home.running.more['zookeeper']}\n"
        f"klamm.zookeeper.digest.file={home.path}/up/store.digest\n"
        "num.io.threads=8\n"
    )
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ear:
        ear.bind(str(home.path / "notify"))
        ear.settimeout(30)
        notify = {"NOTIFY_SOCKET": str(home.path / "notify")}
        with broker("--config", str(file), "--log-format", "json", env=notify) as running:
            assert running.more == {"broker": "7"}
            assert {0, 7} <= home.admin.list_topics(timeout=10).brokers.keys()
            home.create("moved", [7, 0], partitions=3)
            producer = Producer({"bootstrap.servers": home.running.bootstrap, "acks": "all"})
            for at in range(3):
                producer.produce("moved", b"x", partition=at)
            assert producer.flush(30) == 0
            assert running.stop() == 0
            lines = [json.loads(line) for line in _stderr(running)]
        said = _all(ear)
    assert "READY=1\nSTATUS=serving" in said
    assert said.index("READY=1\nSTATUS=serving") < said.index("STOPPING=1\nSTATUS=stopping")
    assert any(text.startswith("STATUS=0 leaderships left") for text in said)
    assert lines[0]["message"] == "no effect here: num.io.threads"
    assert {"controlled shutdown"} == {line["message"] for line in lines[1:]}, "its progress"
    partitions = home.admin.list_topics(timeout=10).topics["moved"].partitions
    assert {p.leader for p in partitions.values()} == {0}
    for name in "ab":
        assert (home.path / name / ".kafka_cleanshutdown").exists()


def _all(ear: socket.socket) -> list[str]:
    """What was said before now."""
    ear.setblocking(False)
    said = []
    while True:
        try:
            said.append(ear.recv(4096).decode())
        except BlockingIOError:
            return said


def test_a_number_is_drawn_once_and_then_kept(home: Home) -> None:
    with broker(*home.arguments()) as first:
        drawn = int(first.more["broker"])
        assert drawn > 1000
        assert first.stop() == 0
    with broker(*home.arguments()) as second:
        assert int(second.more["broker"]) == drawn
        assert second.stop() == 0
    assert f"is of broker {drawn}, and this is to be broker 3" in refused(*home.arguments("--id=3"))


def test_logs_of_another_cluster_refuse_the_start(home: Home) -> None:
    logs = home.path / "logs"
    logs.mkdir()
    (logs / "meta.properties").write_text("version=0\nbroker.id=4\ncluster.id=elsewhere\n")
    said = refused(*home.arguments())
    assert "belongs to cluster elsewhere" in said
    assert "zookeeper.connect" in said


def test_a_number_that_is_taken_refuses_the_start(home: Home) -> None:
    quick = ("-X", "zookeeper.session.timeout.ms=100", "--id", "0")
    assert "broker 0 is already running on this store" in refused(*home.arguments(*quick))


def test_a_taken_port_is_one_sentence(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        place = f"PLAINTEXT://127.0.0.1:{port}"
        said = refused(*home.arguments("--id", "8", "--listeners", place))
    assert str(port) in said
    assert "in use" in said or "taken" in said


def test_a_store_that_is_away_is_given_up_in_time(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        patience = ("-X", "zookeeper.connection.timeout.ms=500")
        said = refused("--zookeeper", address, "--log-dirs", str(tmp_path), *patience)
    assert f"no ZooKeeper could be reached within 0.5 s ({address}" in said


def test_a_second_signal_does_not_wait(home: Home) -> None:
    """Nobody can take the leadership of a log that only this broker has in sync."""
    patient = ("-X", "controlled.shutdown.retry.backoff.ms=60000", "--id", "9")
    with broker(*home.arguments(*patient)) as running:
        home.create("stays", [9, 0])
        os.kill(home.running.process.pid, signal.SIGSTOP)  # the controller, and the store
        try:
            running.process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                running.process.wait(0.5)
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(10) == 130
        finally:
            os.kill(home.running.process.pid, signal.SIGCONT)
        assert not any("Traceback" in line for line in _stderr(running))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for two megabytes."""
    path = tmp_path / "small"
    path.mkdir()
    options = ("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path))
    if os.getuid() != 0 or subprocess.run(["mount", *options], check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_ends_it_with_a_code_of_its_own(home: Home, small_disk: Path) -> None:
    with broker(*home.arguments("--id", "11", log_dirs=str(small_disk))) as running:
        home.create("big", [11])
        wishes = {"bootstrap.servers": home.running.bootstrap, "message.timeout.ms": 5000}
        producer = Producer({**wishes, "log_level": 0})
        for _ in range(40):
            producer.produce("big", os.urandom(100_000))
        producer.flush(10)
        assert running.process.wait(30) == 3
        assert "has stopped by itself" in _stderr(running)[-1]
