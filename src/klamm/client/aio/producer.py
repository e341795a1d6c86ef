"""A small producer: batches by partition, idempotent by default.

Records wait in one open batch a partition. A single task sends rounds: it takes what is ready, one
batch a partition, asks every leader concerned at the same time, and looks at the answers before
the next round. So a partition never has two batches under way, which keeps order and sequence
numbers simple; what one round cannot deliver for a reason that passes stays at the head of its
queue, with the sequence it has, until the record's time is over.

Left out: transactions, and more than one request in flight a leader.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from klamm.client import requests
from klamm.client.aio.cluster import Client
from klamm.client.aio.connection import Connection
from klamm.client.errors import ClientError, DeadlineExceeded, check, code_of
from klamm.client.partitioner import partition_of
from klamm.client.retries import COORDINATOR_MOVED
from klamm.model.errors import ErrorCode, KlammError, ProtocolError, RequestRefused
from klamm.model.names import TopicPartition
from klamm.protocol import produce
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Codec, Headers, Record, encode_batch

BATCH_SIZE: Final = 256 * 1024
_REQUEST_SIZE_MAX: Final = 16 * 1024 * 1024
_BUFFERED_MAX: Final = 32 * 1024 * 1024
_RECORD_OVERHEAD: Final = 32  # lengths, deltas and counts, generously
_PAUSE_S: Final = 0.05
# After a loss: who cannot even get a new id by then has nothing more to try.
_NEW_ID_S: Final = 5.0


class Trouble(NamedTuple):
    """A partition that takes no record at the moment, for a reason that may pass."""

    tp: TopicPartition
    why: str
    lasting_s: float
    gives_up_in_s: float


class Delivered(NamedTuple):
    """The position of a written record; with acks=0 the offset is unknown, and -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int


@dataclass(slots=True)
class _Batch:
    """Records for one partition, from the first `send` until all of them are delivered or lost."""

    tp: TopicPartition
    deadline_s: float
    trouble: str = ""  # the reason why it was put off last
    trouble_since_s: float | None = None
    records: list[Record] = field(default_factory=list)
    waiting: list[asyncio.Future[Delivered]] = field(default_factory=list)
    size: int = 0
    sequence: int = -1
    encoded: bytes | None = None

    def add(self, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int) -> None:
        self.records.append(Record(len(self.records), timestamp, key, value, headers))
        self.size += _size(key, value, headers)

    def fail(self, fault: Exception) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_exception(fault)

    def resolve(self, result: produce.PartitionResult) -> None:
        late = result.log_append_time_ms
        for record, future in zip(self.records, self.waiting, strict=True):
            if not future.done():
                offset = -1 if result.base_offset < 0 else result.base_offset + record.offset
                timestamp = late if late >= 0 else record.timestamp
                future.set_result(Delivered(*self.tp, offset, timestamp))


