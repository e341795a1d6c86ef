"""Followers at work: one task and one connection to each broker that leads something we follow.

The conversation is one fetch session: the first request names all partitions, later ones only those
of which the leader does not know yet that we have more, or less, than before. Asking for an offset
is what acknowledges everything below it.

While the leader lets a fetch wait, new partitions can come up. The next request is then sent on top
of the waiting one, which the leader answers early for it; there are never more than these two.

A partition that is paused stays in the session: a leader of klamm tells an error once, and tells
when it is over. Kafka's tell it with every answer, and at once; of those that do, the partition is
taken out of the session until it is named again. Without any partition left Kafka ends the session,
and while all are paused there is nothing to ask.

Topics go by their ids. Where a controller from before ids names them otherwise, all that is fetched
from that leader goes by names, in an older version and a session of its own.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from klamm.broker.ground import Ground
from klamm.broker.replicas.leader_link import LeaderLink
from klamm.broker.replicas.partition import Partition, Role
from klamm.broker.tasks import Tasks
from klamm.client.aio.connection import Connection
from klamm.client.errors import ConnectionLost
from klamm.log.partition import PartitionLog, StorageTrouble
from klamm.model.brokers import Endpoint
from klamm.model.errors import ErrorCode, KlammError, ProtocolError
from klamm.model.names import ZERO_ID, BrokerId, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    encode_request,
    parse_response,
    size_of,
)
from klamm.protocol.frames import encode_request_frame, parse_response_header
from klamm.protocol.messages import list_offsets
from klamm.replication import follower as core
from klamm.replication.follower import EpochEnd, Reaction

log = logging.getLogger(__name__)

_FETCH_VERSION: Final = 17
_FETCH_VERSION_BY_NAME: Final = 12
_LIST_OFFSETS_VERSION: Final = 9
_LATEST: Final = -1
_EARLIEST: Final = -2
_EPOCH_MAX: Final = 2**31 - 1
_PAUSE_S_MIN: Final = 0.05


@dataclass(slots=True)
class Following:
    """One partition that is fetched."""

    partition: Partition
    log: PartitionLog
    epoch: int  # of the leadership it follows; a new one is a new Following
    asked: int = -1  # the offset last asked for; an answer to anything else is an old one
    pause_s: float = 0.0  # the last one, after an error
    is_paused: bool = False

    @property
    def is_current(self) -> bool:
        return self.partition.role is Role.FOLLOWER and self.partition.leader_epoch == self.epoch


class Fetcher:
    """Fetches from one leader."""

    def __init__(self, ground: Ground, leader: BrokerId) -> None:
        self.leader = leader
        self.following: dict[TopicPartition, Following] = {}
        self._ground = ground
        self._loop = asyncio.get_running_loop()
        self._names: dict[uuid.UUID, str] = {}
        self._without_id: set[TopicPartition] = set()
        self._version = _FETCH_VERSION  # of the session
        self._changed: dict[TopicPartition, None] = {}  # to be named in the next request
        self._forgotten: dict[TopicPartition, uuid.UUID] = {}
        self._link: LeaderLink | None = None
        self._in_flight: deque[tuple[int, int]] = deque()  # correlation ids and versions
        self._next_id = 0
        self._session = (0, 0)  # its id and the epoch of the next request
        self._is_interrupting = False
        self._lookups = Tasks()
        settings = ground.settings
        self._pause_s_max = settings.int("replica.fetch.backoff.ms") / 1000
        self._patience_s = settings.int("replica.socket.timeout.ms") / 1000
        self._wait_ms = settings.int("replica.fetch.wait.max.ms")
        self._min_bytes = settings.int("replica.fetch.min.bytes")
        self._response_bytes = settings.int("replica.fetch.response.max.bytes")
        self._partition_bytes = settings.int("replica.fetch.max.bytes")
        self._client_id = f"broker-{ground.id}-fetcher-{leader}"

    # Which partitions

    def add(self, partition: Partition) -> None:
        local = partition.log
        assert local is not None, f"{partition} has no log"
        topic_partition = partition.topic_partition
        self._align(local)
        self.following[topic_partition] = Following(partition, local, partition.leader_epoch)
        if partition.has_id and local.topic_id is not None:
            self._names[local.topic_id] = topic_partition.topic
            self._without_id.discard(topic_partition)
        else:
            self._without_id.add(topic_partition)
        self._forgotten.pop(topic_partition, None)
        self._changed[topic_partition] = None
        self._interrupt()

    def remove(self, topic_partition: TopicPartition) -> None:
        gone = self.following.pop(topic_partition, None)
        if gone is not None:
            self._changed.pop(topic_partition, None)
            self._without_id.discard(topic_partition)
            self._forgotten[topic_partition] = gone.log.topic_id or ZERO_ID

    def _align(self, local: PartitionLog) -> None:
        """Without epochs to compare only what is committed can be kept."""
        start = core.first_offset(
            log_end=local.log_end_offset,
            high_watermark=local.high_watermark,
            has_epochs=bool(local.epochs.entries),
        )
        if start < local.log_end_offset:
            local.truncate_to(start)

    # The conversation

    async def run(self) -> None:
        pause_s = _PAUSE_S_MIN
        while True:
            opened_at = self._loop.time()
            try:
                await self._converse()
            except (KlammError, OSError) as fault:
                why = str(fault) or type(fault).__name__
                log.info("fetching paused", extra={"leader": self.leader, "why": why})
            except Exception:
                # Ours, but the logs are what they were: a new conversation can only help.
                log.exception("fetching failed", extra={"leader": self.leader})
            if self._loop.time() - opened_at > self._pause_s_max:
                pause_s = _PAUSE_S_MIN
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, self._pause_s_max)

    async def _converse(self) -> None:
        """Talk to the leader until the connection is lost."""
        endpoint = await self._endpoint()
        link = LeaderLink(self._answered)
        try:
            security = self._ground.peers.security_of(endpoint.listener)
            await link.open(endpoint.host, endpoint.port, security)
            await self._ground.peers.introduce(self.leader, link.ask)
            self._link = link
            self._in_flight.clear()
            for following in self.following.values():
                following.is_paused = False
            self.begin_session()
            self._send()
            while not link.lost.done():
                now = self._loop.time()
                left_s = self._patience_s if link.ends_at is None else link.ends_at - now
                await asyncio.wait({link.lost}, timeout=min(left_s, self._patience_s))
                if link.ends_at is not None and self._loop.time() >= link.ends_at:
                    raise ConnectionLost("its login ends; the next link logs in anew")
                if self._in_flight and self._loop.time() - link.heard_at > self._patience_s:
                    raise ConnectionLost(f"no answer in {self._patience_s:g} s")
            await link.lost
        finally:
            self._link = None
            await self._lookups.cancel()
            await link.close()

    def _send(self) -> None:
        assert self._link is not None, "only while there is a connection"
        if self._speaks_otherwise:
            # A session knows its topics either by id or by name.
            self._version = self._wanted_version
            self.begin_session()
        version = self._version
        self._next_id = self._next_id % _EPOCH_MAX + 1
        self._in_flight.append((self._next_id, version))
        body = encode_request(version, self._request())
        self._link.send(
            encode_request_frame(ApiKey.FETCH, version, self._next_id, self._client_id, body)
        )

    def _answered(self, frame: memoryview) -> None:
        due, version = self._in_flight.popleft() if self._in_flight else (-1, self._version)
        answered, at = parse_response_header(ApiKey.FETCH, version, frame)
        if answered != due:
            raise ProtocolError(f"the leader answered {answered}, which was not due")
        self.take(parse_response(version, frame[at:]))
        if not self._in_flight and not self._is_idle:
            self._send()

    @property
    def _is_idle(self) -> bool:
        """Whether there is nothing to ask for until a pause is over."""
        is_open = self._session[0] != 0
        return not is_open and all(following.is_paused for following in self.following.values())

    @property
    def _wanted_version(self) -> int:
        return _FETCH_VERSION_BY_NAME if self._without_id else _FETCH_VERSION

    @property
    def _speaks_otherwise(self) -> bool:
        """Whether what is followed now cannot be asked for in the session there is."""
        return self._version != self._wanted_version

    async def _endpoint(self) -> Endpoint:
        peers = self._ground.peers
        await self._ground.metadata.wait_for(lambda _: peers.endpoint(self.leader) is not None)
        endpoint = peers.endpoint(self.leader)
        assert endpoint is not None, self.leader
        return endpoint

    def begin_session(self) -> None:
        """Name everything with the next request, but for what is paused."""
        self._session = (0, 0)
        self._forgotten.clear()
        self._changed = dict.fromkeys(self.following)

    def _interrupt(self) -> None:
        """Let the leader hear of what changed although a fetch waits there."""
        if not self._is_interrupting:
            # In one turn of the loop many partitions are added: one request for all of them.
            self._is_interrupting = True
            self._loop.call_soon(self._send_on_top)

    def _send_on_top(self) -> None:
        self._is_interrupting = False
        if self._link is None or not self._changed:
            return
        is_open = self._session[0] != 0 and not self._speaks_otherwise
        if not self._in_flight or (is_open and len(self._in_flight) == 1):
            self._send()

    def _request(self) -> FetchRequest:
        session_id, epoch = self._session
        self._session = (session_id, epoch % _EPOCH_MAX + 1)
        request = FetchRequest(
            replica_id=self._ground.id,
            replica_epoch=self._ground.epoch,
            max_wait_ms=self._wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._response_bytes,
            session_id=session_id,
            session_epoch=epoch,
        )
        topics: dict[uuid.UUID | str, FetchTopic] = {}
        by_id = self._version == _FETCH_VERSION
        changed, self._changed = self._changed, {}
        for topic_partition in changed:
            following = self.following.get(topic_partition)
            if following is None or following.is_paused:
                continue
            local = following.log
            following.asked = local.log_end_offset
            topic_id = local.topic_id or ZERO_ID
            key = topic_id if by_id else topic_partition.topic
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchTopic(topic_partition.topic, topic_id, [])
                request.topics.append(topic)
            topic.partitions.append(
                FetchPartition(
                    topic_partition.partition,
                    following.epoch,
                    local.log_end_offset,
                    local.epochs.latest,
                    local.log_start_offset,
                    self._partition_bytes,
                )
            )
        if self._forgotten:
            request.forgotten = [
                ForgottenTopic(tp.topic, topic_id, [tp.partition])
                for tp, topic_id in self._forgotten.items()
            ]
            self._forgotten = {}
        return request

    # Answers

    def take(self, response: FetchResponse) -> None:
        """Deal with an answer."""
        if response.error_code:
            if core.reaction(response.error_code) is Reaction.NEW_SESSION:
                self.begin_session()
                return
            raise ProtocolError(f"the leader answered a fetch with {response.error_code}")
        if response.session_id:
            self._session = (response.session_id, self._session[1])
        else:
            self.begin_session()  # the leader has ended it, or has no room for one
        lost: list[Following] = []
        for topic in response.topics:
            name = topic.name or self._names.get(topic.topic_id, "")
            for data in topic.partitions:
                following = self.following.get(TopicPartition(name, data.partition))
                if (
                    following is not None
                    and following.is_current
                    and topic.topic_id in (following.log.topic_id, ZERO_ID)
                ):
                    self._take_one(following, data, lost)
        if lost:
            for following in lost:
                following.is_paused = True
            self._lookups.start(self._find_offsets(lost), f"{self._client_id}-offsets")

    def _take_one(self, following: Following, data: PartitionData, lost: list[Following]) -> None:
        topic_partition = following.partition.topic_partition
        if following.asked != following.log.log_end_offset:
            # The log was cut, or is another one, since this was asked.
            self._changed[topic_partition] = None
            return
        if data.error_code:
            if following.is_paused:
                # This leader would tell it with every answer.
                self._forgotten[topic_partition] = following.log.topic_id or ZERO_ID
            elif core.reaction(data.error_code) is Reaction.FIND_OFFSET:
                lost.append(following)
            else:
                self._pause(following, ErrorCode(data.error_code).name)
            return
        try:
            if data.diverging_epoch is not None:
                self._truncate(following, EpochEnd(*data.diverging_epoch))
                self._changed[topic_partition] = None
            elif self._store(following, data):
                self._changed[topic_partition] = None
            following.pause_s = 0.0
            if following.is_paused:
                # It may be about to leave the session, or have left it: it is named again.
                following.is_paused = False
                self._forgotten.pop(topic_partition, None)
                self._changed[topic_partition] = None
            self._hold_back(following, data)
        except StorageTrouble as trouble:
            self._ground.storage_trouble(trouble)
            self._pause(following, str(trouble))
        except ProtocolError as fault:
            # What came is not what a leader wrote: its disk, or the way, has spoilt it.
            log.error("a fetch is refused", extra={"leader": self.leader, "why": str(fault)})
            self._pause(following, str(fault))

    def _store(self, following: Following, data: PartitionData) -> bool:
        """Append what came. Whether the leader should hear of the result."""
        local = following.log
        end, start = local.log_end_offset, local.log_start_offset
        records = data.records
        assert isinstance(records, bytes | memoryview), "a response from the wire"
        if len(records):
            self._ground.metrics.replication_bytes_in += len(records)
            local.append_as_follower(memoryview(records), now_ms=self._ground.clock.now_ms())
        if local.advance_high_watermark(min(data.high_watermark, local.log_end_offset)):
            following.partition.committed()
        local.advance_log_start(data.log_start_offset)
        return (end, start) != (local.log_end_offset, local.log_start_offset)

    def _truncate(self, following: Following, theirs: EpochEnd) -> None:
        local = following.log
        ours = EpochEnd(*local.epochs.end_offset_for(theirs.epoch))
        cut = core.truncation(
            theirs,
            ours if local.epochs.entries else None,
            log_end=local.log_end_offset,
            high_watermark=local.high_watermark,
        )
        log.log(
            logging.WARNING if cut.to < local.high_watermark else logging.INFO,
            "truncating to what the leader has",
            extra={
                "partition": str(following.partition.topic_partition),
                "to": cut.to,
                "log_end": local.log_end_offset,
                "high_watermark": local.high_watermark,
            },
        )
        local.truncate_to(cut.to)
        # Also when no record goes: a leader that wrote nothing has left its epoch at the end.
        local.epochs.truncate_end(cut.to)

    async def _find_offsets(self, lost: Sequence[Following]) -> None:
        """The leader has not got the offsets we ask for: find out what it has."""
        endpoint = await self._endpoint()
        try:
            connection = await self._ground.peers.connect(self.leader, endpoint, self._client_id)
        except KlammError as fault:
            for following in lost:
                self._pause(following, str(fault))
            return
        try:
            for following in lost:
                start = await self._ask_offset(connection, following, _EARLIEST)
                end = await self._ask_offset(connection, following, _LATEST)
                if start is None or end is None:
                    self._pause(following, "the leader does not say what it has")
                elif following.is_current:
                    self._fit(following.log, start, end)
                    self._resume(following)
        except KlammError as fault:
            for following in lost:
                self._pause(following, str(fault))
        finally:
            await connection.close()

    def _fit(self, local: PartitionLog, leader_start: int, leader_end: int) -> None:
        """Make the log one that the leader's can continue."""
        match core.out_of_range(
            leader_start=leader_start, leader_end=leader_end, log_end=local.log_end_offset
        ):
            case core.Truncate(to):
                local.truncate_to(to)
                local.epochs.truncate_end(to)
            case core.RestartAt(offset):
                local.restart_at(offset)
            case core.FetchFrom():
                local.advance_high_watermark(min(leader_start, local.log_end_offset))
                local.advance_log_start(leader_start)

    async def _ask_offset(
        self, connection: Connection, following: Following, timestamp: int
    ) -> int | None:
        topic, index = following.partition.topic_partition
        wanted = list_offsets.ListOffsetsPartition(index, following.epoch, timestamp)
        request = list_offsets.Request(
            replica_id=self._ground.id,
            topics=[list_offsets.ListOffsetsTopic(topic, [wanted])],
        )
        response = await connection.request(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, request)
        answer: list_offsets.ListOffsetsPartitionResponse = response.topics[0].partitions[0]
        return None if answer.error_code else answer.offset

    def _pause(self, following: Following, why: str) -> None:
        """Leave one partition alone for a while."""
        following.pause_s = min(max(following.pause_s * 2, _PAUSE_S_MIN), self._pause_s_max)
        following.is_paused = True
        log.info(
            "a partition is not fetched for now",
            extra={"partition": str(following.partition.topic_partition), "why": why},
        )
        self._loop.call_later(following.pause_s, self._resume, following)

    def _hold_back(self, following: Following, data: PartitionData) -> None:
        """Leave a throttled replica alone that was quicker than it may be, unless it is in sync."""
        throttle = self._ground.throttles.follower
        topic_partition = following.partition.topic_partition
        if not throttle.covers(topic_partition):
            return
        throttle.count(size_of(data))
        wait_ms = throttle.wait_ms()
        if wait_ms and following.log.log_end_offset < data.high_watermark:
            following.is_paused = True
            # Until it is named again, the leader must not send any more of it.
            self._forgotten[topic_partition] = following.log.topic_id or ZERO_ID
            self._loop.call_later(wait_ms / 1000, self._resume, following)

    def _resume(self, following: Following) -> None:
        topic_partition = following.partition.topic_partition
        if self.following.get(topic_partition) is following and following.is_paused:
            following.is_paused = False
            self._forgotten.pop(topic_partition, None)
            self._changed[topic_partition] = None
            self._interrupt()
