"""A ZooKeeper of our own, run from the jars that PySpark brings along.

One server, or some that agree with each other, each a Java process with a folder below one
directory and on addresses of this machine alone. What they hold is there again at the next start.

No server outlives the process that started it: the kernel kills it when that process ends, however
it ends. To the kernel a parent is the thread that launched, so `launch` is for a thread that lives
as long as the servers are wanted; waiting can be done anywhere.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from klamm.installing import install_command
from klamm.log.disk.files import FILE_MODE, make_directory
from klamm.model.errors import KlammError, UsageError
from klamm.mortal import mortal
from klamm.pipelines.session.java import NoJava, find_java

NODES_MAX: Final = 7
ROOT: Final = "/klamm"  # the cluster's nodes are below it, for the server's own root is everybody's
TICK_MS: Final = 500
_HOST: Final = "127.0.0.1"
_PORT_MAX: Final = 65_535
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.05
_LAUNCHES_MAX: Final = 3  # somebody else may take a port that was free a moment ago
_OUTPUT_TOLD: Final = 2000
_NODES_FILE: Final = "nodes"
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
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
_INSTEAD: Final = (
    "Or leave --zookeeper out, for the embedded store needs nothing, or name a ZooKeeper that runs"
)


def why_not() -> str | None:
    """The reason why there can be no ZooKeeper of our own here, with advice; None if there can."""
    try:
        find_java()
    except NoJava as missing:
        found = "" if missing.found == "none" else f" ({missing.found})"
        return f"A ZooKeeper of klamm's own runs on Java{found}: {missing.advice}. {_INSTEAD}"
    if not _jars("zookeeper-*"):
        return (
            "A ZooKeeper of klamm's own runs from the jars of PySpark: "
            f"`{install_command('spark')}`. {_INSTEAD}"
        )
    if importlib.util.find_spec("kazoo") is None:
        return f"ZooKeeper needs kazoo: {install_command('zookeeper')}"
    return None


def java_command() -> str:
    """The `java` to run."""
    home = find_java().home
    return "java" if home is None else str(home / "bin" / "java")


def class_path() -> str:
    """The jars that a ZooKeeper needs, and no others: it starts in a third of the time."""
    return os.pathsep.join(str(jar) for pattern in _JARS for jar in _jars(pattern))


def _jars(pattern: str) -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return []
    return sorted((Path(spec.origin).parent / "jars").glob(f"{pattern}.jar"))


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class NotStarted(KlammError):
    """A server ended or did not answer before it took its first session."""


class Server:
    """One server with a folder of its own; it can be killed and come back."""

    def __init__(
        self,
        folder: Path,
        port: int,
        config: Mapping[str, object],
        *,
        number: int = 0,
        heap_mb: int = 512,
        java_options: tuple[str, ...] = (),
    ) -> None:
        self.port: Final = port
        self._folder = folder
        self._heap_mb = heap_mb
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        make_directory(str(data.absolute()))
        known = {
            "dataDir": data.absolute(),
            "clientPort": port,
            "clientPortAddress": _HOST,
            "maxSessionTimeout": 120_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr,ruok,stat,mntr,cons,isro,conf",
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
        }
        lines = [f"{name}={value}\n" for name, value in {**known, **config}.items()]
        _write(folder / "zoo.cfg", "".join(lines))
        _write(data / "myid", str(number))

    @property
    def connect_string(self) -> str:
        """The address for clients."""
        return f"{_HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def launch(self) -> None:
        """Start the process, on the thread whose end is to be its end."""
        with open(self._folder / "output.txt", "wb", opener=_private) as output:
            command = [
                *(java_command(), f"-Xmx{self._heap_mb}m"),
                *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *self._java_options),
                *("-cp", class_path(), _MAIN, str((self._folder / "zoo.cfg").absolute())),
            ]
            self._process = subprocess.Popen(
                mortal(command, umask=0o077),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C is for us: we stop it when nobody needs it
            )

    def wait(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Until it takes sessions; NotStarted says what it said instead."""
        process = self._process  # somebody may end it meanwhile
        assert process is not None, "it was not launched"
        deadline = time.monotonic() + timeout_s
        while self.mode() is None:
            code = process.poll()
            if code is not None:
                raise NotStarted(f"the ZooKeeper ended with {code}: {self.output()}")
            if time.monotonic() > deadline:
                raise NotStarted(f"no ZooKeeper within {timeout_s:g} s: {self.output()}")
            time.sleep(_LOOK_EVERY_S)

    def output(self) -> str:
        """The end of what it wrote."""
        text = (self._folder / "output.txt").read_text(errors="replace").strip()
        return text[-_OUTPUT_TOLD:] or "it said nothing"

    def mode(self) -> str | None:
        """Its part among others (standalone, leader, follower); None while it takes no session.

        It says "imok" to "ruok" before it does; a mode it has only then.
        """
        try:
            with socket.create_connection((_HOST, self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return None
        found = re.search(rb"^Mode: (\w+)", answer, re.MULTILINE)
        return found[1].decode() if found else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP lets it hear and say nothing without a broken connection."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(number)

    def ask_to_stop(self) -> None:
        """Ask the process to end."""
        if self._process is not None:
            self._process.terminate()

    def stop(self) -> None:
        """Ask the process to end, and end it where it does not."""
        self.ask_to_stop()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT_S)
            self.kill()

    def kill(self) -> None:
        """End the process as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Ensemble:
    """One server, or three and more that go on while most of them do."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 1,
        port: int = 0,
        tick_ms: int = TICK_MS,
        heap_mb: int = 512,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Node i takes clients on port + i; with 0 on ports that are free.

        UsageError where there cannot be such an ensemble.
        """
        fault = nodes_fault(nodes) or why_not()
        if fault is not None:
            raise UsageError(fault)
        if not 0 <= port <= _PORT_MAX - nodes + 1:
            raise UsageError(f"port {port} leaves no room for {nodes} ZooKeepers below {_PORT_MAX}")
        self.servers: list[Server] = []
        self._directory = directory
        self._nodes = nodes
        self._port = port
        self._heap_mb = heap_mb
        self._config = {"tickTime": tick_ms, **(config or {})}
        self._launches_count = 0

    @property
    def connect_string(self) -> str:
        """The addresses of all servers, for clients."""
        return ",".join(server.connect_string for server in self.servers)

    def launch(self) -> None:
        """Start all processes, on the thread whose end is to be theirs."""
        self._check_nodes()
        ports = [self._port + at if self._port else free_port() for at in range(self._nodes)]
        for port in ports:
            _check_port(port)
        config = self._config | (self._peers() if self._nodes > 1 else {})
        self.servers = [
            Server(
                self._directory / str(number),
                port,
                config,
                number=number,
                heap_mb=self._heap_mb,
            )
            for number, port in enumerate(ports, 1)
        ]
        self._launches_count += 1
        for server in self.servers:
            server.launch()

    def wait(self) -> bool:
        """Until all take sessions; False where a free port was taken meanwhile: launch again.

        UsageError says why there will be none.
        """
        try:
            for server in self.servers:
                server.wait()
        except NotStarted as fault:
            taken = "Address already in use" in str(fault) or "BindException" in str(fault)
            self.kill()
            if taken and self._launches_count < _LAUNCHES_MAX and not self._port:
                return False
            raise UsageError(f"The ZooKeeper in {self._directory} did not start: {fault}") from None
        return True

    def start(self) -> None:
        """Launch and wait."""
        self.launch()
        while not self.wait():
            self.launch()

    def leader(self) -> Server:
        """The server that leads."""
        return next(server for server in self.servers if server.mode() in ("leader", "standalone"))

    def stop(self) -> None:
        """End all processes."""
        for server in self.servers:
            server.ask_to_stop()
        for server in self.servers:
            server.stop()

    def kill(self) -> None:
        """End all processes as a crash does."""
        for server in self.servers:
            server.kill()

    def _peers(self) -> dict[str, object]:
        return {"initLimit": 20, "syncLimit": 10} | {
            f"server.{number}": f"{_HOST}:{free_port()}:{free_port()}"
            for number in range(1, self._nodes + 1)
        }

    def _check_nodes(self) -> None:
        """Refuse another number of servers than before: new ones could outvote those that know."""
        make_directory(str(self._directory.absolute()))
        before = kept_nodes(self._directory)
        if not before:
            _write(self._directory / _NODES_FILE, f"{self._nodes}\n")
        elif before != self._nodes:
            raise UsageError(
                f"The ZooKeeper in {self._directory} was made with {before} nodes, not "
                f"{self._nodes}: start it with --zookeeper-nodes {before}. To have another number, "
                "`klamm store export`, and import into a new data directory"
            )


def kept_nodes(directory: Path) -> int:
    """The number of servers whose data is in this directory; 0 where there is none."""
    try:
        return int((directory / _NODES_FILE).read_text())
    except (OSError, ValueError):
        return 0


def nodes_fault(nodes: int) -> str | None:
    """The reason why there is no ensemble of so many, or None."""
    if 1 <= nodes <= NODES_MAX and nodes % 2:
        return None
    return f"A ZooKeeper has 1, 3, 5 or {NODES_MAX} nodes, not {nodes}: an even one adds no safety"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)


def _write(path: Path, text: str) -> None:
    with open(path, "w", opener=_private) as file:
        file.write(text)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise UsageError(
                f"port {port}, on which the ZooKeeper is to listen, cannot be had "
                f"({error.strerror}): choose another with --zookeeper-port, or 0 for a free one"
            ) from error
