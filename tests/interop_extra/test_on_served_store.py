"""Apache Kafka 3.9 brokers on klamm's embedded store, over ZooKeeper's wire."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from interop_extra.kafka import java
from interop_extra.kafka_server import VERSION, _free_port, kafka_server
from unit.store.serving.process import ServedProcess
from unit.store.serving.raw import client, read

GET = 4
SETTINGS = {
    "offsets.topic.replication.factor": 1,
    "zookeeper.session.timeout.ms": 6000,
    "controlled.shutdown.enable": "true",
}


@pytest.fixture
def store() -> Iterator[ServedProcess]:
    server = ServedProcess(tick_ms=2000)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _node(port: int, path: str) -> tuple[dict[str, object] | None, int, int]:
    """A node's payload, the transaction that made it, and who owns it; None where it is not."""

    async def look() -> tuple[dict[str, object] | None, int, int]:
        async with client(port) as a:
            got = await a.call(GET, read(path))
            if got.err:
                return None, 0, 0
            return json.loads(got.body[4:-68]), got.stat.czxid, got.stat.owner

    return asyncio.run(look())


def _until(port: int, path: str, holds: object, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not holds(_node(port, path)[0]):  # type: ignore[operator]
        assert time.monotonic() < deadline, f"{path} is {_node(port, path)}"
        time.sleep(0.1)


def test_a_broker_lives_on_it_and_over_its_restart(store: ServedProcess, tmp_path: Path) -> None:
    root = f"{store.connect_string}/kafka"
    with kafka_server(tmp_path / "0", root, tmp_path / "0.log", SETTINGS) as address:
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result(30)
        entry = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        config = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[entry])
        admin.incremental_alter_configs([config])[config].result(30)
        _, epoch, owner = _node(store.port, "/kafka/brokers/ids/0")
        assert epoch
        assert owner
        state, _, _ = _node(store.port, "/kafka/brokers/topics/t/partitions/0/state")
        assert state is not None
        assert state["leader"] == 0
        controller = _node(store.port, "/kafka/controller_epoch")
        store.kill()
        store.start()
        producer = Producer({"bootstrap.servers": address})
        producer.produce("t", b"x")
        assert producer.flush(30) == 0
        admin.create_topics([NewTopic("u", 1, 1)])["u"].result(60)
        # Its session outlived the server: it did not have to register again.
        assert _node(store.port, "/kafka/brokers/ids/0")[1:] == (epoch, owner)
        assert _node(store.port, "/kafka/controller_epoch")[0] == controller[0]
        for name in ("t", "u"):
            admin.delete_topics([name])[name].result(30)
            _until(store.port, f"/kafka/brokers/topics/{name}", lambda found: found is None)
    _until(store.port, "/kafka/brokers/ids/0", lambda found: found is None)


def test_another_broker_takes_over_from_a_controller_that_is_killed(
    store: ServedProcess, tmp_path: Path
) -> None:
    root = f"{store.connect_string}/kafka"
    config = tmp_path / "1.properties"
    settings = {
        **SETTINGS,
        "broker.id": 1,
        "listeners": f"PLAINTEXT://127.0.0.1:{_free_port()}",
        "log.dirs": tmp_path / "1",
        "zookeeper.connect": root,
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (tmp_path / "1.log").open("wb") as said:
        first = subprocess.Popen(
            java(VERSION, "kafka.Kafka", str(config)), stdout=said, stderr=said
        )
    try:
        _until(store.port, "/kafka/controller", lambda found: found and found["brokerid"] == 1)
        with kafka_server(tmp_path / "0", root, tmp_path / "0.log", SETTINGS):
            first.kill()
            began = time.monotonic()
            _until(store.port, "/kafka/controller", lambda found: found and found["brokerid"] == 0)
            # A session, a tick, and the machine's noise.
            assert time.monotonic() - began < 6 + 2 + 4
    finally:
        first.kill()
        first.wait()
