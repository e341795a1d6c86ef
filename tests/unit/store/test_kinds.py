"""What nodes are, and what of them is shown."""

from __future__ import annotations

import json

import pytest

from klamm.store import layout
from klamm.store.layout.kinds import HIDDEN, is_secret, kind_of, payload


@pytest.mark.parametrize(
    "path",
    [
        *layout.with_parents([*layout.ROOTS, *layout.ACL_ROOTS, *layout.TOKEN_ROOTS]),
        layout.CONTROLLER,
        layout.CONTROLLER_EPOCH,
        layout.broker_path(1),
        layout.state_path(("t", 0)),
        layout.topic_config_path("t"),
        f"{layout.CONFIG_CHANGE_PREFIX}0000000001",
        f"{layout.ISR_CHANGE_PREFIX}0000000001",
        f"{layout.LOG_DIR_EVENT_PREFIX}0000000001",
        f"{layout.ACL_CHANGE_PREFIX}0000000001",
        f"{layout.TOKEN_CHANGE_PREFIX}0000000001",
        layout.CLUSTER_ID,
        layout.FEATURE,
        layout.CLUSTER_SECRET,
        layout.forgotten_path(1),
        "/config/users/alice/clients/c",
    ],
)
def test_every_node_of_the_layout_is_known(path: str) -> None:
    assert kind_of(path).title != "unknown"
    assert kind_of(path).meaning


@pytest.mark.parametrize("path", ["/a", "/brokers/topics/t/partitions/0/state/x", "/controllers"])
def test_other_nodes_are_unknown(path: str) -> None:
    assert kind_of(path).title == "unknown"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, None),
        (b"", ""),
        (b"7", "7"),
        (b'{"a":[1]}', {"a": [1]}),
        (b'{"a":', '{"a":'),
        (b"[" * 100_000, "[" * 100_000),
        (b"\xff\x00", {"bytes": "ff00"}),
    ],
)
def test_data_is_shown_as_what_it_is(data: bytes | None, shown: object) -> None:
    assert payload("/a", data) == shown


def test_credentials_are_hidden_and_quotas_are_not() -> None:
    config = {
        "SCRAM-SHA-256": "salt=x,stored_key=y,server_key=z,iterations=4096",
        "producer_byte_rate": "1024.0",
    }
    data = json.dumps({"version": 1, "config": config}).encode()
    shown = payload("/config/users/alice", data)
    assert shown["config"] == {"SCRAM-SHA-256": HIDDEN, "producer_byte_rate": "1024.0"}
    assert payload("/config/users/alice", data, secrets=True)["config"] == config


def test_of_brokers_settings_only_those_that_are_no_secret_are_shown() -> None:
    config = {
        "log.retention.ms": "1000",
        "ssl.keystore.password": "p",
        "listener.name.x.plain.sasl.jaas.config": "j",
        "max.connections": "9",
    }
    shown = payload("/config/brokers/1", json.dumps({"version": 1, "config": config}).encode())
    hidden = {name for name, text in shown["config"].items() if text == HIDDEN}
    assert hidden == {"ssl.keystore.password", "listener.name.x.plain.sasl.jaas.config"}


def test_the_secret_of_the_cluster_is_never_shown_by_itself() -> None:
    assert payload(layout.CLUSTER_SECRET, b"anything") == HIDDEN
    assert payload(layout.CLUSTER_SECRET, b'{"a":"b"}') == HIDDEN
    assert is_secret("/config/users/alice")
    assert not is_secret("/config/topics/t")
