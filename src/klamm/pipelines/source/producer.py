"""A blocking, idempotent producer for one task; in a transaction where it is given one.

Batches go to the leaders of their partitions, a few in flight on each connection; every answer is
awaited before the task reports. When anything goes wrong all answers are drained, leaders are
looked up anew, and what was not acknowledged is sent again in its order: the broker drops what it
has seen, because each batch carries the producer's id and its sequence.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from klamm.client.addresses import Address
from klamm.client.blocking.transactions import Holder, Transactions
from klamm.client.blocking.wire import Wire
from klamm.client.errors import Answered, Unreachable, check
from klamm.client.metadata import Topic, View
from klamm.client.retries import may_pass
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.records.batches import OpenBatch
from klamm.protocol.apis import ApiKey
from klamm.protocol.produce import (
    PartitionRecords,
    ProduceRequest,
    TopicRecords,
    encode_request,
    parse_response,
)

_IN_FLIGHT_MAX: Final = 5  # more, and a broker might forget the oldest sequence it has seen
_BACKOFF_SECONDS: Final = 0.1


@dataclass(slots=True)
class Sent:
    """The records a task has written to one partition."""

    records: int = 0
    bytes: int = 0
    first_offset: int = -1
    last_offset: int = -1


@dataclass(slots=True)
class _Pending:
    """One batch that no broker has acknowledged yet."""

    tp: TopicPartition
    batch: bytes
    records: int


class Undelivered(KlammError):
    """Brokers did not take a batch for as long as the delivery timeout."""


@dataclass(kw_only=True)
class BatchProducer:
    """Sends sealed batches and remembers what became of them."""

    connection: ConnectionOptions
    codec: int = 0
    acks: int = -1
    delivery_timeout_ms: int = 120_000
    holder: Holder | None = None  # whose transaction the batches are part of
    sent: dict[TopicPartition, Sent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lookup = Transactions(self.connection, patience_ms=self.delivery_timeout_ms)
        if self.holder is None:
            self._id, self._epoch = self._lookup.producer_id()
        else:
            self._id, self._epoch = self.holder.producer_id, self.holder.epoch
        self._enrolled: set[TopicPartition] = set()
        self._sequence: dict[TopicPartition, int] = {}
        self._view: View | None = None
        self._ids: dict[str, str] = {}  # of each topic when it was first written to
        self._wires: dict[Address, Wire] = {}
        self._flying: dict[Address, deque[_Pending]] = {}

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic."""
        return len(self._topic_view(topic).topics[topic].leaders)

    def _topic_view(self, topic: str) -> View:
        if self._view is None or topic not in self._view.topics:
            known = set(self._view.topics) if self._view else set()
            view = self._lookup.view(sorted(known | {topic}))
            if topic in self._ids and topic not in view.topics and self._lookup.topic(topic):
                view = self._lookup.view(sorted(known | {topic}))
            self._view = view
            self._check_same(topic, view.topics.get(topic))
        return self._view

    def _check_same(self, topic: str, found: Topic | None) -> None:
        """Half of what is to be written must not go to another topic of the same name."""
        known = self._ids.get(topic)
        if found is None and known is None:
            raise KlammError(f"there is no topic {topic}: create it before writing to it")
        if found is None:
            raise KlammError(f"topic {topic} was deleted while it was written to")
        if self._ids.setdefault(topic, found.id) != found.id:
            raise KlammError(f"topic {topic} was deleted and created again while it was written to")

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """Announces where batches will go; in a transaction nothing may go elsewhere."""
        fresh = set(partitions) - self._enrolled
        if self.holder is not None and fresh:
            self._lookup.add(self.holder, fresh)
            self._enrolled |= fresh

    def send(self, tp: TopicPartition, box: OpenBatch) -> None:
        """Seals a batch and sends it; waits only when too many are in flight."""
        sequence = self._sequence.get(tp, 0)
        batch = box.seal(
            self.codec,
            producer_id=self._id,
            producer_epoch=self._epoch,
            sequence=sequence,
            transactional=self.holder is not None,
        )
        self._sequence[tp] = (sequence + box.count) & 0x7FFFFFFF
        self._post_or_recover(_Pending(tp, batch, box.count))

    def flush(self) -> None:
        """Waits for every answer, and looks whether all of them came from the same topics."""
        for address in list(self._flying):
            while self._flying.get(address):
                self._await_one(address)
        self._view = None
        with suppress(
            Unreachable
        ):  # all is acknowledged: who is silent now says nothing against it
            for topic in sorted(self._ids):
                self._topic_view(topic)

    def close(self) -> None:
        """Hangs up."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _post_or_recover(self, pending: _Pending) -> None:
        try:
            address = self._post(pending)
        except Unreachable as fault:
            self._recover([pending], fault)
            return
        if len(self._flying[address]) >= _IN_FLIGHT_MAX:
            self._await_one(address)

    def _post(self, pending: _Pending) -> Address:
        address = self._topic_view(pending.tp.topic).leader(pending.tp).address
        wire = self._wires.get(address)
        if wire is None:
            wire = self._wires[address] = Wire.open(address, self.connection)
        request = ProduceRequest(
            self.holder.transactional_id if self.holder else None,
            self.acks,
            self.connection.request_timeout_ms,
            [TopicRecords(pending.tp.topic, [_records(pending)])],
        )
        version = wire.version(ApiKey.PRODUCE)
        flying = self._flying.setdefault(address, deque())
        wire.post(ApiKey.PRODUCE, version, *encode_request(version, request))
        flying.append(pending)
        return address

    def _await_one(self, address: Address) -> None:
        pending = self._flying[address][0]
        try:
            self._take(address, pending)
            self._flying[address].popleft()
        except (Unreachable, Answered) as fault:
            _raise_unless_retriable(fault)
            self._recover([], fault)

    def _take(self, address: Address, pending: _Pending) -> None:
        wire = self._wires[address]
        version = wire.version(ApiKey.PRODUCE)
        response = parse_response(version, wire.take())
        result = response.topics[0].partitions[0]
        check(result.error_code, f"writing to {pending.tp}", result.error_message)
        self._note(pending, result.base_offset)

    def _note(self, pending: _Pending, base_offset: int) -> None:
        sent = self.sent.setdefault(pending.tp, Sent())
        sent.records += pending.records
        sent.bytes += len(pending.batch)
        if sent.first_offset < 0:
            sent.first_offset = base_offset
        sent.last_offset = base_offset + pending.records - 1

    def _recover(self, more: Iterable[_Pending], cause: Unreachable | Answered) -> None:
        """Sends everything unacknowledged again, one by one, until it is there or time is up."""
        left = [p for flying in self._flying.values() for p in self._drained(flying)]
        deadline = time.monotonic() + self.delivery_timeout_ms / 1000
        for pending in [*left, *more]:
            self._send_surely(pending, deadline, cause)

    def _drained(self, flying: deque[_Pending]) -> list[_Pending]:
        """The batches of one connection whose answers did not say yes; the connection is closed.

        Answers that are still under way are not waited for: what they acknowledge is sent again and
        recognised by its sequence.
        """
        left = list(flying)
        flying.clear()
        self.close()
        return left

    def _send_surely(
        self, pending: _Pending, deadline: float, cause: Unreachable | Answered
    ) -> None:
        while True:
            try:
                self._view = None
                address = self._post(pending)
                self._take(address, pending)
                self._flying[address].clear()
                return
            except (Unreachable, Answered) as fault:
                _raise_unless_retriable(fault)
                cause = fault if _is_about_a_disk(fault) else cause
                self._flying.clear()
                self.close()
                if time.monotonic() > deadline:
                    raise Undelivered(_story(cause, fault, self.delivery_timeout_ms)) from None
                time.sleep(_BACKOFF_SECONDS)


def _is_about_a_disk(fault: Unreachable | Answered) -> bool:
    return isinstance(fault, Answered) and fault.code is ErrorCode.KAFKA_STORAGE_ERROR


def _story(cause: Unreachable | Answered, last: Unreachable | Answered, waited_ms: int) -> str:
    """Tells both the first cause and the last state: the first usually says more."""
    text = str(cause)
    if _is_about_a_disk(cause):
        text += " (the disk of its broker is full, or failed)"
    since = f" ({last})" if str(last) != str(cause) else ""
    return f"{text}; gave up after {waited_ms} ms{since}"


def _records(pending: _Pending) -> PartitionRecords:
    return PartitionRecords(pending.tp.partition, memoryview(pending.batch))


def _raise_unless_retriable(fault: Unreachable | Answered) -> None:
    # A batch behind one that failed is out of order until that one has been sent again.
    is_behind = isinstance(fault, Answered) and (
        fault.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    if not is_behind and not may_pass(fault):
        raise fault
