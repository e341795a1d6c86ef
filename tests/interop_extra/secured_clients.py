"""Java's clients, franz-go and kcat, told to do what `interop.security.clients` tells Python's.

The first two are programs that take one task a line and answer with one line, so that a compiler
and a virtual machine are waited for once. kcat is started anew for everything.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from interop.security.clients import DENIED, NOT_LET_IN, PATIENCE_S, VALUE, Config
from interop_extra.kafka import java
from interop_extra.toolbox import HERE, run, tool, try_to_fetch
from klamm import Cluster

GO = HERE / "go"


class Program:
    """A foreign client that waits for tasks."""

    def __init__(self, name: str, command: Sequence[str], spelling: str, place: Path) -> None:
        self.name = name
        self._spelling, self._place = spelling, place
        self._said = (place / "stderr").open("w")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )

    def config(self, cluster: Cluster, **how: Any) -> Config:
        """The settings with which alice comes in."""
        return cluster.client_config("alice", self._spelling, **how)

    def live(self, cluster: Cluster, config: Config, name: str) -> list[bytes]:
        return [self._do("live", config, name).encode()]

    def knock(self, config: Config) -> str:
        return self._do("knock", config, "-")

    def write(self, config: Config, topic: str) -> str:
        return self._do("write", config, topic)

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_S)
        self._said.close()

    def _do(self, task: str, config: Config, name: str) -> str:
        with tempfile.NamedTemporaryFile("w", dir=self._place, delete=False) as file:
            file.write(_SPELLINGS[self._spelling](config))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{task}\t{file.name}\t{name}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("= "):
                return line[2:].rstrip("\n")
        raise AssertionError(f"{self.name} ended: {(self._place / 'stderr').read_text()[-3000:]}")


class Kcat:
    """kcat: it creates nothing, and its library is too old for signed tokens."""

    name = "kcat"

    def config(self, cluster: Cluster, **how: Any) -> Config:
        return cluster.client_config("alice", "confluent-kafka", **how)

    def live(self, cluster: Cluster, config: Config, name: str) -> list[bytes]:
        cluster.create_topic(name, 1, 2)
        told = self._told(config)
        run([*told, "-P", "-t", name, "-X", f"transactional.id={name}"], stdin=VALUE.decode())
        begin = ("-X", "auto.offset.reset=earliest", "-X", "isolation.level=read_committed")
        read = run([*told, *begin, "-c", "1", "-q", "-G", name, name])
        return [line.encode() for line in read.splitlines()]

    def knock(self, config: Config) -> str:
        done = self._ended(config, "-L", "-m", "4")
        refused = ("authentication", "Authentication", "SSL handshake failed", " alert ")
        if done.returncode == 0:
            return "let in"
        return NOT_LET_IN if any(word in done.stderr for word in refused) else done.stderr

    def write(self, config: Config, topic: str) -> str:
        done = self._ended(config, "-P", "-t", topic, stdin=VALUE.decode())
        if done.returncode == 0:
            return "written"
        return DENIED if "Topic authorization failed" in done.stderr else done.stderr

    def close(self) -> None:
        pass

    def _told(self, config: Config) -> list[str]:
        return [tool("kcat"), *(f"-X{key}={value}" for key, value in config.items())]

    def _ended(
        self, config: Config, *words: str, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._told(config), *words],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


Foreigner = Program | Kcat


def java_client(version: str) -> Callable[[Path], Foreigner]:
    """The Java clients of one Kafka."""

    def make(place: Path) -> Foreigner:
        command = java(version, str(HERE / "java" / "Doors.java"))
        return Program(f"java-{version}", command, "java", place)

    return make


def franz(place: Path) -> Foreigner:
    """franz-go."""
    go = tool("go")
    try_to_fetch("the Go modules", [go, "mod", "download"], cwd=GO)
    binary = str(place / "doors")
    run([go, "build", "-o", binary, "./doors"], cwd=GO)
    return Program("franz-go", [binary], "confluent-kafka", place)


def kcat(_: Path) -> Foreigner:
    """kcat, where the machine has it."""
    tool("kcat")
    return Kcat()


def _properties(config: Config) -> str:
    return "".join(f"{key}={value}\n" for key, value in config.items())


def _with_token(config: Config) -> str:
    told = dict(config)
    if "oauth_cb" in told:
        told["token"] = told.pop("oauth_cb")(None)[0]
    return json.dumps(told)


_SPELLINGS: Final[dict[str, Callable[[Config], str]]] = {
    "java": _properties,
    "confluent-kafka": _with_token,
}
