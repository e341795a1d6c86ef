"""A store rebuilt from a back-up and the logs."""

from __future__ import annotations

import uuid

import pytest

from klamm.model.assignment import Assignment
from klamm.model.errors import UsageError
from klamm.model.found_logs import FoundLog
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.port import Create
from klamm.store.repair import Evidence, leadership, rebuild
from klamm.store.tree import Draft, Tree

ONE, TWO = uuid.UUID(int=11), uuid.UUID(int=12)
B = BrokerId


def log(topic: str, index: int, broker: int, *, end: int = 0, epoch: int = 0, **more) -> FoundLog:  # type: ignore[no-untyped-def]
    fields = {"topic_id": ONE, "epoch_max": epoch, **more}
    return FoundLog(
        broker=B(broker), partition=TopicPartition(topic, index), epoch=epoch, end=end, **fields
    )


def state(leader: int, epoch: int, isr: tuple[int, ...]) -> Leadership:
    return Leadership(
        leader=B(leader), leader_epoch=epoch, isr=tuple(map(B, isr)), controller_epoch=3
    )


def base(topic: str = "orders", id: uuid.UUID = ONE) -> Tree:
    """A back-up with one topic of one partition on brokers 0 and 1."""
    tree = Tree({}, 40)
    node = layout.TopicNode(id, {0: Assignment((B(0), B(1)))})
    at = layout.state_path(TopicPartition(topic, 0))
    config = layout.topic_config_path(topic)
    data = {
        layout.CLUSTER_ID: layout.encode_cluster_id("c"),
        layout.CONTROLLER_EPOCH: layout.encode_controller_epoch(3),
        layout.topic_path(topic): layout.encode_topic(node),
        at: layout.encode_state(state(0, 2, (0, 1))),
        config: layout.encode_config({"retention.ms": "5"}),
    }
    draft = Draft(tree)
    ops = [Create(path, data.get(path)) for path in layout.with_parents(data)]
    assert all(result.ok for result in draft.multi(ops, owner=0, now_ms=1))
    tree.publish(draft)
    return tree


def evidence(*logs: FoundLog, cluster: str = "c") -> Evidence:
    return Evidence(logs, frozenset({cluster}), controller_epoch=7)


def topic_in(tree: Tree, name: str) -> layout.TopicNode:
    found = layout.decode_topic(tree.entries[layout.topic_path(name)].data)
    assert found is not None
    return found


def state_in(tree: Tree, name: str, index: int) -> Leadership:
    entry = tree.entries[layout.state_path(TopicPartition(name, index))]
    found = layout.decode_state(entry.data, entry.stat.version)
    assert found is not None
    return found


def test_what_back_up_and_logs_agree_on_stays() -> None:
    logs = [log("orders", 0, 0, end=5, epoch=2), log("orders", 0, 1, end=5, epoch=2)]
    tree, report = rebuild(base(), evidence(*logs), now_ms=9)
    assert topic_in(tree, "orders") == topic_in(base(), "orders")
    assert state_in(tree, "orders", 0) == state_in(base(), "orders", 0)
    assert (report.rebuilt, report.unknown) == ([], [])
    assert (report.topics, report.partitions) == (1, 1)


def test_numbers_that_must_not_come_twice_go_on_far_above() -> None:
    tree, _ = rebuild(base(), evidence(log("orders", 0, 0, producer_id_max=4000)), now_ms=9)
    assert tree.zxid > 40 + 1000
    assert layout.decode_controller_epoch(tree.entries[layout.CONTROLLER_EPOCH].data) == 8
    block = layout.decode_producer_id_block(tree.entries[layout.PRODUCER_ID_BLOCK].data)
    assert block is not None
    assert block.first > 1_000_000


def test_the_replica_that_goes_farthest_leads_under_a_new_epoch() -> None:
    known = state(0, 2, (0, 1))
    logs = [
        log("orders", 0, 0, end=90, epoch=2),
        log("orders", 0, 1, end=50, epoch=4),
        log("orders", 0, 2, end=50, epoch=4, epoch_max=5),
    ]
    made = leadership(known, [B(0), B(1), B(2)], logs, controller_epoch=8)
    assert made is not None
    assert (made.leader, made.isr, made.leader_epoch) == (1, (1, 2), 6)


def test_a_topic_of_which_only_logs_tell_keeps_its_records() -> None:
    logs = [log("fresh", 2, 1, topic_id=TWO), log("fresh", 0, 0, topic_id=TWO)]
    tree, report = rebuild(base(), evidence(*logs), now_ms=9)
    made = topic_in(tree, "fresh")
    assert made.topic_id == TWO
    assert set(made.assignments) == {0, 1, 2}
    assert made.assignments[2].replicas == (1,)
    config = layout.decode_config(tree.entries[layout.topic_config_path("fresh")].data)
    assert config == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert any(line.startswith("fresh-1: no broker has a log") for line in report.unknown)
    assert any(line.startswith("orders: no broker has a log") for line in report.unknown)


def test_partitions_and_replicas_newer_than_the_back_up_come_from_the_logs() -> None:
    logs = [log("orders", 0, 1, end=4), log("orders", 0, 2, end=4), log("orders", 1, 2)]
    tree, _ = rebuild(base(), evidence(*logs), now_ms=9)
    made = topic_in(tree, "orders")
    assert made.assignments[0].replicas == (0, 1, 2)
    assert made.assignments[1].replicas == (2,)
    assert state_in(tree, "orders", 0).isr == (1, 2), "broker 0 has nothing"
    config = layout.decode_config(tree.entries[layout.topic_config_path("orders")].data)
    assert config == {"retention.ms": "5"}


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one() -> None:
    tree, report = rebuild(base(id=TWO), evidence(log("orders", 0, 0)), now_ms=9)
    assert topic_in(tree, "orders").topic_id == ONE
    config = layout.decode_config(tree.entries[layout.topic_config_path("orders")].data)
    assert config is not None
    assert config["retention.ms"] == "-1"
    assert "newer topic of that name" in report.rebuilt[0]


def test_a_compacted_topic_stays_compacted() -> None:
    logs = [log("keyed", 0, 0, is_compacted=True), log("__consumer_offsets", 0, 0)]
    tree, _ = rebuild(None, evidence(*logs), now_ms=9)
    for name in ("keyed", "__consumer_offsets"):
        config = layout.decode_config(tree.entries[layout.topic_config_path(name)].data)
        assert config == {"cleanup.policy": "compact"}


def test_directories_of_another_cluster_are_refused() -> None:
    with pytest.raises(UsageError, match="different clusters"):
        rebuild(base(), evidence(cluster="other"), now_ms=9)
    with pytest.raises(UsageError, match="nothing to repair"):
        rebuild(None, Evidence([], frozenset()), now_ms=9)
