"""Nodes of partitions that stand alike are held once, and are no less for it."""

from __future__ import annotations

from pathlib import Path

from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.database import Database, rows_of
from klamm.store.port import Create, Delete, Op, SetData
from klamm.store.tree import Draft, Tree

_COUNT = 200
_LED = Leadership(leader=BrokerId(1), leader_epoch=0, isr=(BrokerId(1),), controller_epoch=3)


def _partition(index: int) -> list[Op]:
    place = TopicPartition("T", index)
    state = Create(layout.state_path(place), layout.encode_state(_LED))
    return [Create(layout.partition_path(place)), state]


def _wide(database: Database) -> Tree:
    tree = database.load()
    draft = Draft(tree)
    root = [*layout.with_parents([layout.topic_path("T")]), layout.partitions_path("T")]
    ops: list[Op] = [Create(path) for path in dict.fromkeys(root)]
    ops += [op for index in range(_COUNT) for op in _partition(index)]
    assert all(result.ok for result in draft.multi(ops, owner=0, now_ms=7))
    database.commit(rows_of(draft, tree))
    tree.publish(draft)
    return tree


def _held(tree: Tree) -> int:
    return len({id(entry) for entry in tree.entries.values()})


def test_partitions_made_together_share_their_nodes_before_and_after_a_start(
    tmp_path: Path,
) -> None:
    database = Database.open(tmp_path / "store.db", fsync=False)
    tree = _wide(database)
    assert _held(tree) < 15
    again = database.load()
    database.close()
    assert _held(again) < 15
    assert again.entries == tree.entries


def test_a_node_that_is_changed_changes_alone() -> None:
    tree = Tree({}, 0)
    draft = Draft(tree)
    root = [*layout.with_parents([layout.topic_path("T")]), layout.partitions_path("T")]
    ops: list[Op] = [Create(path) for path in dict.fromkeys(root)]
    draft.multi([*ops, *_partition(0), *_partition(1), *_partition(2)], owner=0, now_ms=7)
    tree.publish(draft)
    changed, gone, other = (layout.state_path(TopicPartition("T", i)) for i in range(3))
    before = tree.entries[other]
    draft = Draft(tree)
    (made, _) = draft.multi([SetData(changed, b"new", 0), Delete(gone)], owner=0, now_ms=8)
    touched = tree.publish(draft)
    assert made.ok
    assert set(touched.nodes) == {changed, gone}
    assert tree.entries[changed].data == b"new"
    assert tree.entries[changed].stat.version == 1
    assert tree.entries[other] is before
    assert (tree.children(layout.partition_path(TopicPartition("T", 1))), gone in tree.entries) == (
        (),
        False,
    )
    # A create that fails in one multi leaves nothing for the next one.
    draft = Draft(tree)
    failed = draft.multi([Create("/x", b"1"), Create("/x", b"2")], owner=0, now_ms=9)
    assert not any(result.ok for result in failed)
    (result,) = draft.multi([Create("/x", b"3")], owner=4, now_ms=9)
    tree.publish(draft)
    assert result.stat is not None
    assert result.stat.ephemeral_owner == 0
    assert tree.entries["/x"].data == b"3"


def test_owners_are_not_confused() -> None:
    tree = Tree({}, 0)
    draft = Draft(tree)
    ops: list[Op] = [Create("/a", b""), Create("/b", b"", ephemeral=True), Create("/c", b"")]
    draft.multi(ops, owner=9, now_ms=1)
    tree.publish(draft)
    owners = [tree.entries[path].stat.ephemeral_owner for path in ("/a", "/b", "/c")]
    assert owners == [0, 9, 0]


def test_a_state_is_read_once_and_faults_are_faults_each_time() -> None:
    text = layout.encode_state(_LED)
    read = layout.decode_state(bytes(bytearray(text)), 0)
    assert read == _LED
    assert layout.decode_state(bytes(bytearray(text)), 0) is read
    other = layout.decode_state(text, 1)
    assert other is not None
    assert other.partition_epoch == 1
    for fault in (b"", b"{", b'{"leader":[]}', b"[" * 100_000, None):
        assert layout.decode_state(fault, 0) is None
        assert layout.decode_state(fault, 0) is None
    recovering = Leadership(
        leader=BrokerId(1),
        leader_epoch=0,
        isr=(BrokerId(1),),
        controller_epoch=3,
        recovery=Recovery.RECOVERING,
    )
    assert layout.decode_state(layout.encode_state(recovering), 0) == recovering
    assert layout.encode_state(_LED) is layout.encode_state(_LED)


def test_odd_assignments_are_read_as_before() -> None:
    def replicas(text: str) -> object:
        node = layout.decode_topic(f'{{"version":3,"partitions":{{"0":{text}}}}}'.encode())
        return None if node is None else node.assignments[0].replicas

    assert replicas("[1,2]") == (1, 2)
    assert replicas('["1",2]') == (1, 2)
    assert replicas("[true,2]") == (1, 2)
    many = list(range(40))
    assert replicas(str(many)) == tuple(many)
    assert replicas("[[1]]") is None
    assert replicas("[{}]") is None
    assert replicas("7") is None
