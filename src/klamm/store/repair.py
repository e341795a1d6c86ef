"""A store rebuilt from a back-up and from what the logs tell.

The logs know which topics there were, their ids, how many partitions they had, who held them and
under which leader epochs they were written. They know no settings, no order of replicas and nothing
of users: that comes from the back-up alone. Where the two differ, the logs are newer.

The replica that goes farthest (by leader epoch, then by offset) has every acknowledged record, so
it leads, and only those that go as far count as in sync; the others catch up from it. Numbers that
must never come twice (transactions, leader and controller epochs, producer ids) go on far above any
that could have been given out after the back-up.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from klamm.model.assignment import Assignment
from klamm.model.errors import UsageError
from klamm.model.found_logs import FoundLog
from klamm.model.leadership import Leadership
from klamm.model.names import INTERNAL_TOPICS, NO_LEADER, BrokerId, TopicPartition, id_text
from klamm.model.topics import ProducerIdBlock
from klamm.store import layout
from klamm.store.port import Create, Delete, Op, SetData
from klamm.store.tree import PERSISTENT, Draft, Tree

_ZXID_LEAP: Final = 1 << 20
_PRODUCER_ID_LEAP: Final = 1_000_000_000
_PRODUCER_ID_BLOCK: Final = 1000
_KEEP_ALL: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(slots=True)
class Report:
    """The repairs that were made, and the facts that are lost."""

    rebuilt: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    topics: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was found on the disks."""

    logs: Sequence[FoundLog]
    cluster_ids: frozenset[str]
    controller_epoch: int = 0  # the newest that a ledger tells of


def rebuild(base: Tree | None, evidence: Evidence, *, now_ms: int) -> tuple[Tree, Report]:
    """The store as the logs and the back-up tell it; the back-up's tree is used up."""
    report = Report()
    work = _Work(base or Tree({}, 0), now_ms)
    work.tree.zxid += _ZXID_LEAP
    if base is None:
        report.unknown.append(
            "settings of brokers, clients and users, quotas and credentials: there is no back-up"
        )
    _cluster_id(work, evidence.cluster_ids)
    epoch = _controller_epoch(work, evidence.controller_epoch)
    by_topic: defaultdict[str, list[FoundLog]] = defaultdict(list)
    for log in evidence.logs:
        by_topic[log.partition.topic].append(log)
    for name in sorted(by_topic):
        _Topic(work, report, name, by_topic[name], epoch).rebuild()
    for name in work.tree.children(layout.TOPICS) or ():
        report.topics += 1
        known = layout.decode_topic(work.data(layout.topic_path(name)))
        report.partitions += len(known.assignments) if known else 0
        if name not in by_topic:
            report.unknown.append(
                f"{name}: no broker has a log of it, so it comes back empty; if it had been "
                "deleted since the back-up, delete it again"
            )
    _producer_ids(work, evidence.logs)
    return work.tree, report


class _Work:
    """A tree that is changed node by node."""

    def __init__(self, tree: Tree, now_ms: int) -> None:
        self.tree = tree
        self._now_ms = now_ms

    def data(self, path: str) -> bytes | None:
        entry = self.tree.entries.get(path)
        return None if entry is None else entry.data

    def version(self, path: str) -> int:
        entry = self.tree.entries.get(path)
        return 0 if entry is None else entry.stat.version

    def put(self, path: str, data: bytes | None) -> None:
        """Make or change a node, with all that is missing above it."""
        *above, own = layout.with_parents([path])
        missing: list[Op] = [Create(name) for name in above if name not in self.tree.entries]
        last = SetData(own, data) if own in self.tree.entries else Create(own, data)
        self._do([*missing, last])

    def remove(self, path: str) -> None:
        """Take away a node and all below it."""
        if path not in self.tree.entries:
            return
        for name in self.tree.children(path) or ():
            self.remove(f"{path}/{name}")
        self._do([Delete(path)])

    def _do(self, ops: Sequence[Op]) -> None:
        draft = Draft(self.tree)
        results = draft.multi(ops, owner=PERSISTENT, now_ms=self._now_ms)
        assert all(result.ok for result in results), f"{ops}: {results}"
        self.tree.publish(draft)


def _cluster_id(work: _Work, found: frozenset[str]) -> None:
    known = layout.decode_cluster_id(work.data(layout.CLUSTER_ID))
    ids = found | ({known} if known else frozenset())
    if len(ids) > 1:
        raise UsageError(
            f"back-up and log directories are of different clusters: {', '.join(sorted(ids))}; "
            "move away what does not belong here"
        )
    if not ids:
        raise UsageError("no log directory was found, and no back-up: there is nothing to repair")
    if known is None:
        work.put(layout.CLUSTER_ID, layout.encode_cluster_id(min(ids)))


def _controller_epoch(work: _Work, seen: int) -> int:
    known = layout.decode_controller_epoch(work.data(layout.CONTROLLER_EPOCH)) or 0
    epoch = max(known, seen) + 1
    work.put(layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(epoch))
    return epoch


def _producer_ids(work: _Work, logs: Sequence[FoundLog]) -> None:
    known = layout.decode_producer_id_block(work.data(layout.PRODUCER_ID_BLOCK))
    used = max((log.producer_id_max for log in logs), default=-1)
    broker = known.broker if known else BrokerId(0)
    first = max(used, known.last if known else -1) + 1 + _PRODUCER_ID_LEAP
    block = ProducerIdBlock(broker, first, first + _PRODUCER_ID_BLOCK - 1)
    work.put(layout.PRODUCER_ID_BLOCK, layout.encode_producer_id_block(block))


