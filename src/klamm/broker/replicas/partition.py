"""One partition on this broker: its log, its role, and who waits for it.

The decisions are those of `replication/`; here they meet the log, the clock and the requests that
are parked. Nothing is polled: an append, a follower's fetch or a change of role wakes exactly those
it may satisfy.

Roles come from the controller alone. A leader epoch is a role's name: whatever was begun under one
epoch (a parked produce, a proposal to change the in-sync set) ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final, Protocol

from klamm.broker.replicas.watched import Watched
from klamm.log.partition import PartitionLog
from klamm.log.writing.append import Appended, AppendRefused, Inspected, Later, closed
from klamm.log.writing.old_formats import upgraded
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Recovery
from klamm.model.names import NO_EPOCH, NO_LEADER, BrokerId, TopicPartition
from klamm.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from klamm.replication import leader as core
from klamm.replication.leader import FollowerState, Isr, LeaderView, RefusedIsr, agreed

log = logging.getLogger(__name__)


class Role(StrEnum):
    """The role of this broker for the partition."""

    NONE = "none"  # hosted, but told nothing yet, or told to stop
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"  # its directory has failed


class Watch(Protocol):
    """Someone who wants to hear of new records."""

    def touched(self, partition: Partition) -> None:
        """There may be something new to read, or the role has changed."""
        ...


class FollowerWatch(Watch, Protocol):
    """A follower's fetch session: it also tells of what is no reason to answer at once."""

    def changed(self, partition: Partition) -> None:
        """The high watermark or the log start is another one."""
        ...


class AckWaiter(Protocol):
    """A produce request that waits for all replicas."""

    @property
    def is_over(self) -> bool: ...

    def acknowledged(self, partition: Partition, code: ErrorCode) -> None: ...


class PartitionHost(Protocol):
    """The services a partition needs of its broker."""

    broker_id: BrokerId

    def now_ms(self) -> int:
        """A time that never goes back, to measure lag with."""
        ...

    def wall_ms(self) -> int:
        """The time that records carry."""
        ...

    def eligible(self) -> Collection[BrokerId]:
        """The brokers that may join an in-sync set: those alive."""
        ...

    def lag_ms_max(self) -> int: ...

    def propose(self, partition: Partition) -> None:
        """Take `partition.isr.proposed` to the controller."""
        ...


_NO_FOLLOWERS: Final[dict[BrokerId, FollowerState]] = {}  # of most; nothing is ever put in


