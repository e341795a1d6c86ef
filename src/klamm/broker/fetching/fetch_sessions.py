"""Fetch sessions of followers (KIP-227).

A follower says once which partitions it wants and from where, and from then on only what changed.
The session watches those partitions itself: an append marks one as worth looking at, and only those
marked are looked at when the follower asks. So the cost of a fetch is that of the partitions in
which something happened, however many there are.

A partition is answered when it has records, an error, a divergence, or another high watermark or
log start than the follower was told last. The latter two are no reason to answer at once. What was
answered is looked at again when the follower comes back with a new offset, or something happens.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from klamm.broker.fetching import reading
from klamm.broker.fetching.fetch_replies import reply
from klamm.broker.fetching.parking import Parked
from klamm.broker.fetching.reading import FetchReader
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Answer
from klamm.broker.net.replies import Reply
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
    TopicData,
    size_of,
)

_FULL: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
_BY_ID_SINCE: Final = 13


@dataclass(slots=True)
class _Wanted:
    """One partition of a session, and what the follower was told of it last."""

    topic_id: uuid.UUID
    fetch: FetchPartition
    is_new: bool = True  # this offset was not acknowledged yet
    is_told: bool = False
    high_watermark: int = -1
    log_start: int = -1


def _same(one: uuid.UUID, other: uuid.UUID) -> bool:
    """Whether two ids are equal. Mostly they are one object, which their own `==` is blind to."""
    return one is other or one == other


def _topic(found: _Found) -> str:
    return found[0].topic


def _unnamed(topic_id: uuid.UUID | None, index: int) -> TopicPartition:
    """The key of a partition whose id is unknown: a name that no topic can have."""
    return TopicPartition(f"?{topic_id}", index)


# What there is to tell of a partition. Of one that is merely told the offsets of, these are read
# when it is told, which most looks do not come to.
_Found = tuple[TopicPartition, _Wanted, PartitionData | Partition]


class FetchSession:
    """The partitions that one follower wants of this broker."""

    def __init__(
        self, hosting: Hosting, session_id: int, follower: BrokerId, *, by_id: bool
    ) -> None:
        self.id = session_id
        self.follower = follower
        self.by_id = by_id  # whether its topics go by their ids, or by their names
        self.epoch = 1  # that the next request must have
        self._hosting = hosting
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._marked: dict[TopicPartition, None] = {}  # worth looking at, longest marked first
        self._reader = FetchReader(0, follower)
        self._parked: Parked | None = None

    # Watching

    def touched(self, partition: Partition) -> None:
        if partition.topic_partition in self._wanted:
            self._marked[partition.topic_partition] = None
        if self._parked is not None:
            self._parked.wake()

    def changed(self, partition: Partition) -> None:
        if partition.topic_partition in self._wanted:
            self._marked[partition.topic_partition] = None

    def led(self, partition: Partition) -> None:
        """A partition is led here now; the follower may have asked for it too early."""
        index = partition.topic_partition.partition
        topic_id = partition.log.topic_id if partition.log is not None else None
        early = self._wanted.pop(_unnamed(topic_id, index), None)
        if early is not None:
            self._marked.pop(_unnamed(topic_id, index), None)
            self._wanted[partition.topic_partition] = early
        wanted = self._wanted.get(partition.topic_partition)
        if wanted is not None:
            wanted.is_new = True
            partition.follower_watches.add(self)
        self.touched(partition)
        if self._parked is not None:
            # The follower may have something to add, and cannot while it waits.
            self._parked.finish()

    def close(self) -> None:
        for topic_partition in list(self._wanted):
            self._forget(topic_partition)

    # One request

    def take(self, request: FetchRequest, version: int) -> None:
        """Note what the request says has changed."""
        replicas = self._hosting.replicas
        for topic in request.topics:
            name = replicas.topic_name(topic.topic_id) if version >= _BY_ID_SINCE else topic.name
            for fetch in topic.partitions:
                topic_partition = (
                    TopicPartition(name, fetch.partition)
                    if name
                    else _unnamed(topic.topic_id, fetch.partition)
                )
                wanted = self._wanted.get(topic_partition)
                if wanted is None or not _same(wanted.topic_id, topic.topic_id):
                    self._begin(topic_partition, topic.topic_id, fetch)
                else:
                    wanted.fetch = fetch
                    wanted.is_new = True
                self._marked[topic_partition] = None
        for forgotten in request.forgotten:
            name = (
                replicas.topic_name(forgotten.topic_id)
                if version >= _BY_ID_SINCE
                else forgotten.name
            )
            for index in forgotten.partitions:
                topic_partition = TopicPartition(name or "", index)
                if topic_partition not in self._wanted:
                    topic_partition = self._wanted_as(forgotten.topic_id, index)
                self._forget(topic_partition)

    def _begin(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, fetch: FetchPartition
    ) -> None:
        """A partition is wanted for the first time; one of another id is another partition."""
        # What was asked before the name was known is now asked under it.
        self._forget(_unnamed(topic_id, fetch.partition))
        self._wanted[topic_partition] = _Wanted(topic_id, fetch)
        partition = self._hosting.replicas.partitions.get(topic_partition)
        if partition is not None:
            partition.follower_watches.add(self)

    def _wanted_as(self, topic_id: uuid.UUID, index: int) -> TopicPartition:
        """Under which name a partition is kept whose topic is gone here, or was never known."""
        for topic_partition, wanted in self._wanted.items():
            if wanted.topic_id == topic_id and topic_partition.partition == index:
                return topic_partition
        return _unnamed(topic_id, index)

    def _forget(self, topic_partition: TopicPartition) -> None:
        if self._wanted.pop(topic_partition, None) is None:
            return
        self._marked.pop(topic_partition, None)
        partition = self._hosting.replicas.partitions.get(topic_partition)
        if partition is not None:
            partition.follower_watches.discard(self)

    def answer(self, context: RequestContext, request: FetchRequest) -> Answer:
        """The reply to the request that was taken, or the promise of one."""

        def look(is_last: bool) -> Reply | None:
            found, urgent = self._look(context.version, request)
            if not (urgent or is_last):
                return None
            context.peer.on_more = None
            self._parked = None
            return self._reply(context, found)

        first = look(request.max_wait_ms <= 0)
        if first is not None:
            return first
        parked = self._parked = Parked(look, request.max_wait_ms, context.peer)
        # The follower has more to say: it needs an answer to be heard.
        context.peer.on_more = parked.finish
        return parked.promise

    def _look(self, version: int, request: FetchRequest) -> tuple[list[_Found], bool]:
        reader = self._reader
        if reader.version != version:
            reader = self._reader = FetchReader(version, self.follower)
        left = request.max_bytes
        urgent = False
        found: list[_Found] = []
        for topic_partition in list(self._marked):
            if left <= 0:
                urgent = True
                break
            wanted = self._wanted[topic_partition]
            level = self._level(topic_partition, wanted)
            if level is not None:
                local = level.log
                assert local is not None, level
                if (
                    local.high_watermark == wanted.high_watermark
                    and local.log_start_offset == wanted.log_start
                ):
                    del self._marked[topic_partition]
                else:
                    found.append((topic_partition, wanted, level))
                continue
            throttled = self._is_throttled(topic_partition)
            if throttled and self._hosting.throttles.leader.wait_ms():
                # It stays marked, and is looked at again when the follower asks again.
                continue
            data = reading.read(
                self._hosting,
                reader,
                topic_partition,
                wanted.topic_id,
                wanted.fetch,
                max_bytes=min(wanted.fetch.partition_max_bytes, left),
                at_least_one=left == request.max_bytes,
                acknowledge=wanted.is_new,
            )
            wanted.is_new = False
            size = size_of(data)
            if not size and reading.left_out(data):
                # It has no room beside the others, and stays marked for the next answer.
                urgent = True
                continue
            left -= size
            if throttled and size:
                self._hosting.throttles.leader.count(size)
            if size or reading.is_urgent(data) or not wanted.is_told:
                urgent = True
            elif (data.high_watermark, data.log_start_offset) == (
                wanted.high_watermark,
                wanted.log_start,
            ):
                del self._marked[topic_partition]
                continue
            found.append((topic_partition, wanted, data))
        return found, urgent

    def _level(self, topic_partition: TopicPartition, wanted: _Wanted) -> Partition | None:
        """The partition, if the follower has all we have; None when that is not so, or not sure.

        Most looks end here, for an acknowledgement is nothing else. `reading` judges the rest.
        """
        partition = self._hosting.replicas.partitions.get(topic_partition)
        local = partition.log if partition is not None else None
        fetch = wanted.fetch
        if (
            partition is None
            or local is None
            or not wanted.is_told
            or not partition.is_leader
            or fetch.current_leader_epoch != partition.leader_epoch
            or fetch.fetch_offset != local.log_end_offset
            or fetch.last_fetched_epoch != local.epochs.latest
        ):
            return None
        if wanted.is_new:
            offset, log_start = fetch.fetch_offset, fetch.log_start_offset
            if partition.follower_fetched(self.follower, offset, log_start) is not ErrorCode.NONE:
                return None
            wanted.is_new = False
        return partition

    def _is_throttled(self, topic_partition: TopicPartition) -> bool:
        if not self._hosting.throttles.leader.covers(topic_partition):
            return False
        partition = self._hosting.replicas.partitions.get(topic_partition)
        return partition is not None and self.follower not in partition.isr.committed

    def _reply(
        self,
        context: RequestContext,
        found: list[_Found],
    ) -> Reply:
        topics: list[TopicData] = []
        last: TopicData | None = None
        for topic_partition, wanted, data in sorted(found, key=_topic):
            if isinstance(data, Partition):
                data = reading.nothing_but_offsets(data)
            wanted.is_told = not data.error_code
            wanted.high_watermark = data.high_watermark
            wanted.log_start = data.log_start_offset
            self._marked.pop(topic_partition, None)
            name, topic_id = topic_partition.topic, wanted.topic_id
            if last is None or last.name != name or not _same(last.topic_id, topic_id):
                last = TopicData(name, topic_id, [])
                topics.append(last)
            last.partitions.append(data)
        response = FetchResponse(session_id=self.id, topics=topics)
        return reply(self._hosting, context, response, is_follower=True)


class FetchSessions:
    """The sessions of all followers of one broker; a follower has one."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._by_id: dict[int, FetchSession] = {}

    def serve(self, context: RequestContext, request: FetchRequest) -> Answer:
        by_id = context.version >= _BY_ID_SINCE
        if request.session_id == 0:
            session = self._open(BrokerId(request.replica_id), by_id=by_id)
        else:
            known = self._by_id.get(request.session_id)
            if known is None:
                code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                return reply(self._hosting, context, FetchResponse(error_code=code))
            if request.session_epoch == _FULL:
                self._close(known)
                return reply(self._hosting, context, FetchResponse())
            if request.session_epoch != known.epoch:
                code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
                return reply(self._hosting, context, FetchResponse(error_code=code))
            if known.by_id is not by_id:
                code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
                return reply(self._hosting, context, FetchResponse(error_code=code))
            session = known
            session.epoch = session.epoch % _EPOCH_MAX + 1
        session.take(request, context.version)
        return session.answer(context, request)

    def led(self, partition: Partition) -> None:
        """This broker leads a partition now: its followers may be told."""
        for session in self._by_id.values():
            if session.follower in partition.replicas:
                session.led(partition)

    def keep_only(self, alive: Collection[BrokerId]) -> None:
        """Forget the sessions of brokers that are gone."""
        for session in [s for s in self._by_id.values() if s.follower not in alive]:
            self._close(session)

    def close(self) -> None:
        for session in list(self._by_id.values()):
            self._close(session)

    def _open(self, follower: BrokerId, *, by_id: bool) -> FetchSession:
        for old in [s for s in self._by_id.values() if s.follower == follower]:
            self._close(old)
        session_id = random.randrange(1, _EPOCH_MAX)
        session = FetchSession(self._hosting, session_id, follower, by_id=by_id)
        self._by_id[session_id] = session
        return session

    def _close(self, session: FetchSession) -> None:
        session.close()
        self._by_id.pop(session.id, None)