class _Topic:
    """One topic of which there are logs."""

    def __init__(
        self, work: _Work, report: Report, name: str, logs: Sequence[FoundLog], epoch: int
    ) -> None:
        self._work = work
        self._report = report
        self._name = name
        self._path = layout.topic_path(name)
        self._controller_epoch = epoch
        self._known = layout.decode_topic(work.data(self._path))
        self._id = self._choose_id(logs)
        self._logs: defaultdict[int, list[FoundLog]] = defaultdict(list)
        for log in logs:
            if log.topic_id in (None, self._id):
                self._logs[log.partition.partition].append(log)

    def rebuild(self) -> None:
        """Write the topic's nodes as the logs tell them."""
        known = self._known
        if known is not None and known.topic_id not in (None, self._id):
            self._report.rebuilt.append(
                f"{self._name}: the logs are of a newer topic of that name than the back-up's"
            )
            self._work.remove(self._path)
            self._work.remove(layout.topic_config_path(self._name))
            self._work.remove(layout.delete_topic_path(self._name))
            known = None
        assignments = self._assignments(known.assignments if known else {})
        if known is None:
            self._new(assignments)
        elif assignments != known.assignments:
            self._report.rebuilt.append(
                f"{self._name}: partitions or replicas that are newer than the back-up"
            )
        if known is None or assignments != known.assignments:
            originals = known.original_replicas if known else {}
            node = layout.TopicNode(self._id, assignments, originals)
            self._work.put(self._path, layout.encode_topic(node))
        for index, assignment in assignments.items():
            self._lead(TopicPartition(self._name, index), assignment.replicas)

    def _choose_id(self, logs: Sequence[FoundLog]) -> uuid.UUID | None:
        """The id that most logs have, the back-up's where there is a tie; others are reported."""
        known = self._known.topic_id if self._known else None
        counts = Counter(log.topic_id for log in logs if log.topic_id is not None)
        if not counts:
            return known
        chosen = max(counts, key=lambda id: (counts[id], id == known, id.bytes))
        for other in counts.keys() - {chosen}:
            self._report.unknown.append(
                f"{self._name}: {counts[other]} logs are of another topic of that name "
                f"({id_text(other)}); the brokers will set them aside"
            )
        return chosen

    def _new(self, assignments: Mapping[int, Assignment]) -> None:
        """Write the settings that a topic without any must have for nothing to be dropped."""
        self._report.rebuilt.append(
            f"{self._name}: {len(assignments)} partitions, from the logs alone"
        )
        is_compacted = self._name in INTERNAL_TOPICS or any(
            log.is_compacted for logs in self._logs.values() for log in logs
        )
        settings = {"cleanup.policy": "compact"} if is_compacted else _KEEP_ALL
        self._work.put(layout.topic_config_path(self._name), layout.encode_config(settings))
        told = ", ".join(f"{name}={value}" for name, value in settings.items())
        self._report.unknown.append(
            f"{self._name}: its settings and the order of its replicas; it has {told} until "
            f"`klamm configs` says otherwise"
        )

    def _assignments(self, known: Mapping[int, Assignment]) -> dict[int, Assignment]:
        held = {index: sorted({log.broker for log in logs}) for index, logs in self._logs.items()}
        assignments = {}
        for index in range(max([*known, *held]) + 1):
            holders = held.get(index, [])
            if index in known:
                replicas, adding, removing = _parts(known[index])
                more = tuple(broker for broker in holders if broker not in replicas)
                assignments[index] = Assignment(replicas + more, adding, removing)
                continue
            if not holders:
                self._report.unknown.append(
                    f"{self._name}-{index}: no broker has a log of it, so it comes back empty"
                )
                holders = next(iter(held.values()))
            # The order is not known; that partitions take turns spreads their leaders.
            turn = index % len(holders)
            assignments[index] = Assignment((*holders[turn:], *holders[:turn]))
        return assignments

    def _lead(self, partition: TopicPartition, replicas: Sequence[BrokerId]) -> None:
        path = layout.state_path(partition)
        known = layout.decode_state(self._work.data(path), self._work.version(path))
        logs = self._logs.get(partition.partition, [])
        state = leadership(known, replicas, logs, self._controller_epoch)
        if state is not None and state != known:
            self._work.put(path, layout.encode_state(state))


def _parts(
    known: Assignment,
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    return known.replicas, known.adding, known.removing


def leadership(
    known: Leadership | None,
    replicas: Sequence[BrokerId],
    logs: Sequence[FoundLog],
    controller_epoch: int,
) -> Leadership | None:
    """The leader and the in-sync set that the logs suggest; None if they suggest none."""
    if not logs:
        return known
    farthest = max(log.reach for log in logs)
    complete = {log.broker for log in logs if log.reach == farthest}
    isr = tuple(broker for broker in replicas if broker in complete)
    epoch = max(log.epoch_max for log in logs)
    was = known.leader if known else NO_LEADER
    leader = was if was in complete else isr[0]
    if known and known.leader_epoch >= epoch and was == leader and set(known.isr) == set(isr):
        return known
    return Leadership(
        leader=leader,
        leader_epoch=max(epoch, known.leader_epoch if known else -1) + 1,
        isr=isr,
        controller_epoch=controller_epoch,
        partition_epoch=known.partition_epoch + 1 if known else 0,
    )


def is_bare(tree: Tree) -> bool:
    """Whether there is nothing in a tree that could be repaired from it."""
    return tree.is_empty
