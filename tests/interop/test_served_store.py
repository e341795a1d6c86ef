"""`klamm up --zookeeper-port`: other processes look into the cluster's store, and share it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.process import data_args, refused, up

pytest.importorskip("kazoo")

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError


def test_others_look_into_the_tree_and_only_the_cluster_writes(tmp_path: Path) -> None:
    with up(*data_args(tmp_path, brokers=1), "--zookeeper-port", "0") as running:
        address = running.more["zookeeper"]
        assert address.startswith("127.0.0.1:")
        digest = (tmp_path / "store.digest").read_text().strip()
        stranger = KazooClient(address)
        broker = KazooClient(address, auth_data=[("digest", digest)])
        try:
            stranger.start()
            broker.start()
            assert stranger.get_children("/brokers/ids") == ["0"]
            seen = stranger.handler.event_object()
            stranger.get_children("/brokers/topics", watch=lambda _: seen.set())
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
            assert seen.wait(30)
            data, _ = stranger.get("/brokers/topics/orders")
            assert json.loads(data)["partitions"] == {"0": [0], "1": [0]}
            for path in ("/klamm/secret", "/config/users"):
                with pytest.raises(NoAuthError):
                    stranger.get(path)
            assert broker.get("/klamm/secret")[0]
            with pytest.raises(NoAuthError):
                stranger.create("/admin/delete_topics/orders")
            broker.create("/admin/delete_topics/orders")
            gone = broker.handler.event_object()
            if broker.exists("/brokers/topics/orders", watch=lambda _: gone.set()):
                assert gone.wait(30)
        finally:
            for client in (stranger, broker):
                client.stop()
                client.close()
        assert running.stop() == 0
        assert running.process.stderr is not None
        assert running.process.stderr.read() == ""


def test_a_store_elsewhere_cannot_be_served(tmp_path: Path) -> None:
    words = ("--zookeeper", "127.0.0.1:1", "--zookeeper-port", "0", "--data", str(tmp_path))
    assert "serves the embedded store" in refused(*words)
