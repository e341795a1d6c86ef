"""Fetch (1), versions 0-17: records out of the logs, to consumers and followers.

Records go from the page cache to the socket; what is built here are the bytes around them. A fetch
that finds too little waits for what it wants to hear of: new committed records for a consumer, any
record for a follower, a change of role for both.

Asking as a follower says that one has what is below, and moves the high watermark: only brokers
may. They get incremental sessions (KIP-227, `fetch_sessions`): a thousand idle partitions cost them
nothing. Consumers are always answered in full and without a session.

Versions 0-3 get message sets instead of batches (`downgrading`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Container, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.broker.access.access import EVERYTHING, FOLLOWER
from klamm.broker.fetching import reading
from klamm.broker.fetching.downgrading import downgraded, magic_of
from klamm.broker.fetching.fetch_replies import large_reply, reply
from klamm.broker.fetching.parking import Look, Parked
from klamm.broker.fetching.reading import FetchReader
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Answer
from klamm.broker.net.promises import Promise
from klamm.broker.net.replies import Reply
from klamm.broker.net.turns import Place, in_turns, place_for
from klamm.broker.parts import Parts
from klamm.broker.quotas.quotas import CONSUMER_BYTE_RATE, QuotaClient
from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode
from klamm.model.names import ZERO_ID, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    TopicData,
    parse_request,
    size_of,
)
from klamm.replication.selection import SELECTORS
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.FETCH, "topic")

_FULL: Final = -1
_WITHOUT_SESSION: Final = (_FULL, 0)  # the latter would like one
_BY_ID_SINCE: Final = 13
_MAX_BYTES_SINCE: Final = 3  # before this version only partitions have a largest size
# A request of up to this size names a thousand partitions at most: it is dealt with in one go.
_LARGE: Final = 32 * 1024
_NAP_S: Final = 0.05


def serve(parts: Parts, context: RequestContext, body: memoryview) -> Answer:
    if len(body) > _LARGE:
        return _serve_large(parts, context, body)
    request = parse_request(context.version, body, parts.bounds.items_of_fetch)
    return _serve(parts, context, request)


async def _serve_large(parts: Parts, context: RequestContext, body: memoryview) -> Reply:
    """A fetch of very many partitions: read by a worker, and for consumers answered in slices."""
    version, items_max = context.version, parts.bounds.items_of_fetch
    # A follower must not stand in line behind strangers.
    weighed = 0 if context.peer.is_broker else len(body)
    async with place_for(ApiKey.FETCH, weighed) as place:
        request = await asyncio.to_thread(parse_request, version, body, items_max)
        if request.replica_id < 0 and (request.session_id, request.session_epoch) == (0, _FULL):
            fetch = _Fetch(parts, context, request)
            if (magic := magic_of(version)) is not None:
                return await fetch.as_messages(magic, place)
            return await fetch.in_turns(place)
    answer = _serve(parts, context, request)
    if isinstance(answer, Promise):
        return await answer.outcome()
    if isinstance(answer, Coroutine):
        answer = await answer
    assert isinstance(answer, Reply), answer
    return answer


def _serve(parts: Parts, context: RequestContext, request: FetchRequest) -> Answer:
    if request.replica_id >= 0 and not parts.access.admits_broker(context, FOLLOWER):
        return _refuse_follower(parts, context, request)
    if request.replica_id >= 0 and (request.session_id, request.session_epoch) != (0, _FULL):
        return parts.sessions.serve(context, request)
    if request.session_epoch not in _WITHOUT_SESSION:
        # We never gave a consumer a session that it could go on with.
        code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return reply(parts, context, FetchResponse(error_code=code))
    magic = magic_of(context.version)
    if magic is not None:
        return _Fetch(parts, context, request).as_messages(magic)
    return _Fetch(parts, context, request).begin()


def _refuse_follower(parts: Parts, context: RequestContext, request: FetchRequest) -> Reply:
    """The refusal for a follower's fetch that does not come from a broker."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response = FetchResponse(
        topics=[
            TopicData(
                topic.name,
                topic.topic_id,
                [PartitionData(wanted.partition, code) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    if not request.topics:
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return reply(parts, context, response)


@dataclass(slots=True)
class _Answer:
    response: FetchResponse
    left: int  # how many more bytes there may be
    size: int = 0
    left_out: int = 0  # bytes that had room, were it not for the rest of their batches
    is_urgent: bool = False


class _Fetch:
    """One full fetch."""

    def __init__(self, parts: Parts, context: RequestContext, request: FetchRequest) -> None:
        self._parts = parts
        self._context = context
        self._request = request
        self._max_bytes = min(request.max_bytes, parts.settings.int("fetch.max.bytes"))
        if parts.quotas.is_active and request.replica_id < 0:
            # More than a quota allows at once would only be read to be held back.
            client = QuotaClient.of(context.principal, context.client_id)
            most = parts.quotas.most(CONSUMER_BYTE_RATE, client, parts.settings)
            self._max_bytes = int(min(self._max_bytes, most))
        self._readable: Container[str] = EVERYTHING
        # Its clients ask for the same partitions in the same order again: none may go hungry.
        self._each_one = context.version < _MAX_BYTES_SINCE
        self._reader = FetchReader.of(
            context.version,
            request.replica_id,
            request.isolation_level,
            request.rack_id,
            SELECTORS.get(parts.settings.str("replica.selector.class")),
        )

    def begin(self) -> Answer:
        """The reply, or the promise of one."""
        answer = self._read(acknowledge=True)
        if answer.is_urgent and self._reader.follower is None and (early := self._early(answer)):
            return self._begin_later(early)
        return self._go_on(answer, self._request.max_wait_ms)

    def _go_on(self, answer: _Answer, wait_ms: int) -> Reply | Promise:
        if self._is_enough(answer) or wait_ms <= 0 or not self._request.topics:
            return self._reply(answer)
        return self._parked(self._retry, wait_ms)

    def _early(self, answer: _Answer) -> list[TopicPartition]:
        """The partitions that a consumer looks for before they are led here."""
        if self._request.max_wait_ms <= 0:
            return []
        return [
            place
            for topic in answer.response.topics
            if (name := self._name(topic.name, topic.topic_id)) is not None
            for data in topic.partitions
            if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            and self._parts.replicas.coming.is_coming(place := TopicPartition(name, data.partition))
        ]

    async def _begin_later(self, early: Iterable[TopicPartition]) -> Reply:
        """The reply, once these are here; the time it waits is the reader's."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._request.max_wait_ms / 1000
        await self._parts.replicas.coming.arrival(early, self._request.max_wait_ms)
        answer = self._go_on(self._read(acknowledge=False), int(1000 * (end - clock())))
        return answer if isinstance(answer, Reply) else await answer.outcome()

    def _parked(self, look: Look, wait_ms: int) -> Promise:
        parked = Parked(look, wait_ms, self._context.peer)
        for partition in self._partitions():
            watches = (
                partition.committed_watches
                if self._reader.follower is None
                else partition.append_watches
            )
            parked.watch(watches)
        return parked.promise

    async def as_messages(self, magic: int, place: Place | None = None) -> Reply:
        """The reply to a reader of message sets; one that wants very many partitions has a place.

        Markers of transactions are nothing to it. Where there is nothing else, it goes on behind
        them: the reader cannot, for it does not see them.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + self._request.max_wait_ms / 1000
        acknowledge = True
        while True:
            if place is not None:
                answer = await self._enough_in_turns(place, end)
            else:
                answer = await self._enough_later(int(1000 * (end - clock())), acknowledge)
            acknowledge = False
            skipped = await self._downgrade(answer, magic)
            if skipped and not answer.size and not self._has_urgent(answer):
                self._skip(skipped)
                continue
            if place is not None:
                return await large_reply(self._parts, self._context, answer.response, answer.size)
            return self._reply(answer)

    async def _enough_later(self, wait_ms: int, acknowledge: bool) -> _Answer:
        """The records, when there are enough or the time is over."""
        answer = self._read(acknowledge=acknowledge)
        if self._is_enough(answer) or wait_ms <= 0 or not self._request.topics:
            return answer
        last = [answer]

        def look(is_last: bool) -> Reply | None:
            last[0] = self._read(acknowledge=False)
            return Reply() if is_last or self._is_enough(last[0]) else None

        await self._parked(look, wait_ms).outcome()
        return last[0]

    async def _downgrade(self, answer: _Answer, magic: int) -> dict[TopicPartition, int]:
        """Make messages of the records in an answer; where it has nothing to tell, up to where."""
        skipped: dict[TopicPartition, int] = {}
        kept = answer.size = 0
        for topic in answer.response.topics:
            for at, data in enumerate(topic.partitions):
                if not size_of(data):
                    continue
                place = TopicPartition(topic.name, data.partition)
                found = await downgraded(self._parts, place, data, magic, kept)
                topic.partitions[at] = found.data
                kept += found.kept
                answer.size += size_of(found.data)
                if found.skipped_to is not None:
                    skipped[place] = found.skipped_to
        return skipped

    def _has_urgent(self, answer: _Answer) -> bool:
        topics = answer.response.topics
        return any(reading.is_urgent(data) for topic in topics for data in topic.partitions)

    def _skip(self, skipped: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from there on."""
        for topic in self._request.topics:
            for at, wanted in enumerate(topic.partitions):
                offset = skipped.get(TopicPartition(topic.name, wanted.partition))
                if offset is not None:
                    topic.partitions[at] = wanted._replace(fetch_offset=offset)

    async def in_turns(self, place: Place) -> Reply:
        """The same for very many partitions. While it waits it looks again now and then."""
        end = asyncio.get_running_loop().time() + self._request.max_wait_ms / 1000
        answer = await self._enough_in_turns(place, end)
        return await large_reply(self._parts, self._context, answer.response, answer.size)

    async def _enough_in_turns(self, place: Place, end: float) -> _Answer:
        clock = asyncio.get_running_loop().time
        while True:
            begun = clock()
            answer = await self._read_in_turns()
            nap_s = max(_NAP_S, clock() - begun)
            if self._is_enough(answer) or clock() + nap_s > end or not self._request.topics:
                return answer
            place.leave()
            await asyncio.sleep(nap_s)

    def _begin_reading(self) -> _Answer:
        """An empty answer. The right to read is asked for anew each time: it may have gone."""
        if self._reader.follower is None:
            self._readable = self._parts.access.allowed(self._context, _TOPIC)
        return _Answer(FetchResponse(), self._max_bytes)

    async def _read_in_turns(self) -> _Answer:
        answer = self._begin_reading()
        async for topic in in_turns(self._request.topics):
            found: list[PartitionData] = []
            answer.response.topics.append(TopicData(topic.name, topic.topic_id, found))
            async for wanted in in_turns(topic.partitions):
                self._read_some(answer, topic, (wanted,), found, acknowledge=False)
        return answer

    def _retry(self, is_last: bool) -> Reply | None:
        answer = self._read(acknowledge=False)
        return self._reply(answer) if is_last or self._is_enough(answer) else None

    def _is_enough(self, answer: _Answer) -> bool:
        wanted = min(self._request.min_bytes, self._max_bytes)
        return answer.is_urgent or answer.size + answer.left_out >= wanted

    def _read(self, *, acknowledge: bool) -> _Answer:
        """Every partition once, in the order asked for, until the bytes are used up."""
        answer = self._begin_reading()
        for topic in self._request.topics:
            found: list[PartitionData] = []
            answer.response.topics.append(TopicData(topic.name, topic.topic_id, found))
            self._read_some(answer, topic, topic.partitions, found, acknowledge=acknowledge)
        return answer

    def _read_some(
        self,
        answer: _Answer,
        topic: FetchTopic,
        partitions: Iterable[FetchPartition],
        found: list[PartitionData],
        *,
        acknowledge: bool,
    ) -> None:
        name = self._name(topic.name, topic.topic_id)
        if name is None or name not in self._readable:
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else denied
            found += [PartitionData(wanted.partition, code) for wanted in partitions]
            answer.is_urgent = True
            return
        for wanted in partitions:
            data = reading.read(
                self._parts,
                self._reader,
                TopicPartition(name, wanted.partition),
                topic.topic_id,
                wanted,
                max_bytes=min(wanted.partition_max_bytes, answer.left),
                at_least_one=answer.size == 0 or self._each_one,
                acknowledge=acknowledge,
            )
            size = size_of(data)
            answer.left = max(answer.left - size, 0)
            answer.size += size
            answer.left_out += reading.left_out(data)
            answer.is_urgent |= reading.is_urgent(data) or reading.goes_on(data)
            found.append(data)

    def _name(self, name: str, topic_id: uuid.UUID) -> str | None:
        if self._context.version < _BY_ID_SINCE:
            return name
        return None if topic_id == ZERO_ID else self._parts.replicas.topic_name(topic_id)

    def _partitions(self) -> list[Partition]:
        found = []
        for topic in self._request.topics:
            name = self._name(topic.name, topic.topic_id)
            for wanted in topic.partitions if name is not None else ():
                partition = self._parts.replicas.partitions.get(
                    TopicPartition(name or "", wanted.partition)
                )
                if partition is not None:
                    found.append(partition)
        return found

    def _reply(self, answer: _Answer) -> Reply:
        is_follower = self._reader.follower is not None
        return reply(self._parts, self._context, answer.response, is_follower=is_follower)