class Producer:
    """Sends records; use as `async with Producer(client) as producer`."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int = -1,
        codec: int = Codec.NONE,
        idempotent: bool | None = None,
        batch_size: int = BATCH_SIZE,
        linger_s: float = 0.0,
        timeout_s: float = 30.0,
        create_topics: bool = True,
        on_trouble: Callable[[Trouble], None] | None = None,
    ) -> None:
        self._client = client
        self._acks = acks
        self._codec = codec
        # Sequence numbers only help where the broker answers for all replicas.
        self._idempotent = acks == -1 if idempotent is None else idempotent
        self._batch_size = batch_size
        self._linger_s = linger_s
        self._timeout_s = timeout_s
        self._create_topics = create_topics
        self._on_trouble = on_trouble
        self._queues: dict[TopicPartition, deque[_Batch]] = {}
        self._buffered = 0
        self._wake = asyncio.Event()
        self._progress = asyncio.Condition()
        self._sequences: dict[TopicPartition, int] = {}
        self._identity: tuple[int, int] = (-1, -1)
        self._sticky: dict[str, int] = {}
        self._sender: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None  # the first loss that `flush` has not told yet

    async def __aenter__(self) -> Self:
        if self._idempotent:
            await self._new_identity()
        self._sender = asyncio.get_running_loop().create_task(self._run(), name="producer")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        for queue in self._queues.values():
            for batch in queue:
                for future in batch.waiting:
                    future.cancel()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> asyncio.Future[Delivered]:
        """Queues a record, and waits only while the buffer is full.

        The future tells where the record went. Who does not look at it hears of a loss in `flush`.
        """
        if partition is None:
            partition = await self._choose(topic, key)
        tp = TopicPartition(topic, partition)
        fixed = tuple(headers)
        size = _size(key, value, fixed)
        if self._buffered + size > _BUFFERED_MAX and self._buffered:
            async with self._progress:
                await self._progress.wait_for(
                    lambda: self._buffered + size <= _BUFFERED_MAX or not self._buffered
                )
        self._alive()
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        future.add_done_callback(self._resolved)
        batch = self._open_batch(tp, size)
        when = round(time.time() * 1000) if timestamp is None else timestamp
        batch.add(key, value, fixed, when)
        batch.waiting.append(future)
        self._buffered += size
        self._wake.set()
        return future

    async def flush(self) -> None:
        """Returns when every record sent so far is stored; raises when one was lost."""
        async with self._progress:
            await self._progress.wait_for(lambda: not any(self._queues.values()) or self._dead)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        self._alive()

    def _resolved(self, future: asyncio.Future[Delivered]) -> None:
        if not future.cancelled() and self._failure is None:
            self._failure = future.exception()

    @property
    def _dead(self) -> bool:
        return self._sender is not None and self._sender.done()

    def _alive(self) -> None:
        assert self._sender is not None, "a producer works inside `async with`"
        if self._sender.done() and not self._sender.cancelled():
            self._sender.result()

    def _open_batch(self, tp: TopicPartition, size: int) -> _Batch:
        queue = self._queues.setdefault(tp, deque())
        last = queue[-1] if queue else None
        if last is None or last.encoded is not None or last.size + size > self._batch_size:
            deadline_s = asyncio.get_running_loop().time() + self._timeout_s
            queue.append(_Batch(tp, deadline_s))
        return queue[-1]

    async def _choose(self, topic: str, key: bytes | None) -> int:
        count = len(self._client.picture.topics[topic].partitions) if self._knows(topic) else 0
        if not count:
            count = await self._partition_count(topic)
        if key is not None:
            return partition_of(key, count)
        # Records without a key stay together until their batch has gone: fewer, larger batches.
        chosen = self._sticky.get(topic)
        if chosen is None or chosen >= count:
            chosen = self._sticky[topic] = random.randrange(count)
        return chosen

    def _knows(self, topic: str) -> bool:
        known = self._client.picture.topics.get(topic)
        return known is not None and not known.error_code and bool(known.partitions)

    async def _partition_count(self, topic: str) -> int:
        deadline = self._client.deadline(self._timeout_s)
        refused: RequestRefused | None = None
        while True:
            try:
                picture = await self._client.refresh(
                    [topic], create=self._create_topics, deadline=deadline
                )
            except DeadlineExceeded as late:
                # What was said before tells more than that the last question had no time left.
                raise refused or late from None
            if self._knows(topic):
                return len(picture.topics[topic].partitions)
            code = code_of(picture.topics[topic].error_code)
            refused = RequestRefused(code, f"topic {topic!r}: {code.name}")
            if not code.is_retriable or not await deadline.pause(_PAUSE_S):
                raise refused

    async def _new_identity(self, patience_s: float | None = None) -> None:
        # A broker that has no ids left fetches a block of them, and says so meanwhile.
        response = await self._client.anywhere(
            ApiKey.INIT_PRODUCER_ID,
            requests.producer_id(),
            deadline=self._client.deadline(patience_s),
            again_on=COORDINATOR_MOVED,
        )
        check(response.error_code, "a producer id")
        self._identity = (response.producer_id, response.producer_epoch)
        self._sequences.clear()

    async def _run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._linger_s:
                    await asyncio.sleep(self._linger_s)
                while any(self._queues.values()):
                    if not await self._round():
                        await asyncio.sleep(_PAUSE_S)
        except KlammError as fault:
            for batch in [batch for queue in self._queues.values() for batch in queue]:
                batch.fail(fault)
                self._remove(batch)
            raise
        finally:
            async with self._progress:
                self._progress.notify_all()

    async def _round(self) -> bool:
        """One request to every leader that is concerned; False when nothing moved at all."""
        heads = [queue[0] for queue in self._queues.values() if queue]
        by_node, unknown = self._by_leader(heads)
        if unknown:
            self._put_off(unknown, "it has no leader")
            await self._look_again(unknown)
            by_node, _ = self._by_leader(heads)
        deliveries = (self._deliver(node_id, batches) for node_id, batches in by_node.items())
        moved = await asyncio.gather(*deliveries)
        await self._drop_expired(heads)
        async with self._progress:
            self._progress.notify_all()
        return any(moved)

    def _by_leader(self, heads: Iterable[_Batch]) -> tuple[dict[int, list[_Batch]], list[_Batch]]:
        by_node: dict[int, list[_Batch]] = {}
        unknown = []
        sizes: dict[int, int] = {}
        for batch in heads:
            leader = self._client.picture.leader(batch.tp)
            if leader is None:
                unknown.append(batch)
                continue
            node_id = leader.leader_id
            sizes[node_id] = sizes.get(node_id, 0) + batch.size
            if sizes[node_id] <= _REQUEST_SIZE_MAX or node_id not in by_node:
                by_node.setdefault(node_id, []).append(batch)
        return by_node, unknown

    def _put_off(self, batches: Iterable[_Batch], why: str) -> None:
        now_s = asyncio.get_running_loop().time()
        for batch in batches:
            batch.trouble = why
            since_s = batch.trouble_since_s = batch.trouble_since_s or now_s
            if self._on_trouble is not None:
                left_s = max(0.0, batch.deadline_s - now_s)
                self._on_trouble(Trouble(batch.tp, why, now_s - since_s, left_s))

    async def _look_again(self, batches: Collection[_Batch]) -> None:
        topics = {batch.tp.topic for batch in batches}
        now_s = asyncio.get_running_loop().time()
        left_s = max(_PAUSE_S, min(batch.deadline_s for batch in batches) - now_s)
        try:
            await self._client.refresh(topics, deadline=self._client.deadline(left_s))
        except ClientError as fault:
            # The batches' own time decides how often this is tried.
            self._put_off(batches, str(fault))

    async def _deliver(self, node_id: int, batches: list[_Batch]) -> bool:
        topics: dict[str, list[produce.PartitionRecords]] = {}
        for batch in batches:
            records = memoryview(self._encode(batch))
            topics.setdefault(batch.tp.topic, []).append(
                produce.PartitionRecords(batch.tp.partition, records)
            )
        deadline = self._client.deadline(self._timeout_s)
        request = produce.ProduceRequest(
            None, self._acks, deadline.left_ms, [produce.TopicRecords(*t) for t in topics.items()]
        )
        try:
            connection = await self._client.to_node(node_id, deadline)
            response = await self._ask(connection, request)
        except (ClientError, ProtocolError) as fault:
            self._put_off(batches, str(fault))
            await self._look_again(batches)
            return False
        if response is None:
            results = {batch.tp: produce.PartitionResult(batch.tp.partition) for batch in batches}
        else:
            results = {
                TopicPartition(t.name, p.partition): p
                for t in response.topics
                for p in t.partitions
            }
        return await self._take(batches, results)

    async def _ask(
        self, connection: Connection, request: produce.ProduceRequest
    ) -> produce.ProduceResponse | None:
        return await connection.produce(connection.version_of(ApiKey.PRODUCE), request)

    def _encode(self, batch: _Batch) -> bytes:
        if batch.encoded is None:
            producer_id, producer_epoch = self._identity
            if self._idempotent and batch.sequence < 0:
                batch.sequence = self._sequences.get(batch.tp, 0)
                after = (batch.sequence + len(batch.records)) & 0x7FFFFFFF
                self._sequences[batch.tp] = after
            batch.encoded = encode_batch(
                batch.records,
                codec=self._codec,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=batch.sequence,
            )
        return batch.encoded

    async def _take(
        self, batches: list[_Batch], results: Mapping[TopicPartition, produce.PartitionResult]
    ) -> bool:
        moved = False
        again = []
        for batch in batches:
            result = results.get(batch.tp)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if result is None else code_of(result.error_code)
            if result is not None and code is ErrorCode.NONE:
                batch.resolve(result)
            elif code.is_retriable:
                message = result.error_message if result is not None else None
                self._put_off([batch], message or code.name)
                again.append(batch)
                continue
            else:
                message = result.error_message if result is not None else None
                batch.fail(RequestRefused(code, f"{batch.tp}: {message or code.name}"))
                await self._after_loss(batch)
            self._remove(batch)
            moved = True
        if again:
            await self._look_again(again)
        return moved

    async def _after_loss(self, lost: _Batch) -> None:
        """A sequence with a hole would be refused for ever: begin a new one under a new id."""
        if not self._idempotent:
            return
        await self._new_identity(_NEW_ID_S)
        for queue in self._queues.values():
            for batch in queue:
                if batch is not lost:
                    batch.sequence, batch.encoded = -1, None

    def _remove(self, batch: _Batch) -> None:
        queue = self._queues[batch.tp]
        queue.remove(batch)
        if not queue:
            del self._queues[batch.tp]
        self._buffered -= batch.size
        self._sticky.pop(batch.tp.topic, None)

    async def _drop_expired(self, heads: Iterable[_Batch]) -> None:
        now = asyncio.get_running_loop().time()
        for batch in heads:
            if batch.deadline_s < now and batch in self._queues.get(batch.tp, ()):
                why = f": {batch.trouble}" if batch.trouble else ""
                took = f"{batch.tp} took no record in {self._timeout_s:g} s"
                batch.fail(DeadlineExceeded(f"{took}{why}"))
                self._remove(batch)
                await self._after_loss(batch)


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    return size + sum(len(name) + len(data or b"") + 8 for name, data in headers)
