"""The partitions this broker hosts, and what the controller orders done with them.

LeaderAndIsr, StopReplica, UpdateMetadata and RollCall share one lock, and one authority decides
whether the controller that sends them is obeyed (`authority`). Within one order each partition
stands alone; one that cannot be obeyed gets its own error and spoils no other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from klamm import gc_pause
from klamm.broker.ground import Ground
from klamm.broker.replicas.authority import Obedience
from klamm.broker.replicas.coming import Coming
from klamm.broker.replicas.ended_topics import EndedTopics
from klamm.broker.replicas.fetchers import Fetchers
from klamm.broker.replicas.losses import Losses
from klamm.broker.replicas.new_logs import NewLogs
from klamm.broker.replicas.orders import (
    Order,
    Stop,
    faults_in,
    in_slices,
    leave_out_faults,
    orders_of,
    stops_of,
)
from klamm.broker.replicas.partition import Partition, Role
from klamm.broker.replicas.proposals import Proposals
from klamm.broker.replicas.refusals import is_only_called_otherwise, refused_at_once, stop_fault
from klamm.broker.replicas.renaming import Renaming
from klamm.broker.replicas.roll_call import holdings
from klamm.broker.storage.logs import Logs
from klamm.controller.membership.roll_call import Holdings
from klamm.log.disk.failure import LogDirectoryFailed, StorageShortage, StorageTrouble
from klamm.log.paper import NewLog
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.errors import ErrorCode
from klamm.model.names import ZERO_ID, BrokerId, TopicPartition
from klamm.model.settings import TopicSettings
from klamm.protocol.messages import leader_and_isr, stop_replica, update_metadata

log = logging.getLogger(__name__)

# To the controller: nothing is wrong with the disk, and ordered again it may work.
_SHORT: Final = ErrorCode.REQUEST_TIMED_OUT

PartitionState = leader_and_isr.LeaderAndIsrPartitionState
LeadershipHook = Callable[[TopicPartition, int], None]
RemovalHook = Callable[[TopicPartition], None]
PartitionHook = Callable[[Partition], None]
MetadataHook = Callable[[frozenset[TopicPartition]], None]


class ReplicaManager:
    """Hosts partitions on behalf of one broker."""

    def __init__(
        self,
        ground: Ground,
        logs: Logs,
        fetchers: Fetchers,
        proposals: Proposals,
        topics_at_start: frozenset[str],  # that were there before this broker
    ) -> None:
        self.broker_id = ground.id
        self.now_ms = ground.clock.elapsed_ms
        self.wall_ms = ground.clock.now_ms
        self.partitions: dict[TopicPartition, Partition] = {}
        self.topic_names: dict[uuid.UUID, str] = {}  # of the topics hosted here
        self.authority = Obedience(ground)
        self.on_leader: list[LeadershipHook] = []
        self.on_follower: list[LeadershipHook] = []
        self.on_removed: list[RemovalHook] = []
        self.on_led: list[PartitionHook] = []  # also where it was led here before
        self.coming = Coming(ground, self.partition)
        self.on_role: list[PartitionHook] = [self.coming.arrived]  # a role was taken, or kept
        self.on_metadata: list[MetadataHook] = []  # with the partitions that are gone
        self.is_stopping = False  # followers are not started any more
        self._ground = ground
        self._logs = logs
        self._fetchers = fetchers
        self._proposals = proposals
        self._losses = Losses(ground, logs, topics_at_start)
        self._new_logs = NewLogs(ground, logs)
        self._ended = EndedTopics(ground)
        self.renaming = Renaming(ground, logs, fetchers)
        self._lock = asyncio.Lock()

    # What partitions need (Host)

    def eligible(self) -> Collection[BrokerId]:
        return self._ground.metadata.snapshot.brokers.keys()

    def lag_ms_max(self) -> int:
        return self._ground.settings.int("replica.lag.time.max.ms")

    def propose(self, partition: Partition) -> None:
        self._proposals.add(partition)

    # Looking

    @property
    def controller_epoch(self) -> int:
        """The highest epoch of a controller that has ordered anything here."""
        return self.authority.epoch

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        """The partition, if it is hosted here."""
        return self.partitions.get(topic_partition)

    def find_leader(self, topic_partition: TopicPartition) -> Partition | ErrorCode:
        """The partition led here, or why it is not."""
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition if partition.role is Role.LEADER else partition.not_leading()
        if self._ground.metadata.snapshot.partition(topic_partition) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of a topic hosted here or known to the cluster."""
        name = self.topic_names.get(topic_id)
        return name or self._ground.metadata.snapshot.topic_names.get(topic_id)

    # LeaderAndIsr

    async def obey(
        self, request: leader_and_isr.Request
    ) -> tuple[ErrorCode, list[tuple[Order, ErrorCode]]]:
        """Lead and follow as ordered."""
        orders = list(orders_of(request))
        async with self._lock:
            refusal = await self.authority.refusal(request.broker_epoch, request.controller_epoch)
            if refusal is ErrorCode.STALE_BROKER_EPOCH:
                return refusal, []
            if refusal is not ErrorCode.NONE:
                return refusal, [(order, refusal) for order in orders]
            leaders = {BrokerId(leader.broker_id) for leader in request.live_leaders}
            faults = faults_in(order.topic_partition for order in orders)
            sound = [order for order in orders if order.topic_partition not in faults]
            settings = await self._settings_for(sound)
            log_settings = {topic: LogSettings.of(own) for topic, own in settings.items()}
            await self.renaming.settle(sound, log_settings, self._end)
            results: list[tuple[Order, ErrorCode]] = []
            with gc_pause.paused():
                for some in in_slices(orders):
                    sound = [order for order in some if order.topic_partition not in faults]
                    troubles = await self._make_logs(sound, log_settings)
                    for order in some:
                        topic = order.topic_partition.topic
                        if order.topic_partition in faults:
                            code = ErrorCode.INVALID_TOPIC_EXCEPTION
                        elif (trouble := troubles.get(order.topic_partition)) is not None:
                            code = self._not_made(order.topic_partition, trouble)
                        else:
                            code = self._obey_one(
                                order, settings[topic], log_settings[topic], leaders
                            )
                        results.append((order, code))
                    await asyncio.sleep(0)
                self._fetchers.apply()
            unsynced = await self._new_logs.sync(remember=self._losses.remembers_disk)
        lost = await self._losses.code_for(BrokerId(request.controller_id))
        told = [
            (order, self._outcome(order.topic_partition, code, unsynced)) for order, code in results
        ]
        return ErrorCode.NONE, [
            (order, lost if code is ErrorCode.LOG_DIR_NOT_FOUND else code) for order, code in told
        ]

    async def _make_logs(
        self, orders: Iterable[Order], settings: Mapping[str, LogSettings]
    ) -> Mapping[TopicPartition, StorageTrouble]:
        wanted = {
            tp: NewLog(tp, order.topic_id, settings[tp.topic])
            for order in orders
            if self._logs.get(tp := order.topic_partition) is None and self._may_be_made(order)
        }
        return await self._new_logs.make(list(wanted.values()))

    def _may_be_made(self, order: Order) -> bool:
        """Whether an order that is obeyed makes a new log."""
        topic_partition, _, state = order
        partition = self.partitions.get(topic_partition)
        return (
            refused_at_once(order, partition, self.broker_id) is None
            and (state.is_new or not self._logs.any_failed)
            and not self._losses.is_lost(topic_partition, state)
        )

    def _not_made(self, topic_partition: TopicPartition, trouble: StorageTrouble) -> ErrorCode:
        self._ground.storage_trouble(trouble)
        partition = self.partitions.get(topic_partition)
        if partition is None:
            partition = self.partitions[topic_partition] = Partition(topic_partition, self)
        return self._not_taken(partition, trouble)

    def _outcome(
        self,
        topic_partition: TopicPartition,
        code: ErrorCode,
        unsynced: AbstractSet[TopicPartition],
    ) -> ErrorCode:
        partition = self.partitions.get(topic_partition)
        if partition is not None and partition.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if code is ErrorCode.NONE and topic_partition in unsynced:
            return _SHORT
        return code

    async def _settings_for(self, orders: Sequence[Order]) -> Mapping[str, TopicSettings]:
        return await self._ground.dynamic_config.learnt(
            {order.topic_partition.topic for order in orders}
        )

    def _obey_one(
        self,
        order: Order,
        settings: TopicSettings,
        log_settings: LogSettings,
        live_leaders: Collection[BrokerId],
    ) -> ErrorCode:
        topic_partition = order.topic_partition
        partition = self.partitions.get(topic_partition)
        refusal = refused_at_once(order, partition, self.broker_id)
        only_id = partition is not None and is_only_called_otherwise(order, partition)
        if refusal is not None and not only_id:
            return refusal
        if partition is None:
            partition = self.partitions[topic_partition] = Partition(topic_partition, self)
        try:
            if only_id:
                return self._call_otherwise(partition, order.topic_id)
            return self._take_role(partition, order, settings, log_settings, live_leaders)
        except StorageTrouble as trouble:
            self._ground.storage_trouble(trouble)
            return self._not_taken(partition, trouble)

    def _call_otherwise(self, partition: Partition, topic_id: uuid.UUID) -> ErrorCode:
        """Call a topic by its id, or by its name, from now on.

        The first controller that knows ids gives one to a topic from before them, and stores no new
        leader epoch. One from before ids that comes after it speaks of names again, and so do its
        brokers; the log keeps its id.
        """
        assert partition.log is not None, f"{partition.topic_partition} has no log"
        partition.has_id = topic_id != ZERO_ID
        if partition.has_id:
            if partition.log.topic_id in (None, ZERO_ID):
                partition.log.set_topic_id(topic_id)
            self.topic_names[topic_id] = partition.topic_partition.topic
        if partition.role is Role.FOLLOWER and not self.is_stopping:
            self._fetchers.add(partition)
        return ErrorCode.NONE

    def _not_taken(self, partition: Partition, trouble: StorageTrouble) -> ErrorCode:
        if isinstance(trouble, LogDirectoryFailed):
            partition.fail()
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition.log is None:
            # Nothing of it is here: what is not hosted must not look as if it were.
            self.partitions.pop(partition.topic_partition, None)
        return _SHORT if isinstance(trouble, StorageShortage) else ErrorCode.INCONSISTENT_TOPIC_ID

    def _take_role(
        self,
        partition: Partition,
        order: Order,
        settings: TopicSettings,
        log_settings: LogSettings,
        live_leaders: Collection[BrokerId],
    ) -> ErrorCode:
        topic_partition, topic_id, state = order
        has_id = topic_id != ZERO_ID
        local = self._logs.get(topic_partition)
        if local is None:
            if not state.is_new and self._logs.any_failed:
                # It may be there, on the disk that cannot be read.
                partition.fail()
                return ErrorCode.KAFKA_STORAGE_ERROR
            if self._losses.is_lost(topic_partition, state):
                self.partitions.pop(topic_partition, None)
                return ErrorCode.LOG_DIR_NOT_FOUND
            local = self._logs.create(topic_partition, topic_id, log_settings)
        elif has_id and local.topic_id not in (topic_id, None, ZERO_ID):
            if partition.log is None:
                # Nothing of this topic is here: what is not hosted must not look as if it were.
                del self.partitions[topic_partition]
            return ErrorCode.INCONSISTENT_TOPIC_ID
        elif self._losses.is_shortened(topic_partition, state):
            if partition.log is None:
                del self.partitions[topic_partition]
            return ErrorCode.LOG_DIR_NOT_FOUND
        if has_id:
            if local.topic_id is not topic_id and local.topic_id in (None, ZERO_ID):
                # A crash came between the making of the directory and of the file with the id.
                local.set_topic_id(topic_id)
            self.topic_names[topic_id] = topic_partition.topic
        partition.has_id = has_id
        partition.in_sync_min = settings.int("min.insync.replicas")
        if state.leader == self.broker_id:
            self._logs.made_up_for(topic_partition)
            self._lead(partition, state, local)
        elif state.leader in self.eligible() or state.leader in live_leaders:
            self._logs.made_up_for(topic_partition)
            self._follow(partition, state, local)
        elif partition.log is None:
            partition.log = local
        for hook in self.on_role:
            hook(partition)
        return ErrorCode.NONE

    def _lead(self, partition: Partition, state: PartitionState, local: PartitionLog) -> None:
        topic_partition = partition.topic_partition
        self._fetchers.remove(topic_partition)
        if partition.lead(state, local):
            for hook in self.on_leader:
                hook(topic_partition, state.leader_epoch)
        for led in self.on_led:
            led(partition)

    def _follow(self, partition: Partition, state: PartitionState, local: PartitionLog) -> None:
        if partition.follow(state, local):
            for hook in self.on_follower:
                hook(partition.topic_partition, state.leader_epoch)
        if not self.is_stopping:
            self._fetchers.add(partition)

    # StopReplica

    async def stop(
        self, request: stop_replica.Request
    ) -> tuple[ErrorCode, list[tuple[Stop, ErrorCode]]]:
        """Stop, and where told delete, replicas."""
        async with self._lock:
            refusal = await self.authority.refusal(request.broker_epoch, request.controller_epoch)
            if refusal is not ErrorCode.NONE:
                return refusal, []
            stops = list(stops_of(request))
            faults = faults_in(stop.topic_partition for stop in stops)
            results = [
                (
                    stop,
                    ErrorCode.INVALID_TOPIC_EXCEPTION
                    if stop.topic_partition in faults
                    else stop_fault(stop, self.partitions.get(stop.topic_partition)),
                )
                for stop in stops
            ]
            accepted = [stop for stop, code in results if code is ErrorCode.NONE]
            for stop in accepted:
                self._stop_one(stop)
            self._forget_ids({stop.topic_partition.topic for stop in accepted if stop.delete})
            self._fetchers.apply()
            doomed = [stop.topic_partition for stop in accepted if stop.delete]
            failed = self._delete_logs(doomed)
            return ErrorCode.NONE, [
                (stop, ErrorCode.KAFKA_STORAGE_ERROR)
                if failed and stop.delete and code is ErrorCode.NONE
                else (stop, code)
                for stop, code in results
            ]

    def _stop_one(self, stop: Stop) -> None:
        topic_partition = stop.topic_partition
        self._fetchers.remove(topic_partition)
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            partition.stop()
        if stop.delete:
            self._end(topic_partition)

    def _end(self, topic_partition: TopicPartition) -> Partition | None:
        """Host a partition no longer."""
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            for hook in self.on_removed:
                hook(topic_partition)
        return partition

    def _forget_ids(self, shrunk: set[str]) -> None:
        """Forget the ids of topics of which nothing is hosted any more."""
        gone = shrunk - {topic_partition.topic for topic_partition in self.partitions}
        if gone:
            self.topic_names = {i: name for i, name in self.topic_names.items() if name not in gone}

    def _delete_logs(self, doomed: Sequence[TopicPartition]) -> bool:
        """Whether the disk failed meanwhile."""
        try:
            self._logs.schedule_delete(doomed, self.wall_ms())
        except StorageTrouble as trouble:
            self._ground.storage_trouble(trouble)
            return True
        return False

    # RollCall

    async def answer_roll_call(
        self, broker_epoch: int, controller_epoch: int
    ) -> Holdings | ErrorCode:
        """The holdings of this broker, once all orders are done and on the disk."""
        async with self._lock:
            refusal = await self.authority.refusal(broker_epoch, controller_epoch)
            if refusal is not ErrorCode.NONE:
                return refusal
            await self._ended.look(controller_epoch)
            held = holdings(self.partitions.values(), self._ground.metadata.snapshot)
            # What is about to be forgotten is not claimed, or nobody would tell of it again.
            shown = {
                topic: seen
                for topic, seen in held.metadata.items()
                if topic not in self._ended.found
            }
            return replace(held, metadata=shown)

    # UpdateMetadata

    async def learn(self, request: update_metadata.Request) -> ErrorCode:
        """Take over what the controller says of the cluster."""
        async with self._lock:
            refusal = await self.authority.refusal(request.broker_epoch, request.controller_epoch)
            if refusal is ErrorCode.NONE:
                refusal = leave_out_faults(request)
                self._forget_ended()
                known = self._ground.metadata.snapshot.brokers.keys()
                self._metadata_changed(self._ground.metadata.apply(request))
                self._brokers_left(known - self._ground.metadata.snapshot.brokers.keys())
                # What the controller says is shown first: others have been told it meanwhile.
                await self._ended.look(request.controller_epoch)
                self._forget_ended()
            return refusal

    def _forget_ended(self) -> None:
        removed = self._ended.forget()
        if removed:
            self._metadata_changed(removed)

    def _metadata_changed(self, removed: frozenset[TopicPartition]) -> None:
        for hook in self.on_metadata:
            hook(removed)

    def _brokers_left(self, gone: AbstractSet[BrokerId]) -> None:
        if gone:
            for partition in self.partitions.values():
                partition.brokers_left(gone)

    # Housekeeping

    def reconfigure(self, topic: str, settings: TopicSettings) -> None:
        """Let the hosted partitions of a topic obey its new settings."""
        log_settings = LogSettings.of(settings)
        for partition in self.partitions.values():
            if partition.topic_partition.topic == topic:
                _reconfigure(partition, settings, log_settings)

    def reconfigure_all(self, settings_of: Callable[[str], TopicSettings]) -> None:
        """The same for every topic, with one look at each partition."""
        known: dict[str, tuple[TopicSettings, LogSettings]] = {}
        for partition in self.partitions.values():
            topic = partition.topic_partition.topic
            if topic not in known:
                settings = settings_of(topic)
                known[topic] = settings, LogSettings.of(settings)
            _reconfigure(partition, *known[topic])

    def drop_laggards(self) -> None:
        """Propose smaller in-sync sets where followers have been behind for too long."""
        for partition in self.partitions.values():
            partition.drop_laggards()

    def fail_directory(self, path: str) -> None:
        """Take every partition on a failed directory offline."""
        below = os.path.join(path, "")
        for partition in self.partitions.values():
            if partition.log is not None and partition.log.directory.startswith(below):
                self._fetchers.remove(partition.topic_partition)
                partition.fail()
        self._fetchers.apply()

    def abandon(self) -> None:
        """Nobody needs to wait here any longer."""
        for partition in self.partitions.values():
            partition.stop()


def _reconfigure(partition: Partition, settings: TopicSettings, log_settings: LogSettings) -> None:
    partition.in_sync_min = settings.int("min.insync.replicas")
    if partition.log is not None:
        partition.log.settings = log_settings
