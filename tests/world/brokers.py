"""Brokers as the controller meets them: they hold replicas, follow orders and answer."""

from __future__ import annotations

import uuid
from collections.abc import Container
from dataclasses import dataclass, field

from klamm.controller import effects, events
from klamm.controller.membership.roll_call import Holdings, Shown, digest
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import EPOCH_DURING_DELETE, NO_EPOCH, BrokerId, TopicPartition


@dataclass
class FakeBroker:
    """One broker process; its logs outlive it, what it was told does not."""

    id: BrokerId
    logs: dict[TopicPartition, uuid.UUID] = field(default_factory=dict)
    roles: dict[TopicPartition, Leadership] = field(default_factory=dict)
    metadata: dict[TopicPartition, effects.PartitionMetadata] = field(default_factory=dict)
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)  # of the metadata
    bad_disk: dict[TopicPartition, None] = field(default_factory=dict)
    refuses: dict[TopicPartition, ErrorCode] = field(default_factory=dict)  # orders for these
    controller_epoch: int = 0
    remembers_disk: bool = False
    made: set[TopicPartition] = field(default_factory=set)  # logs that were here once

    def restart(self) -> None:
        self.roles, self.metadata, self.controller_epoch = {}, {}, 0

    def compare_topics(self, present: Container[str], controller_epoch: int) -> None:
        """What ended while nobody could tell is learnt from the store."""
        if controller_epoch >= self.controller_epoch:
            for id in [id for id in self.metadata if id.topic not in present]:
                del self.metadata[id]

    def receive(self, request: effects.Request, controller_epoch: int) -> events.Event | None:
        if controller_epoch < self.controller_epoch:
            return self._stale(request)
        self.controller_epoch = controller_epoch
        match request:
            case effects.LeaderAndIsr():
                self._rename(request)
                errors = {o.partition: self._become(o, request) for o in request.orders}
                return events.LeaderAndIsrAnswered(request, ErrorCode.NONE, errors)
            case effects.UpdateMetadata():
                self._learn(request)
                return None
            case effects.StopReplica():
                errors = {o.partition: self._stop(o) for o in request.orders}
                if not any(o.delete for o in request.orders):
                    return None
                return events.StopReplicaAnswered(request, ErrorCode.NONE, errors)

    def _learn(self, request: effects.UpdateMetadata) -> None:
        ids = request.topic_ids
        again = {t for t, id in ids.items() if self.topic_ids.get(t, id) != id}
        for partition in [p for p in self.metadata if p.topic in again]:
            del self.metadata[partition]  # another topic of that name
        self.topic_ids.update(ids)
        for metadata in request.partitions:
            if metadata.is_deleted:
                self.metadata.pop(metadata.partition, None)
            else:
                self.metadata[metadata.partition] = metadata

    def holdings(self, controller_epoch: int) -> Holdings:
        """The answer to a roll call, which fences as any request does."""
        assert controller_epoch >= self.controller_epoch
        self.controller_epoch = controller_epoch
        replicas: dict[uuid.UUID, dict[int, int]] = {}
        for id, role in self.roles.items():
            if id in self.logs and id not in self.bad_disk:
                replicas.setdefault(self.logs[id], {})[id.partition] = role.leader_epoch
        shown: dict[str, list[Shown]] = {}
        for id, seen in self.metadata.items():
            now = seen.leadership
            row = (now.leader, now.leader_epoch, now.isr, seen.replicas, seen.offline)
            shown.setdefault(id.topic, []).append((id.partition, *row, now.partition_epoch))
        metadata = {topic: digest(self.topic_ids[topic], rows) for topic, rows in shown.items()}
        return Holdings(replicas, metadata)

    def _rename(self, request: effects.LeaderAndIsr) -> None:
        """Logs get the names under which they are ordered about; the ids tell whose they are."""
        wanted = {
            (request.topic_ids[o.partition.topic], o.partition.partition): o.partition
            for o in request.orders
            if not o.is_new
            and self.id in o.assignment.replicas
            and self.logs.get(o.partition) != request.topic_ids[o.partition.topic]
        }
        moves = {
            old: new
            for old, id in self.logs.items()
            if (new := wanted.get((id, old.partition))) is not None and new != old
        }
        for name in list(moves.values()):
            if name in self.logs and name not in moves:
                moves[name] = TopicPartition(f"renamed.{self.logs[name]}", name.partition)
        found = {new: (self.logs.pop(old), old in self.made) for old, new in moves.items()}
        self.made -= moves.keys()
        for old in moves:
            self.roles.pop(old, None)
        for new, (id, is_made) in found.items():
            self.logs[new] = id
            if is_made:
                self.made.add(new)

    def _become(self, order: effects.ReplicaOrder, request: effects.LeaderAndIsr) -> ErrorCode:
        id = order.partition
        if id in self.refuses:
            return self.refuses[id]
        if id in self.bad_disk:
            return ErrorCode.KAFKA_STORAGE_ERROR
        topic_id = request.topic_ids[id.topic]
        if self.logs.get(id, topic_id) != topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        known = self.roles.get(id)
        if known is not None and order.leadership.leader_epoch <= known.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.id not in order.assignment.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.remembers_disk and id not in self.logs and self._is_counted_on(order):
            return ErrorCode.LOG_DIR_NOT_FOUND
        self.logs[id] = topic_id
        self.made.add(id)
        self.roles[id] = order.leadership
        return ErrorCode.NONE

    def _is_counted_on(self, order: effects.ReplicaOrder) -> bool:
        now = order.leadership
        was_here = now.leader_epoch > 0 or order.partition in self.made
        settled = was_here and now.recovery is Recovery.RECOVERED
        return settled and not order.is_new and self.id in now.isr

    def _stop(self, order: effects.StopOrder) -> ErrorCode:
        id = order.partition
        if id in self.bad_disk:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self.roles.get(id)
        forced = order.leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH)
        if known is not None and not forced and order.leader_epoch < known.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if order.delete:
            self.roles.pop(id, None)
            self.logs.pop(id, None)
            self.made.discard(id)
        return ErrorCode.NONE

    def _stale(self, request: effects.Request) -> events.Event | None:
        code = ErrorCode.STALE_CONTROLLER_EPOCH
        match request:
            case effects.LeaderAndIsr():
                return events.LeaderAndIsrAnswered(request, code, {})
            case effects.StopReplica():
                return events.StopReplicaAnswered(request, code, {})
            case _:
                return None
