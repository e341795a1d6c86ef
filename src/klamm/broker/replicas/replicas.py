"""The partitions this broker hosts, and what the controller orders done with them.

LeaderAndIsr, StopReplica, UpdateMetadata and RollCall share one lock and one remembered controller
epoch: what an old controller says is refused, whichever of them it says it with, and so is what one
says whose epoch the store does not know. Within one order each partition stands alone; one that
cannot be obeyed gets its own error and spoils no other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Final

from klamm import collector
from klamm.broker.ground import Ground
from klamm.broker.replicas.fetcher import Fetchers
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
from klamm.broker.replicas.roll_call import holdings
from klamm.broker.storage.logs import Logs, NewLog, make_files
from klamm.controller.membership.roll_call import Holdings
from klamm.log.failure import LogDirectoryFailed, StorageShortage, StorageTrouble
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.errors import ErrorCode, ProtocolError, StoreUnavailable
from klamm.model.leadership import Recovery
from klamm.model.names import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    ZERO_ID,
    BrokerId,
    TopicPartition,
)
from klamm.model.settings import TopicSettings
from klamm.protocol.messages import leader_and_isr, stop_replica, update_metadata
from klamm.store import layout
from klamm.store.port import ANY_VERSION, Check, Session

log = logging.getLogger(__name__)
state_change: Final = logging.getLogger("klamm.state_change")

# To the controller: nothing is wrong with the disk, and ordered again it may work.
_SHORT: Final = ErrorCode.REQUEST_TIMED_OUT
_COMPARE_WITHIN_S: Final = 2.0  # a controller's word must not wait long for the store
_SILENCE_MS: Final = 5_000  # after which a broker may have missed something

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
        self.controller_epoch = -1  # the highest that has ordered anything
        self._compared_epoch = -1  # the controller whose topics were compared with the store's
        self._heard_ms = 0  # when a controller last told of the cluster
        self._ended: frozenset[str] = frozenset()  # topics to forget with the next metadata
        self.on_leader: list[LeadershipHook] = []
        self.on_follower: list[LeadershipHook] = []
        self.on_removed: list[RemovalHook] = []
        self.on_led: list[PartitionHook] = []  # also where it was led here before
        self.on_role: list[PartitionHook] = []  # a role was taken, or kept
        self.on_metadata: list[MetadataHook] = []  # with the partitions that are gone
        self.is_stopping = False  # followers are not started any more
        self._ground = ground
        self._logs = logs
        self._fetchers = fetchers
        self._proposals = proposals
        self._topics_at_start = topics_at_start
        self._lock = asyncio.Lock()

    # What partitions need (Host)

    def eligible(self) -> Collection[BrokerId]:
        return self._ground.metadata.snapshot.brokers.keys()

    def lag_ms_max(self) -> int:
        return self._ground.settings.int("replica.lag.time.max.ms")

    def propose(self, partition: Partition) -> None:
        self._proposals.add(partition)

    # Looking

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
            refusal = await self._refusal(request.broker_epoch, request.controller_epoch)
            if refusal is ErrorCode.STALE_BROKER_EPOCH:
                return refusal, []
            if refusal is not ErrorCode.NONE:
                return refusal, [(order, refusal) for order in orders]
            leaders = {BrokerId(leader.broker_id) for leader in request.live_leaders}
            faults = faults_in(order.topic_partition for order in orders)
            settings = await self._settings_for(
                [order for order in orders if order.topic_partition not in faults]
            )
            log_settings = {topic: LogSettings.of(own) for topic, own in settings.items()}
            results: list[tuple[Order, ErrorCode]] = []
            with collector.paused():
                for some in in_slices(orders):
                    sound = [order for order in some if order.topic_partition not in faults]
                    troubles = await self._make_logs(sound, log_settings)
                    for order in some:
                        topic_partition = order.topic_partition
                        trouble = troubles.get(topic_partition)
                        if topic_partition in faults:
                            code = ErrorCode.INVALID_TOPIC_EXCEPTION
                        elif trouble is not None:
                            code = self._not_made(topic_partition, trouble)
                        else:
                            topic = topic_partition.topic
                            code = self._obey_one(
                                order, settings[topic], log_settings[topic], leaders
                            )
                        results.append((order, code))
                    await asyncio.sleep(0)
                self._fetchers.apply()
            unsynced = await self._sync_new_logs()
        return ErrorCode.NONE, [
            (order, self._outcome(order.topic_partition, code, unsynced)) for order, code in results
        ]

    async def _make_logs(
        self, orders: Iterable[Order], settings: Mapping[str, LogSettings]
    ) -> Mapping[TopicPartition, StorageTrouble]:
        """Make the files of logs that are about to be needed, while others are served.

        What could not be made, and why. The lock is ours: nobody else makes or removes logs now.
        """
        logs = self._logs
        wanted = {
            tp: NewLog(tp, order.topic_id, settings[tp.topic])
            for order in orders
            if logs.get(tp := order.topic_partition) is None and self._may_be_made(order)
        }
        if not wanted or not logs.online:
            return {}
        homes = logs.homes_for(wanted.values())
        made = await self._ground.in_worker(partial(make_files, homes))
        troubles: dict[TopicPartition, StorageTrouble] = {}
        for topic_partition, outcome in zip(wanted, made, strict=True):
            if isinstance(outcome, StorageTrouble):
                troubles[topic_partition] = outcome
            else:
                directory, local = outcome
                directory.adopt(local)
        return troubles

    def _may_be_made(self, order: Order) -> bool:
        """Whether an order that is obeyed makes a new log."""
        topic_partition, _, state = order
        partition = self.partitions.get(topic_partition)
        return (
            self._refused_at_once(order, partition) is None
            and (state.is_new or not self._logs.any_failed)
            and not self._is_lost(topic_partition, state)
        )

    def _not_made(self, topic_partition: TopicPartition, trouble: StorageTrouble) -> ErrorCode:
        self._ground.storage_trouble(trouble)
        partition = self.partitions.get(topic_partition)
        if partition is None:
            partition = self.partitions[topic_partition] = Partition(topic_partition, self)
        return self._not_taken(partition, trouble)

    async def _sync_new_logs(self) -> AbstractSet[TopicPartition]:
        """The controller hears that a replica is here when a loss of power cannot undo that.

        What could not be brought to the disk now is told, and tried again with the next order.
        """
        unsynced: set[TopicPartition] = set()
        for directory, born in self._logs.take_new().items():
            try:
                syncing = partial(directory.sync_new, born, remember=self._remembers_disk)
                await self._ground.in_worker(syncing)
            except StorageTrouble as trouble:
                self._ground.storage_trouble(trouble)
                if isinstance(trouble, StorageShortage):
                    directory.not_synced(born)
                    unsynced.update(local.topic_partition for local in born)
        return unsynced

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

    async def _refusal(self, broker_epoch: int, controller_epoch: int) -> ErrorCode:
        # An epoch above our own is one we have registered but not been told of yet.
        if broker_epoch != NO_EPOCH and broker_epoch < self._ground.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if controller_epoch > self.controller_epoch:
            if not await self._is_elected(controller_epoch):
                log.error(
                    "a controller that nobody elected is not obeyed",
                    extra={"claimed": controller_epoch, "known": self.controller_epoch},
                )
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    async def _is_elected(self, epoch: int) -> bool:
        """Whether the store knows of this epoch: one that was made up would fence the real ones."""
        session = self._ground.session
        try:
            async with asyncio.timeout(_COMPARE_WITHIN_S):
                if await self._epoch_stored(session) >= epoch:
                    return True
                # The store may have answered from the past; not after a write of our own.
                await session.multi([Check(layout.CONTROLLER_EPOCH, ANY_VERSION)])
                return await self._epoch_stored(session) >= epoch
        except (StoreUnavailable, TimeoutError):
            # Without an answer the controller asks again, and the store may be back by then.
            raise ProtocolError(
                "the store is away, and nobody else knows who was elected"
            ) from None

    async def _epoch_stored(self, session: Session) -> int:
        node = await session.get(layout.CONTROLLER_EPOCH)
        epoch = layout.decode_controller_epoch(node.data) if node is not None else None
        return -1 if epoch is None else epoch

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
        refusal = self._refused_at_once(order, partition)
        only_id = partition is not None and _tells_only_an_id(order, partition)
        if refusal is not None and not only_id:
            return refusal
        if partition is None:
            partition = self.partitions[topic_partition] = Partition(topic_partition, self)
        try:
            if only_id:
                return self._learn_id(partition, order.topic_id)
            return self._take_role(partition, order, settings, log_settings, live_leaders)
        except StorageTrouble as trouble:
            self._ground.storage_trouble(trouble)
            return self._not_taken(partition, trouble)

    def _refused_at_once(self, order: Order, partition: Partition | None) -> ErrorCode | None:
        """The reason to refuse an order, as far as no log has to be looked at for that."""
        _, topic_id, state = order
        if partition is not None and partition.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known_id = _topic_id(partition)
        if ZERO_ID not in (known_id, topic_id) and known_id != topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if partition is not None and state.leader_epoch <= partition.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None

    def _learn_id(self, partition: Partition, topic_id: uuid.UUID) -> ErrorCode:
        """Store the id of a topic from before ids, which comes without a new leader epoch."""
        assert partition.log is not None, f"{partition.topic_partition} has no log"
        partition.log.set_topic_id(topic_id)
        self.topic_names[topic_id] = partition.topic_partition.topic
        if partition.role is Role.FOLLOWER and not self.is_stopping:
            self._fetchers.add(partition)  # which asks for it by its id from now on
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
        local = self._logs.get(topic_partition)
        if local is None:
            if not state.is_new and self._logs.any_failed:
                # It may be there, on the disk that cannot be read.
                partition.fail()
                return ErrorCode.KAFKA_STORAGE_ERROR
            if self._is_lost(topic_partition, state):
                self.partitions.pop(topic_partition, None)
                return ErrorCode.LOG_DIR_NOT_FOUND
            local = self._logs.create(topic_partition, topic_id, log_settings)
        elif topic_id != ZERO_ID and local.topic_id not in (None, ZERO_ID, topic_id):
            if partition.log is None:
                # Nothing of this topic is here: what is not hosted must not look as if it were.
                del self.partitions[topic_partition]
            return ErrorCode.INCONSISTENT_TOPIC_ID
        elif self._is_shortened(topic_partition, state):
            if partition.log is None:
                del self.partitions[topic_partition]
            return ErrorCode.LOG_DIR_NOT_FOUND
        if topic_id != ZERO_ID:
            if local.topic_id in (None, ZERO_ID):
                # A crash came between the making of the directory and of the file with the id.
                local.set_topic_id(topic_id)
            self.topic_names[topic_id] = topic_partition.topic
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

    def _is_lost(self, topic_partition: TopicPartition, state: PartitionState) -> bool:
        """Whether a log that is not there is one that the cluster counts on."""
        if not self._is_counted_on(state):
            return False
        if self._logs.missed_end(topic_partition) is not None:
            return self._may_give_way(state)
        # Under the first epoch it may be that its leader has never been told, and there was never
        # a log: not where the disk is another one than when the topic was made.
        was_here = state.leader_epoch > 0 or (
            self._logs.any_new and topic_partition.topic in self._topics_at_start
        )
        return was_here and self._remembers_disk

    def _is_shortened(self, topic_partition: TopicPartition, state: PartitionState) -> bool:
        """Whether a log has less than the cluster counts on, for it was cut while we were away."""
        is_short = self._logs.missed_end(topic_partition) is not None
        return is_short and self._is_counted_on(state) and self._may_give_way(state)

    def _is_counted_on(self, state: PartitionState) -> bool:
        """Whether this replica is held to have everything.

        After an unclean election what is lost has been given up.
        """
        is_recovered = state.leader_recovery_state == Recovery.RECOVERED
        return not state.is_new and is_recovered and self.broker_id in state.isr

    def _may_give_way(self, state: PartitionState) -> bool:
        """Whether another has it all, or it is to be waited for what was lost here."""
        return len(state.isr) > 1 or self._remembers_disk

    @property
    def _remembers_disk(self) -> bool:
        return self._ground.settings.bool("klamm.election.remember.disk")

    def _lead(
        self,
        partition: Partition,
        state: leader_and_isr.LeaderAndIsrPartitionState,
        local: PartitionLog,
    ) -> None:
        topic_partition = partition.topic_partition
        self._fetchers.remove(topic_partition)
        if partition.lead(state, local):
            for hook in self.on_leader:
                hook(topic_partition, state.leader_epoch)
        for led in self.on_led:
            led(partition)

    def _follow(
        self,
        partition: Partition,
        state: leader_and_isr.LeaderAndIsrPartitionState,
        local: PartitionLog,
    ) -> None:
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
            refusal = await self._refusal(request.broker_epoch, request.controller_epoch)
            if refusal is not ErrorCode.NONE:
                return refusal, []
            stops = list(stops_of(request))
            faults = faults_in(stop.topic_partition for stop in stops)
            results = [
                (
                    stop,
                    ErrorCode.INVALID_TOPIC_EXCEPTION
                    if stop.topic_partition in faults
                    else self._may_stop(stop),
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

    def _may_stop(self, stop: Stop) -> ErrorCode:
        partition = self.partitions.get(stop.topic_partition)
        if partition is None:
            return ErrorCode.NONE
        if partition.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if stop.leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE):
            return ErrorCode.NONE
        if stop.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _stop_one(self, stop: Stop) -> None:
        topic_partition = stop.topic_partition
        self._fetchers.remove(topic_partition)
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            partition.stop()
        if stop.delete and partition is not None:
            del self.partitions[topic_partition]
            for hook in self.on_removed:
                hook(topic_partition)

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
            refusal = await self._refusal(broker_epoch, controller_epoch)
            if refusal is not ErrorCode.NONE:
                return refusal
            await self._look_for_ended(controller_epoch)
            held = holdings(self.partitions.values(), self._ground.metadata.snapshot)
            # What is about to be forgotten is not claimed, or nobody would tell of it again.
            shown = {
                topic: seen for topic, seen in held.metadata.items() if topic not in self._ended
            }
            return replace(held, metadata=shown)

    # UpdateMetadata

    async def learn(self, request: update_metadata.Request) -> ErrorCode:
        """Take over what the controller says of the cluster."""
        async with self._lock:
            refusal = await self._refusal(request.broker_epoch, request.controller_epoch)
            if refusal is ErrorCode.NONE:
                refusal = leave_out_faults(request)
                self._forget_ended()
                known = self._ground.metadata.snapshot.brokers.keys()
                self._metadata_changed(self._ground.metadata.apply(request))
                self._brokers_left(known - self._ground.metadata.snapshot.brokers.keys())
                # What the controller says is shown first: others have been told it meanwhile.
                await self._look_for_ended(request.controller_epoch)
                self._forget_ended()
            return refusal

    def _metadata_changed(self, removed: frozenset[TopicPartition]) -> None:
        for hook in self.on_metadata:
            hook(removed)

    def _brokers_left(self, gone: AbstractSet[BrokerId]) -> None:
        if gone:
            for partition in self.partitions.values():
                partition.brokers_left(gone)

    async def _look_for_ended(self, controller_epoch: int) -> None:
        """Find known topics that are no more, when a controller speaks anew or after a silence.

        The controller before may have ended a topic and died before all brokers had heard of it.
        Its successor never knew that topic, so nobody else would tell. Nor is a broker told what
        ended while it was fenced.
        """
        known = self._ground.metadata.snapshot.topics.keys()
        silent_ms = self.now_ms() - self._heard_ms
        self._heard_ms = self.now_ms()
        if not known or (controller_epoch == self._compared_epoch and silent_ms < _SILENCE_MS):
            return
        try:
            async with asyncio.timeout(_COMPARE_WITHIN_S):
                ended = known - await self._topics_stored()
                if ended:
                    # The store may have answered from the past; not after a write of our own.
                    await self._ground.session.multi([Check(layout.TOPICS, ANY_VERSION)])
                    ended = known - await self._topics_stored()
        except (StoreUnavailable, TimeoutError):
            return  # the next request is another occasion
        self._compared_epoch = controller_epoch
        self._ended = frozenset(ended)

    def _forget_ended(self) -> None:
        ended, self._ended = self._ended, frozenset()
        removed = self._ground.metadata.forget(ended)
        if removed:
            self._metadata_changed(removed)

    async def _topics_stored(self) -> set[str]:
        return set(await self._ground.session.children(layout.TOPICS) or ())

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


def epoch_fault(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Whether the caller and this broker speak of the same leadership."""
    if current_leader_epoch in (NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def _tells_only_an_id(order: Order, partition: Partition) -> bool:
    """Whether an order repeats a leader epoch, to give a log that has none the id of its topic."""
    return (
        partition.role is not Role.OFFLINE
        and order.state.leader_epoch == partition.leader_epoch
        and partition.log is not None
        and order.topic_id != ZERO_ID == _topic_id(partition)
    )


def _topic_id(partition: Partition | None) -> uuid.UUID:
    if partition is None or partition.log is None:
        return ZERO_ID
    return partition.log.topic_id or ZERO_ID
