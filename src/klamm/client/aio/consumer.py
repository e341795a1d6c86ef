"""A small consumer of given partitions, without a group.

For every leader one Fetch is always under way while somebody polls; the broker itself waits until
there is something to give, so nothing here turns in circles. What comes in is kept in order, and
offsets move only past records that were handed out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final, NamedTuple, Self

from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.errors import ClientError, code_of
from klamm.client.requests import FETCH_BY_NAME
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import ZERO_ID, TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.protocol import fetch
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import (
    ControlKind,
    Headers,
    control_kind,
    crc_ok,
    decode_records,
    iter_batches,
)
from klamm.protocol.fetch import READ_COMMITTED, READ_UNCOMMITTED

MAX_WAIT_MS: Final = 500
_PAUSE_S: Final = 0.05


class Consumed(NamedTuple):
    """A record and where it came from."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Consumer:
    """Reads partitions from given offsets on; use as `async with Consumer(...) as consumer`."""

    def __init__(
        self,
        client: Client,
        start: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
        reset_to: int | None = EARLIEST,
        max_wait_ms: int = MAX_WAIT_MS,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        check_crcs: bool = True,
    ) -> None:
        self._client = client
        self._isolation_level = isolation_level
        self._reset_to = reset_to
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._check_crcs = check_crcs
        self.positions: dict[TopicPartition, int] = dict(start)
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._ready: deque[tuple[TopicPartition, Iterator[Consumed]]] = deque()
        self._fetches: dict[int, asyncio.Task[list[tuple[TopicPartition, fetch.PartitionData]]]]
        self._fetches = {}

    async def __aenter__(self) -> Self:
        await self._resolve([tp for tp, offset in self.positions.items() if offset < 0])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends what is under way."""
        fetches, self._fetches = list(self._fetches.values()), {}
        for task in fetches:
            task.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)

    async def __aiter__(self) -> AsyncIterator[Consumed]:
        while True:
            for record in await self.poll(timeout_s=3600):
                yield record

    async def poll(self, *, timeout_s: float, records_max: int = 10_000) -> list[Consumed]:
        """The next records, in order within a partition; none when time is over before any came."""
        end = asyncio.get_running_loop().time() + timeout_s
        while not self._ready:
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or not self.positions:
                return []
            await self._wait_for_data(left)
        return self._take(records_max)

    def _take(self, records_max: int) -> list[Consumed]:
        taken: list[Consumed] = []
        while self._ready and len(taken) < records_max:
            tp, records = self._ready[0]
            for record in records:
                taken.append(record)
                self.positions[tp] = record.offset + 1
                if len(taken) == records_max:
                    break
            else:
                self._ready.popleft()
        return taken

    async def _wait_for_data(self, timeout_s: float) -> None:
        await self._start_fetches()
        if not self._fetches:
            await asyncio.sleep(min(_PAUSE_S, timeout_s))
            return
        done, _ = await asyncio.wait(
            self._fetches.values(), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        for node_id in [n for n, task in self._fetches.items() if task in done]:
            task = self._fetches.pop(node_id)
            try:
                answers = task.result()
            except ClientError:
                await self._refresh()
                await asyncio.sleep(_PAUSE_S)
                continue
            await self._accept(answers)

    async def _start_fetches(self) -> None:
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in self.positions:
            leader = self._client.picture.leader(tp)
            if leader is None:
                await self._refresh()
                leader = self._client.picture.leader(tp)
            if leader is not None:
                by_node.setdefault(leader.leader_id, []).append(tp)
        for node_id, tps in by_node.items():
            if node_id not in self._fetches:
                task = asyncio.get_running_loop().create_task(self._fetch(node_id, tps))
                self._fetches[node_id] = task

    async def _refresh(self) -> None:
        topics = {tp.topic for tp in self.positions}
        await self._client.refresh(topics)
        for topic in topics:
            known = self._client.picture.topics.get(topic)
            code = code_of(known.error_code) if known is not None else ErrorCode.NONE
            if code is not ErrorCode.NONE and not code.is_retriable:
                raise RequestRefused(code, f"topic {topic!r}: {code.name}")

    async def _fetch(
        self, node_id: int, tps: list[TopicPartition]
    ) -> list[tuple[TopicPartition, fetch.PartitionData]]:
        connection = await self._client.to_node(node_id, self._client.deadline())
        topics = self._client.picture.topics
        ids = {tp.topic: topics[tp.topic].topic_id for tp in tps if tp.topic in topics}
        named = ZERO_ID in ids.values() or len(ids) < len({tp.topic for tp in tps})
        version = connection.version_of(ApiKey.FETCH, FETCH_BY_NAME if named else None)
        wanted: dict[str, list[fetch.FetchPartition]] = {}
        for tp in tps:
            leader = self._client.picture.leader(tp)
            wanted.setdefault(tp.topic, []).append(
                fetch.FetchPartition(
                    tp.partition,
                    current_leader_epoch=-1 if leader is None else leader.leader_epoch,
                    fetch_offset=self.positions[tp],
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        request = fetch.FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            topics=[
                fetch.FetchTopic(name, ids.get(name, ZERO_ID), partitions)
                for name, partitions in wanted.items()
            ],
        )
        response = await connection.fetch(version, request)
        if response.error_code:
            raise RequestRefused(code_of(response.error_code))
        names = {topic_id: name for name, topic_id in ids.items()}
        return [
            (TopicPartition(topic.name or names[topic.topic_id], data.partition), data)
            for topic in response.topics
            for data in topic.partitions
        ]

    async def _accept(self, answers: list[tuple[TopicPartition, fetch.PartitionData]]) -> None:
        moved = []
        for tp, data in answers:
            code = code_of(data.error_code)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._reset_to is not None:
                await self._resolve([tp], self._reset_to)
            elif code.is_retriable:
                moved.append(tp)
            elif code is not ErrorCode.NONE:
                raise RequestRefused(code, f"{tp}: {code.name}")
            else:
                self._accept_data(tp, data)
        if moved:
            await asyncio.sleep(_PAUSE_S)
            await self._refresh()

    def _accept_data(self, tp: TopicPartition, data: fetch.PartitionData) -> None:
        committed = self._isolation_level == READ_COMMITTED
        end = data.last_stable_offset if committed else data.high_watermark
        self.high_watermarks[tp] = end
        assert isinstance(data.records, bytes | memoryview), "a response holds its records"
        if len(data.records):
            self._ready.append((tp, self._records(tp, data)))

    def _records(self, tp: TopicPartition, data: fetch.PartitionData) -> Iterator[Consumed]:
        """The records a reader may see: nothing before its position, nothing aborted."""
        aborted = sorted(data.aborted or (), key=lambda a: a.first_offset, reverse=True)
        hidden: set[int] = set()
        assert isinstance(data.records, bytes | memoryview), "a response holds its records"
        for header, batch in iter_batches(data.records):
            if self._check_crcs and not crc_ok(batch):
                raise RequestRefused(
                    ErrorCode.CORRUPT_MESSAGE, f"{tp}: the batch at {header.base_offset} is damaged"
                )
            while aborted and aborted[-1].first_offset <= header.last_offset:
                hidden.add(aborted.pop().producer_id)
            if header.is_control:
                if control_kind(batch) == ControlKind.ABORT:
                    hidden.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in hidden):
                for record in decode_records(batch):
                    if record.offset >= self.positions[tp]:
                        yield Consumed._make((*tp, *record))
            # Past what is hidden too: otherwise the same batch would come again and again.
            self.positions[tp] = max(self.positions[tp], header.last_offset + 1)

    async def _resolve(self, tps: list[TopicPartition], to: int | None = None) -> None:
        """Real offsets for partitions whose start was given as EARLIEST or LATEST."""
        if not tps:
            return
        wanted = {tp: self.positions[tp] if to is None else to for tp in tps}
        found = await Admin(self._client).list_offsets(
            wanted, isolation_level=self._isolation_level
        )
        for tp, answer in found.items():
            if answer.error_code:
                code = code_of(answer.error_code)
                raise RequestRefused(code, f"{tp}: {code.name}")
            self.positions[tp] = answer.offset


__all__ = ["EARLIEST", "LATEST", "Consumed", "Consumer"]
