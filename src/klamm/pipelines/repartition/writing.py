"""Batches into the targets, each record exactly once.

Record number k of a target gets offset k. So whoever begins anew, or takes over from a task that
was lost, asks where the target ends and passes over what is there. klamm's brokers take batches
with their offsets, and refuse a wrong one. Others give the next offset: there nobody else may write
to the target, and after a failure its end counts only once it stands still.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from klamm.client.blocking.importing import ImportLink, ImportTarget
from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.wire import Wire
from klamm.client.errors import Answered, Unreachable, check
from klamm.client.retries import may_pass
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.restore_partition import end_at_rest
from klamm.pipelines.jobs.writing import drafted
from klamm.pipelines.repartition.chunks import Chunk, SealedBatch
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import EPOCH_AT
from klamm.protocol.produce import (
    PartitionRecords,
    ProduceRequest,
    TopicRecords,
    encode_request,
    parse_response,
)

_SEND_BYTES: Final = 2 << 20
_PAUSE_S: Final = 0.1
_offset: Final = struct.Struct(">q")
_epoch: Final = struct.Struct(">i")

MAP: Final = pa.schema(
    [
        ("source", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("target", pa.int32()),
        ("new_first", pa.int64()),
        ("count", pa.int32()),
        ("source_offsets", pa.list_(pa.int64())),  # null where they have no gaps
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The topic that is filled."""

    connection: ConnectionOptions
    topic: str
    topic_id: str
    takes_offsets: bool  # klamm's brokers do

    def link(self, target: int) -> TargetLink:
        """A connection to the leader of one partition."""
        place = TopicPartition(self.topic, target)
        if not self.takes_offsets:
            return _ProduceLink(self.connection, place)
        whole = ImportTarget(
            connection=self.connection, place=place, topic_id=self.topic_id, log_start=0
        )
        return ImportLink(whole)


class TargetLink(Protocol):
    """A connection to the leader of a partition, for as long as it leads and answers."""

    def ask(self) -> int:
        """The offset at which the partition ends."""

    def send(self, batches: Sequence[bytes]) -> None:
        """Sends batches that have their offsets."""

    def flush(self) -> None:
        """Waits until they are confirmed."""

    def __exit__(self, *_: Any) -> None: ...


class _ProduceLink:
    """The same on brokers that give every batch the next offset."""

    def __init__(self, connection: ConnectionOptions, place: TopicPartition) -> None:
        self._connection, self._place = connection, place
        self._lookup = Lookup(connection)
        leader = self._lookup.view([place.topic]).leader(place)
        self._wire = Wire.open(leader.address, connection)

    def __exit__(self, *_: Any) -> None:
        self._wire.close()

    def ask(self) -> int:
        return end_at_rest(self._lookup, self._place)

    def send(self, batches: Sequence[bytes]) -> None:
        version = self._wire.version(ApiKey.PRODUCE)
        topic, partition = self._place
        for batch in batches:
            (expected,) = _offset.unpack_from(batch)
            fresh = memoryview(_offset.pack(0) + batch[_offset.size :])
            records = [TopicRecords(topic, [PartitionRecords(partition, fresh)])]
            request = ProduceRequest(None, -1, self._connection.request_timeout_ms, records)
            self._wire.post(ApiKey.PRODUCE, version, *encode_request(version, request))
            result = parse_response(version, self._wire.take()).topics[0].partitions[0]
            check(result.error_code, f"writing to {self._place}", result.error_message)
            if result.base_offset != expected:
                raise KlammError(
                    f"somebody else writes to {self._place}: {result.base_offset} instead of "
                    f"{expected}; delete {topic} and begin anew"
                )

    def flush(self) -> None:
        """Nothing is under way."""


class _Placed(NamedTuple):
    """A batch at its offset."""

    offset: int
    batch: SealedBatch

    @property
    def stop(self) -> int:
        return self.offset + self.batch.records

    def stamped(self) -> bytes:
        data = bytearray(self.batch.data)
        _offset.pack_into(data, 0, self.offset)
        _epoch.pack_into(data, EPOCH_AT, 0)
        return bytes(data)


@dataclass(slots=True)
class TargetWriter:
    """The only writer of one target: takes chunks in their order."""

    destination: Destination
    target: int
    base: int  # how many records it had before this run
    rows: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0  # of records that this run has written or found
    bytes: int = 0
    _open: list[_Placed] = field(default_factory=list)
    _size: int = 0
    _link: TargetLink | None = None
    _there: int = -1  # what was there when we began

    def __post_init__(self) -> None:
        self._surely(())
        if self._there < self.base:
            raise KlammError(
                f"{self.destination.topic}-{self.target} ends at {self._there}, and had "
                f"{self.base} records before: delete the topic and begin anew"
            )

    def write(self, chunk: Chunk) -> None:
        """Appends a chunk, but for what is there already."""
        offset = self.base + self.count
        first, last = int(chunk.offsets[0]), int(chunk.offsets[-1])
        dense = last - first + 1 == chunk.count
        self.count += chunk.count
        self.rows.append(
            {
                "source": chunk.source,
                "first": first,
                "last": last,
                "target": self.target,
                "new_first": offset,
                "count": chunk.count,
                "source_offsets": None if dense else chunk.offsets,
            }
        )
        for batch in chunk.batches:
            placed = _Placed(offset, batch)
            offset = placed.stop
            if placed.stop > self._there:
                self._open.append(placed)
                self._size += len(batch.data)
                if self._size >= _SEND_BYTES:
                    self.flush()

    def flush(self) -> None:
        """Sends what is open and waits until it is confirmed."""
        batches, self._open = self._open, []
        self.bytes, self._size = self.bytes + self._size, 0
        if batches:
            self._surely(batches)

    def _surely(self, batches: Sequence[_Placed]) -> None:
        """Sends batches until they are there, or nobody answers for too long."""
        deadline = time.monotonic() + self.destination.connection.patience_ms / 1000
        while True:
            try:
                if self._link is None:
                    self._link = self.destination.link(self.target)
                    self._there = self._link.ask()
                left = [placed.stamped() for placed in batches if placed.stop > self._there]
                if left:
                    self._link.send(left)
                    self._link.flush()
                return
            except (Unreachable, Answered) as fault:
                self.close()
                if not may_pass(fault) or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Hangs up."""
        if self._link is not None:
            self._link.__exit__()
            self._link = None

    def finish(self, directory: Path) -> dict[str, Any]:
        """Writes the rest and the offset map of this run; what a driver has to know."""
        self.flush()
        self.close()
        with drafted(directory / f"target-{self.target:05d}.parquet") as draft:
            pq.write_table(pa.Table.from_pylist(self.rows, MAP), draft, compression="zstd")
        return {"target": self.target, "count": self.count, "bytes": self.bytes}