class Partition(Watched[Watch, FollowerWatch]):
    """One hosted partition."""

    __slots__ = (
        "_ack_waiters",
        "_host",
        "_refusal_of_isr",
        "_start_waiters",
        "epoch_start",
        "followers",
        "has_id",
        "in_sync_min",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "partition_epoch",
        "recovery",
        "replicas",
        "role",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, host: PartitionHost) -> None:
        super().__init__()
        self.topic_partition = topic_partition
        self.role = Role.NONE
        self.log: PartitionLog | None = None
        self.leader: BrokerId = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = 0
        self.replicas: tuple[BrokerId, ...] = ()
        self.isr = agreed()
        self.recovery = Recovery.RECOVERED
        self.followers: dict[BrokerId, FollowerState] = _NO_FOLLOWERS
        self.epoch_start = 0
        self.in_sync_min = 1
        # Whether the controller names the topic by its id; before Kafka 2.8 it had none.
        self.has_id = True
        self._ack_waiters: deque[tuple[int, AckWaiter]] | None = None
        self._start_waiters: list[asyncio.Future[None]] | None = None
        self._refusal_of_isr: RefusedIsr | None = None  # the last, in this epoch or before
        self._host = host

    def __repr__(self) -> str:
        return f"<{self.topic_partition} {self.role} epoch {self.leader_epoch}>"

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    # Roles

    def lead(self, state: LeaderAndIsrPartitionState, local: PartitionLog) -> bool:
        """Become the leader, or hear news as one. Whether the leadership is a new one."""
        is_new = self._take(state, local) or self.role is not Role.LEADER
        now_ms = self._host.now_ms()
        if is_new:
            self.epoch_start = local.log_end_offset
            local.epochs.assign(state.leader_epoch, self.epoch_start)
            self.followers = _NO_FOLLOWERS
        self.role = Role.LEADER
        members = state.isr
        self.isr = agreed(*members)
        me = self._host.broker_id
        known = self.followers
        self.followers = {
            broker: known.get(broker) or core.at_election(in_sync=broker in members, now_ms=now_ms)
            for broker in self.replicas
            if broker != me
        } or _NO_FOLLOWERS
        self.advance(now_ms)
        self._wake_all()
        return is_new

    def follow(self, state: LeaderAndIsrPartitionState, local: PartitionLog) -> bool:
        """Become a follower. Whether it is one of a new epoch."""
        is_new = self._take(state, local) or self.role is not Role.FOLLOWER
        self.role = Role.FOLLOWER
        self.isr = agreed()
        self.followers = _NO_FOLLOWERS
        self.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return is_new

    def stop(self) -> None:
        """Be nothing to this partition until the controller says otherwise."""
        if self.role is not Role.OFFLINE:
            self.role = Role.NONE
        self.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fail(self) -> None:
        """The directory below has failed."""
        self.role = Role.OFFLINE
        self.log = None
        self.abandon(ErrorCode.KAFKA_STORAGE_ERROR)

    def _take(self, state: LeaderAndIsrPartitionState, local: PartitionLog) -> bool:
        is_new = state.leader_epoch > self.leader_epoch
        self.log = local
        self.leader = BrokerId(state.leader)
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = agreed(*state.replicas).committed
        # A leader elected uncleanly has nothing to recover here: its log is the truth now.
        self.recovery = Recovery.RECOVERED
        return is_new

    def abandon(self, code: ErrorCode) -> None:
        """Whoever waits here waits in vain."""
        waiters, self._ack_waiters = self._ack_waiters, None
        for _, waiter in waiters or ():
            waiter.acknowledged(self, code)
        self._wake_all()

    def _wake_all(self) -> None:
        if self._append_watches or self._committed_watches or self._follower_watches:
            for watch in [*self._append_watches, *self._committed_watches, *self._follower_watches]:
                watch.touched(self)
        self._wake_start_waiters()

    # A leader's records

    def append(
        self, batch: memoryview, *, acks: int, version: int, from_client: bool = True
    ) -> Appended | AppendRefused | ErrorCode | Later:
        """Append what a client or a coordinator sent, and wake who waits for it.

        `Later` is said to a client's batch that takes long to look through; see `inspector`.
        """
        local = self.log
        if self.role is not Role.LEADER or local is None:
            return self.not_leading()
        if acks == -1 or local.settings.is_closed:
            refusal = self._refusal(local, acks, from_client)
            if refusal is not None:
                return refusal
        end = local.log_end_offset
        result = local.append_at_once(
            batch,
            leader_epoch=self.leader_epoch,
            now_ms=self._host.wall_ms(),
            request_version=version,
            from_client=from_client,
        )
        if local.log_end_offset != end:
            self.grown(local, end)
        return result

    def inspector(
        self, batch: memoryview, version: int
    ) -> Callable[[int | None], Inspected | AppendRefused] | ErrorCode:
        """The work that has to be done on a batch before `append_inspected`, for another thread."""
        local = self.log
        if self.role is not Role.LEADER or local is None:
            return self.not_leading()
        now_ms = self._host.wall_ms()
        return lambda size_max: local.inspect(
            batch, now_ms=now_ms, request_version=version, size_max=size_max
        )

    def upgrader(
        self, messages: memoryview
    ) -> Callable[[int | None], memoryview | AppendRefused | None] | ErrorCode:
        """The work that makes a batch of a message set, for another thread."""
        local = self.log
        if self.role is not Role.LEADER or local is None:
            return self.not_leading()
        settings = local.settings
        return lambda size_max: upgraded(messages, settings, size_max)

    def append_inspected(
        self, inspected: Inspected, *, acks: int
    ) -> Appended | AppendRefused | ErrorCode:
        """Append a client's batch that was looked through meanwhile."""
        local = self.log
        if self.role is not Role.LEADER or local is None:
            return self.not_leading()
        refusal = self._refusal(local, acks, from_client=True)
        if refusal is not None:
            return refusal
        end = local.log_end_offset
        result = local.append_inspected(
            inspected, leader_epoch=self.leader_epoch, now_ms=self._host.wall_ms()
        )
        if local.log_end_offset != end:
            self.grown(local, end)
        return result

    def _refusal(
        self, local: PartitionLog, acks: int, from_client: bool
    ) -> AppendRefused | ErrorCode | None:
        """The reason why nothing is appended now, whatever it is."""
        if acks == -1 and len(self.isr.committed) < self.in_sync_min_effective:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return closed(self.topic_partition.topic, local.settings, from_client)

    def not_leading(self) -> ErrorCode:
        """The reason why this broker does not serve the partition."""
        if self.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def in_sync_min_effective(self) -> int:
        return min(self.in_sync_min, len(self.replicas))

    def grown(self, local: PartitionLog, end_before: int) -> None:
        """Records were appended: wake who waits for them."""
        if self.followers:
            now_ms = self._host.now_ms()
            for broker, state in self.followers.items():
                if state.log_end == end_before:
                    self.followers[broker] = core.left_behind(state, now_ms)
            if len(self.isr.committed) <= 1:
                self.advance(now_ms)
        else:
            self._commit_to(local, local.log_end_offset)
        for follower in self._follower_watches:
            follower.touched(self)
        if self._append_watches:
            for watch in list(self._append_watches):
                watch.touched(self)

    def advance(self, now_ms: int) -> bool:
        """Raise the high watermark as far as the replicas allow, and wake who waited for that."""
        local = self.log
        assert local is not None, f"{self} has no log"
        if not self.followers:
            return self._commit_to(local, local.log_end_offset)  # there is nobody to wait for
        now = core.high_watermark(self._view(local, now_ms), self._host.eligible())
        return self._commit_to(local, now)

    def _commit_to(self, local: PartitionLog, now: int) -> bool:
        if not local.advance_high_watermark(now):
            return False
        waiters = self._ack_waiters
        while waiters and waiters[0][0] <= now:
            waiters.popleft()[1].acknowledged(self, self._acknowledgement())
        for follower in self._follower_watches:
            follower.changed(self)
        if self._committed_watches:
            self.committed()
        return True

    def committed(self) -> None:
        """Consumers can see more than before."""
        for watch in list(self._committed_watches):
            watch.touched(self)

    def _acknowledgement(self) -> ErrorCode:
        if len(self.isr.committed) < self.in_sync_min_effective:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def await_acks(self, offset_end: int, waiter: AckWaiter) -> None:
        """Tell the waiter when all replicas in sync have everything below this offset."""
        local = self.log
        if self.role is not Role.LEADER or local is None:
            waiter.acknowledged(self, self.not_leading())
        elif local.high_watermark >= offset_end:
            waiter.acknowledged(self, self._acknowledgement())
        else:
            self._ack_waiters = self._ack_waiters or deque()
            self._ack_waiters.append((offset_end, waiter))

    def forget_over(self) -> None:
        """Drop the waiters whose time is over."""
        waiters = self._ack_waiters
        while waiters and waiters[0][1].is_over:
            waiters.popleft()

    # Followers

    def _view(self, local: PartitionLog, now_ms: int) -> LeaderView:
        return LeaderView(
            leader=self._host.broker_id,
            leader_end=local.log_end_offset,
            high_watermark=local.high_watermark,
            epoch_start=self.epoch_start,
            isr=self.isr,
            followers=self.followers,
            in_sync_min=self.in_sync_min_effective,
            lag_ms_max=self._host.lag_ms_max(),
            now_ms=now_ms,
        )

    def follower_fetched(self, broker: BrokerId, offset: int, log_start: int) -> ErrorCode:
        """A follower asks for `offset`, and so has everything below."""
        local = self.log
        state = self.followers.get(broker)
        if self.role is not Role.LEADER or local is None:
            return self.not_leading()
        if state is None:
            # Either it is no replica, or the controller has told it before it told us.
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        now_ms = self._host.now_ms()
        self.followers[broker] = core.fetched(
            state,
            offset=offset,
            log_start=log_start,
            leader_end=local.log_end_offset,
            now_ms=now_ms,
        )
        if broker not in self.isr.committed:
            self._propose(core.expansion(self._view(local, now_ms), broker, self._host.eligible()))
        if offset != state.log_end:
            self.advance(now_ms)
        if log_start != state.log_start:
            self._wake_start_waiters()
        return ErrorCode.NONE

    def drop_laggards(self) -> None:
        """Propose an in-sync set without those that have been behind for too long."""
        local = self.log
        if self.role is not Role.LEADER or local is None or not self.followers:
            return
        now_ms = self._host.now_ms()
        self._propose(core.shrinkage(self._view(local, now_ms)))
        self._welcome(local, now_ms)
        if local.high_watermark < local.log_end_offset:
            # A follower that was about to join held it back, and has now been away for too long.
            self.advance(now_ms)

    def _propose(self, members: tuple[BrokerId, ...] | None) -> None:
        if members is None:
            return
        eligible, now_ms = self._host.eligible(), self._host.now_ms()
        if core.is_worth_asking(self._refusal_of_isr, members, eligible, now_ms):
            self.isr = Isr(self.isr.committed, members)
            self._host.propose(self)

    def commit_isr(self, members: tuple[BrokerId, ...], partition_epoch: int) -> None:
        """The controller has stored this in-sync set."""
        self.isr = Isr(members)
        self.partition_epoch = partition_epoch
        if self.role is Role.LEADER and self.log is not None:
            now_ms = self._host.now_ms()
            self.advance(now_ms)
            self._welcome(self.log, now_ms)

    def _welcome(self, local: PartitionLog, now_ms: int) -> None:
        """Propose a follower that earned its place while another change was open.

        It cannot be left to its next fetch: in a session, a partition without news is not in it.
        """
        lag_ms_max = self._host.lag_ms_max()
        for broker, state in self.followers.items():
            if broker in self.isr.committed or not self.isr.is_agreed:
                continue
            # One that lags proves with its own fetches that it is alive at all.
            if not state.lags(local.log_end_offset, now_ms, lag_ms_max):
                view = self._view(local, now_ms)
                self._propose(core.expansion(view, broker, self._host.eligible()))

    def roll_back_isr(self) -> None:
        """The controller refused the proposal; what was stored before holds."""
        if self.isr.proposed is not None:
            eligible = frozenset(self._host.eligible())
            self._refusal_of_isr = RefusedIsr(self.isr.proposed, eligible, self._host.now_ms())
        self.isr = Isr(self.isr.committed)
        if self.role is Role.LEADER and self.log is not None:
            # Who was not let in holds nothing back: what came meanwhile may be acknowledged now.
            self.advance(self._host.now_ms())

    def brokers_left(self, gone: AbstractSet[BrokerId]) -> None:
        """Nothing waits for a follower that is gone; one in sync counts until it is dropped."""
        # Who comes back is another broker to the controller, and may be let in at once.
        self._refusal_of_isr = None
        if self.role is Role.LEADER and self.log is not None and gone & self.followers.keys():
            self.advance(self._host.now_ms())
            self._wake_start_waiters()

    # The start of the log

    def low_watermark(self) -> int:
        """The lowest log start among the live replicas."""
        local = self.log
        assert local is not None, f"{self} has no log"
        alive = self._host.eligible()
        return min(
            [local.log_start_offset]
            + [state.log_start for broker, state in self.followers.items() if broker in alive]
        )

    def raise_log_start(self, offset: int) -> None:
        """Delete the records below this offset, here and by and by on the followers."""
        assert self.log is not None, f"{self} has no log"
        self.log.advance_log_start(offset)
        for watch in self._follower_watches:
            watch.touched(self)

    async def low_watermark_reaches(self, offset: int) -> None:
        """Return when all live replicas have deleted what is below, or the role has changed."""
        while self.role is Role.LEADER and self.low_watermark() < offset:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._start_waiters = self._start_waiters or []
            self._start_waiters.append(waiter)
            await waiter

    def _wake_start_waiters(self) -> None:
        waiters, self._start_waiters = self._start_waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
