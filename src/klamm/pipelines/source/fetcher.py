"""Reading one range of one partition: Fetch requests in, frames out.

The next answer is asked for before this one is decoded, so that the broker and the decoder work at
the same time. Leadership that moved is looked up again; a start that is no longer there is the
caller's data loss rule; a broker that keeps silent is an error after the poll timeout. The position
moves by whole batches, for the last records of a range may have been compacted away.

A reader that names its rack is sent to a replica there. What that one cannot give, the leader can:
it is then asked for the rest without naming the rack, so that it does not send the reader back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from klamm.client.addresses import Address
from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.wire import Wire, lease
from klamm.client.errors import Answered, Unreachable, check
from klamm.client.requests import FETCH_BY_NAME
from klamm.client.retries import LEADER_MOVED
from klamm.model.errors import ErrorCode
from klamm.model.names import ZERO_ID, TopicPartition, id_from_text, id_text
from klamm.pipelines.records.columns import RowSource
from klamm.pipelines.records.frames import Decoder, raw_frame
from klamm.pipelines.records.scanning import Batches, walk
from klamm.pipelines.source.options import ReadOptions
from klamm.pipelines.source.ranges import DataLost, Range
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    encode_request,
    parse_response,
)

log = logging.getLogger(__name__)

_BACKOFF_SECONDS: Final = 0.1
_NO_ID: Final = id_text(ZERO_ID)


@dataclass(kw_only=True)
class RangeReader:
    """The Fetch loop of one range."""

    range: Range
    options: ReadOptions
    decoder: Decoder
    isolation: int = 0
    advice: str = "failOnDataLoss=false would go on with what is left"

    def __post_init__(self) -> None:
        self._address: Address = (self.range.host, self.range.port)
        self._epoch = self.range.leader_epoch
        self._rack = self.options.rack
        self._is_near = False  # at a replica of our rack, and not at the leader
        self._deadline = self._fresh_deadline()

    @property
    def where(self) -> str:
        """The partition, for messages."""
        return f"{self.range.topic}-{self.range.partition}"

    def frames(self) -> Iterator[Any]:
        """Every frame of the range."""
        while self.decoder.position < self.range.stop:
            try:
                with lease(self._address, self.options.connection) as wire:
                    yield from self._read(wire)
            except Unreachable as fault:
                self._wait(str(fault))
                self._to_leader()

    def _read(self, wire: Wire) -> Iterator[Any]:
        """Frames until the range ends or the leader has moved."""
        self._ask(wire, self.decoder.position)
        while True:
            part = self._take(wire)
            if part.error_code:
                self._judge(part.error_code)
                return
            if part.preferred_read_replica >= 0:
                self._go_near(part.preferred_read_replica)
                return
            assert isinstance(part.records, bytes | memoryview)
            data = np.frombuffer(part.records, np.uint8)
            batches = walk(part.records, self.where)
            ahead = self.decoder.after(batches)
            if ahead > self.decoder.position:
                self._deadline = self._fresh_deadline()
            elif len(data):
                raise DataLost(f"{self.where}: nothing at or after offset {ahead} can be read")
            else:
                self._wait(f"{self.where} ends before offset {self.range.stop}")
            if ahead < self.range.stop:
                self._ask(wire, ahead)
            yield from self._decoded(data, batches, part.aborted or ())
            self.decoder.position = ahead
            if ahead >= self.range.stop:
                return

    def _decoded(
        self, data: Any, batches: Batches, aborted: Sequence[tuple[int, int]]
    ) -> Iterator[Any]:
        yield from self.decoder.feed(data, batches, aborted)

    def _ask(self, wire: Wire, offset: int) -> None:
        topic_id = id_from_text(self.range.topic_id) if self.range.topic_id else ZERO_ID
        version = self._version(wire)
        wanted = FetchPartition(
            self.range.partition,
            self._epoch,
            offset,
            partition_max_bytes=self.options.fetch_bytes,
        )
        request = FetchRequest(
            max_wait_ms=self.options.fetch_wait_ms,
            max_bytes=self.options.fetch_bytes,
            isolation_level=self.isolation,
            rack_id=self._rack,
            topics=[FetchTopic(self.range.topic, topic_id, [wanted])],
        )
        wire.post(ApiKey.FETCH, version, encode_request(version, request))

    def _take(self, wire: Wire) -> PartitionData:
        version = self._version(wire)
        response = parse_response(version, wire.take(self.options.poll_timeout_ms))
        check(response.error_code, f"reading {self.where}")
        return response.topics[0].partitions[0]

    def _version(self, wire: Wire) -> int:
        named = not self.range.topic_id or self.range.topic_id == _NO_ID
        return wire.version(ApiKey.FETCH, FETCH_BY_NAME if named else None)

    def _judge(self, code: int) -> None:
        """Decides what an error means: look again, skip what is gone, or give up."""
        if code in LEADER_MOVED:
            self._wait(f"{self.where}: {ErrorCode(code).name}")
            self._to_leader()
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE and self._is_near:
            self._to_leader()  # a replica may be behind
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._skip_lost()
        else:
            raise Answered(code, f"reading {self.where}")

    def _skip_lost(self) -> None:
        tp = TopicPartition(self.range.topic, self.range.partition)
        lookup = Lookup(self.options.connection)
        first, end = lookup.earliest([tp])[tp], lookup.latest([tp])[tp]
        position = self.decoder.position
        lost = f"{self.where} now holds offsets {first} to {end - 1}, and {position} was to be read"
        if self.options.fail_on_data_loss:
            raise DataLost(f"{lost} ({self.advice})")
        log.warning("%s: skipped, as failOnDataLoss=false asks", lost)
        self.decoder.position = min(first, self.range.stop) if position < first else self.range.stop

    def _go_near(self, replica: int) -> None:
        address = Lookup(self.options.connection).view([self.range.topic]).brokers.get(replica)
        if address is None:
            self._rack = ""
            return
        self._address, self._is_near = address, True

    def _to_leader(self) -> None:
        if self._is_near:
            self._rack, self._is_near = "", False
        self._find_leader()

    def _find_leader(self) -> None:
        tp = TopicPartition(self.range.topic, self.range.partition)
        lookup = Lookup(self.options.connection, retries=0)
        try:
            topic = lookup.topic(tp.topic)
        except Unreachable as fault:
            self._wait(str(fault))
            return
        if topic is None:
            raise DataLost(f"topic {tp.topic} was deleted while it was read")
        if self.range.topic_id and topic.id != self.range.topic_id:
            raise DataLost(f"topic {tp.topic} was deleted and created again while it was read")
        leader = topic.leaders.get(tp.partition)
        if leader is not None:
            self._address, self._epoch = leader.address, leader.epoch

    def _fresh_deadline(self) -> float:
        return time.monotonic() + self.options.poll_timeout_ms / 1000

    def _wait(self, why: str) -> None:
        if time.monotonic() > self._deadline:
            raise Unreachable(f"{why}; gave up after {self.options.poll_timeout_ms} ms")
        time.sleep(_BACKOFF_SECONDS)


class RawReader(RangeReader):
    """The same loop, one row a record batch, undecoded."""

    def _decoded(
        self, data: Any, batches: Batches, aborted: Sequence[tuple[int, int]]
    ) -> Iterator[Any]:
        source, first = self.decoder.source, self.decoder.position
        yield raw_frame(data, batches, source, first, self.range.stop)


def decoder_of(options: ReadOptions, r: Range, columns: tuple[str, ...]) -> Decoder:
    """The decoder of one range under these options."""
    return Decoder(
        source=RowSource(r.topic, r.partition),
        position=r.start,
        stop=r.stop,
        columns=columns,
        control=options.records == "data+control",
        aborted="drop" if options.read_committed else "keep",
        skip_invalid=options.skip_invalid,
        frame_rows=options.frame_rows,
        frame_bytes=options.frame_bytes,
    )


def read_range(options: ReadOptions, r: Range, columns: tuple[str, ...]) -> Iterator[Any]:
    """Every frame of a range, with these columns."""
    kind = RawReader if options.records == "batches" else RangeReader
    reader = kind(
        range=r,
        options=options,
        decoder=decoder_of(options, r, () if kind is RawReader else columns),
        isolation=int(options.read_committed),
    )
    yield from reader.frames()
    if reader.decoder.skipped:
        log.warning("%s: skipped %d damaged records", reader.where, reader.decoder.skipped)
