"""Broker processes of both kinds, which can be stopped, killed, frozen and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from interop_extra.kafka import java

KAFKA_VERSION = "3.9.1"  # the last line that knows ZooKeeper
READY_WITHIN_S = 240  # a JVM takes some seconds of a processor, which others may want
KLAMM, KAFKA = "klamm", "kafka"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class BrokerProcess:
    """One broker; its data and its port outlive the process."""

    kind = ""

    def __init__(
        self, broker_id: int, zookeeper: str, data: Path, settings: Mapping[str, str]
    ) -> None:
        self.id = broker_id
        self.zookeeper = zookeeper
        self.directory = data / f"broker-{broker_id}"
        self.output = data / f"broker-{broker_id}.log"
        self.port = free_port()
        self.settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start it; `wait` until it serves."""
        assert not self.runs, f"broker {self.id} runs already"
        with self.output.open("ab") as said:
            self._process = subprocess.Popen(
                self._command(), stdout=said, stderr=said, env=_environment()
            )

    def wait(self) -> None:
        """Until its port accepts."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            assert self.runs, f"broker {self.id} ended\n{self.last_words()}"
            assert time.monotonic() < deadline, self.last_words()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return

    def start(self) -> None:
        self.launch()
        self.wait()

    def stop(self) -> None:
        """Controlled."""
        self.signal(signal.SIGTERM)
        assert self._process is not None
        self._process.wait(READY_WITHIN_S)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None, f"broker {self.id} was never started"
        self._process.send_signal(number)

    def last_words(self) -> str:
        return self.output.read_text(errors="replace")[-4000:]

    def _command(self) -> list[str]:
        raise NotImplementedError


class KlammBroker(BrokerProcess):
    """A broker of klamm; it admits this machine's other brokers, which cannot prove themselves."""

    kind = KLAMM

    def _command(self) -> list[str]:
        words = {"klamm.internal.requests.from": "proof,127.0.0.0/8", **self.settings}
        return [
            *(sys.executable, str(Path(__file__).with_name("one_broker.py"))),
            *(str(self.id), self.zookeeper, str(self.directory), str(self.port)),
            *(f"{name}={value}" for name, value in words.items()),
        ]


class KafkaBroker(BrokerProcess):
    """A broker of Apache Kafka."""

    kind = KAFKA

    def _command(self) -> list[str]:
        properties = {
            "broker.id": str(self.id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.directory),
            "zookeeper.connect": self.zookeeper,
            # Deleted logs are looked after from the start, not from half a minute later.
            "log.initial.task.delay.ms": "500",
            **self.settings,
        }
        config = self.output.with_suffix(".properties")
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return java(KAFKA_VERSION, "kafka.Kafka", str(config))


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}
