"""An Apache Kafka broker in ZooKeeper mode, as a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from interop_extra.kafka import java

# The last line that can do without KRaft.
VERSION = "3.9.1"
READY_WITHIN = 120


@contextmanager
def kafka_server(
    directory: Path,
    zookeeper: str,
    output: Path,
    settings: Mapping[str, object],
    *,
    address: str | None = None,
    protocol: str = "PLAINTEXT",
    login: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Broker 0 on this log directory: its address. It is shut down in a controlled way."""
    address = address or f"127.0.0.1:{_free_port()}"
    properties = {
        "broker.id": 0,
        "listeners": f"{protocol}://{address}",
        "log.dirs": directory,
        "zookeeper.connect": zookeeper,
        **settings,
    }
    config = output.with_suffix(".properties")
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    with (
        output.open("wb") as said,
        subprocess.Popen(
            java(VERSION, "kafka.Kafka", str(config)), stdout=said, stderr=said
        ) as process,
    ):
        try:
            _wait_until_it_serves({"bootstrap.servers": address, **(login or {})}, process, output)
            yield address
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=READY_WITHIN)
        finally:
            process.kill()


def _wait_until_it_serves(
    client: Mapping[str, str], process: subprocess.Popen[bytes], output: Path
) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while True:
        assert process.poll() is None, output.read_text(errors="replace")[-6000:]
        assert time.monotonic() < deadline, output.read_text(errors="replace")[-6000:]
        try:
            admin = AdminClient({**client, "log_level": 0})
            metadata = admin.list_topics(timeout=5)
        except KafkaException:
            continue
        led = all(
            partition.leader == 0
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
        )
        if metadata.brokers and led:
            return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
