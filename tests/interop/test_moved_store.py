"""A cluster's metadata moved from the embedded store to a ZooKeeper and back, its logs staying."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from interop.lifecycle import Record
from interop.process import data_args, refused
from interop.test_lifecycle_confluent import Confluent
from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.store.serving.digest import read_or_draw
from unit.store.zookeeper_server import ZooKeeperServer, why_not

pytestmark = [
    pytest.mark.interop,
    pytest.mark.zookeeper,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

RECORDS = [Record(number % 3, b"k", b"v%d" % number, ()) for number in range(20)]


@pytest.fixture
def zookeeper() -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def test_topics_settings_and_offsets_live_through_two_moves(
    tmp_path: Path, zookeeper: ZooKeeperServer, capsys: pytest.CaptureFixture[str]
) -> None:
    data, there, back = tmp_path / "data", tmp_path / "there.jsonl", tmp_path / "back.jsonl"
    connect = f"{zookeeper.connect_string}/moved"
    with Cluster(2, data=data) as cluster:
        client = Confluent(cluster.bootstrap_servers)
        client.create("kept", 3, 2)
        client.set_config("kept", "retention.ms", "86400000")
        client.produce("kept", "none", RECORDS)
        commit(cluster, 5)
        before = facts(cluster)
    store(capsys, "export", str(there), "--data", str(data), "--set-aside")
    assert "klamm store repair" in refused(*data_args(data, brokers=2)), "no start beside the logs"

    # Protected on the way: nodes belong to whoever shows this digest.
    read_or_draw(data)
    login = ("-X", f"klamm.zookeeper.digest.file={data / 'store.digest'}")
    secured = (*login, "-X", "zookeeper.set.acl=true")
    told = store(capsys, "import", str(there), "--zookeeper", connect, *secured, "-o", "json")
    assert told["nodes"] > 30
    settings = {
        "klamm.zookeeper.digest.file": str(data / "store.digest"),
        "zookeeper.set.acl": "true",
    }
    with Cluster(2, data=data, zookeeper=connect, settings=settings) as cluster:
        assert facts(cluster) == before
        assert "brokers run on" in failing(
            capsys, "export", str(back), "--zookeeper", connect, *login
        )
        client = Confluent(cluster.bootstrap_servers)
        client.create("made-there", 1, 2)
        commit(cluster, 11)
        before = facts(cluster)
    assert "may not be read in full" in failing(capsys, "export", str(back), "--zookeeper", connect)

    store(capsys, "export", str(back), "--zookeeper", connect, *login)
    store(capsys, "import", str(back), "--data", str(data))
    assert "has a store already" in failing(capsys, "import", str(back), "--data", str(data))
    with Cluster(2, data=data) as cluster:
        assert facts(cluster) == before
        client = Confluent(cluster.bootstrap_servers)
        assert sorted(client.read("kept", [0, 1, 2], len(RECORDS))) == sorted(RECORDS)
        client.delete("made-there")
        client.create("made-here", 1, 1)
    open_to_others = [path for path in data.rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == []
    for file in (there, back):
        assert file.stat().st_mode & 0o077 == 0


def facts(cluster: Cluster) -> dict[str, Any]:
    """What users would miss."""
    client = Confluent(cluster.bootstrap_servers)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    (position,) = consumer.committed([TopicPartition("kept", 0)], timeout=20)
    consumer.close()
    topics = client.topics()
    return {
        "topics": {
            topic: {at: sorted(found.replicas) for at, found in client.describe(topic).items()}
            for topic in topics
        },
        "retention": client.config("kept", "retention.ms"),
        "offset": position.offset,
    }


def commit(cluster: Cluster, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("kept", 0, offset)], asynchronous=False)
    consumer.close()


def store(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    code = main(["store", *args])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out) if "json" in args else said.out


def failing(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["store", *args]) == 2
    return capsys.readouterr().err
