"""Apache Kafka 3.9 on ZooKeeper and 4.x on KRaft, from Maven, as their own scripts start them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import ClassVar, Final

from maven import CACHE, Missing, fetched

from peers.systems import COMMON, HERE, SESSION_MS, System, free_ports

# What kafka-run-class.sh, kafka-server-start.sh and zookeeper-server-start.sh give a JVM.
_JVM: Final = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]
_HEAP: Final = ("-Xmx1G", "-Xms1G")
_ZOOKEEPER_HEAP: Final = ("-Xmx512M", "-Xms512M")
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
VERSIONS: Final = {"3.9": "3.9.1", "4": "4.3.1"}


def jars(line: str) -> Path:
    """The jars of one line of releases; fetched the first time."""
    place = CACHE / "peers" / f"kafka-{VERSIONS[line]}"
    return fetched(place, HERE / f"kafka-{line}.xml", f"kafka={VERSIONS[line]}")


def java(line: str, *words: str, level: str = "INFO") -> list[str]:
    program = shutil.which("java")
    if program is None:
        raise Missing("there is no java on this machine")
    log = "log4j.configuration=file:" if line == "3.9" else "log4j2.configurationFile="
    name = "log4j.properties" if line == "3.9" else "log4j2.properties"
    logging = [f"-Dpeers.level={level}", f"-D{log}{HERE / name}"]
    heap = [word for word in words if word.startswith("-Xm")]
    rest = [word for word in words if not word.startswith("-Xm")]
    return [program, *heap, *_JVM, *logging, "-cp", f"{jars(line)}/*", *rest]


def tool(line: str, main: str, *words: str, heap: str = "-Xmx512M") -> list[str]:
    """A command-line tool of Kafka's."""
    return java(line, heap, main, *words, level="WARN")


class Kafka(System):
    """Brokers that are JVMs of their own."""

    line: ClassVar[str]
    heap = "1 GB a broker"
    may_be_killed = True

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.of_broker: dict[int, subprocess.Popen[str]] = {}

    def write(self, name: str, settings: dict[str, object]) -> Path:
        path = self.directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def start(self) -> None:
        for at in self.addresses:
            words = (*_HEAP, "kafka.Kafka", str(self.directory / f"b{at}.properties"))
            self.of_broker[at] = self.spawn(java(self.line, *words), f"b{at}")

    def kill(self, broker: int) -> None:
        self.of_broker[broker].kill()


class Kafka39(Kafka):
    name = "kafka-3.9"
    title = f"Kafka {VERSIONS['3.9']} (ZooKeeper)"
    line = "3.9"
    heap = "1 GB a broker, 512 MB ZooKeeper"

    def prepare(self) -> None:
        jars(self.line)
        zookeeper, *ports = free_ports(1 + self.brokers)
        (self.directory / "zk").mkdir()
        self.write(
            "zk",
            {
                "dataDir": self.directory / "zk",
                "clientPort": zookeeper,
                "clientPortAddress": "127.0.0.1",
                "maxClientCnxns": 0,
                "admin.enableServer": "false",
            },
        )
        for at, port in enumerate(ports):
            settings: dict[str, object] = {
                **COMMON,
                "broker.id": at,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": self.directory / f"b{at}",
                "zookeeper.connect": f"127.0.0.1:{zookeeper}",
                "zookeeper.session.timeout.ms": SESSION_MS,
                "zookeeper.connection.timeout.ms": 18_000,
            }
            self.write(f"b{at}", settings)
            self.addresses[at] = "127.0.0.1", port

    def start(self) -> None:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        words = (*_ZOOKEEPER_HEAP, main, str(self.directory / "zk.properties"))
        self.spawn(java(self.line, *words), "zk")
        super().start()


class Kafka4(Kafka):
    """Every process is broker and controller."""

    name = "kafka-4"
    title = f"Kafka {VERSIONS['4']} (KRaft)"
    line = "4"

    def prepare(self) -> None:
        ports = free_ports(2 * self.brokers)
        own, quorum = ports[: self.brokers], ports[self.brokers :]
        voters = ",".join(f"{at}@127.0.0.1:{port}" for at, port in enumerate(quorum))
        formatting = []
        for at in range(self.brokers):
            settings: dict[str, object] = {
                **COMMON,
                "process.roles": "broker,controller",
                "node.id": at,
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{own[at]},CONTROLLER://127.0.0.1:{quorum[at]}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own[at]}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.dirs": self.directory / f"b{at}",
                "broker.session.timeout.ms": SESSION_MS,
            }
            if self.brokers < 3:
                settings["offsets.topic.replication.factor"] = 1
                settings["transaction.state.log.replication.factor"] = 1
                settings["transaction.state.log.min.isr"] = 1
            path = self.write(f"b{at}", settings)
            self.addresses[at] = "127.0.0.1", own[at]
            words = ("format", "-t", _CLUSTER_ID, "-c", str(path))
            command = tool(self.line, "kafka.tools.StorageTool", *words, heap="-Xmx256M")
            formatting.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        if any(process.wait() for process in formatting):
            raise Missing("a log directory of Kafka cannot be formatted")

    def controller(self) -> int:
        """A client is told any broker; the quorum knows."""
        words = ("--bootstrap-server", self.bootstrap, "describe", "--status")
        main = "org.apache.kafka.tools.MetadataQuorumCommand"
        command = tool(self.line, main, *words, heap="-Xmx256M")
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return int(next(x for x in text.splitlines() if x.startswith("LeaderId")).split()[1])


class Kafka4Single(Kafka4):
    name = "kafka-4-single"
    title = f"Kafka {VERSIONS['4']}, one process"
    brokers = 1
    copies_max = 1
    may_be_killed = False
