"""A partition on a real log, and a broker small enough to hold in one hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from klamm.broker.replicas.partition import Partition
from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState

ME, B, C = BrokerId(0), BrokerId(1), BrokerId(2)
TP = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=77)


@dataclass
class Host:
    """What a partition needs, with a clock that is set by hand."""

    broker_id: BrokerId = ME
    at_ms: int = 1_000
    alive: set[BrokerId] = field(default_factory=lambda: {ME, B, C})
    proposed: list[tuple[BrokerId, ...]] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.at_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.at_ms

    def eligible(self) -> set[BrokerId]:
        return self.alive

    def lag_ms_max(self) -> int:
        return 500

    def propose(self, partition: Partition) -> None:
        assert partition.isr.proposed is not None
        self.proposed.append(partition.isr.proposed)


@dataclass
class Waiter:
    """A produce request that remembers what it was told."""

    told: list[ErrorCode] = field(default_factory=list)
    is_over: bool = False

    def acknowledged(self, partition: Partition, code: ErrorCode) -> None:
        self.told.append(code)


@dataclass(eq=False)
class Watcher:
    """Counts how often it was woken, and how often it was only told."""

    touches: int = 0
    changes: int = 0

    def touched(self, partition: Partition) -> None:
        self.touches += 1

    def changed(self, partition: Partition) -> None:
        self.changes += 1


def new_log(path: Path, **settings: int) -> PartitionLog:
    return PartitionLog.create(
        TP, str(path / "t-0"), LogSettings(**settings), FilePool(), topic_id=TOPIC_ID
    )


def order(
    leader: int = ME,
    epoch: int = 1,
    isr: Iterable[int] = (ME, B, C),
    replicas: Iterable[int] = (ME, B, C),
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=0,
        leader=leader,
        leader_epoch=epoch,
        isr=list(isr),
        replicas=list(replicas),
        partition_epoch=epoch,
    )


def batch(count: int = 1) -> memoryview:
    records = [Record(at, 1_700_000_000_000, None, b"v%d" % at, ()) for at in range(count)]
    return memoryview(bytearray(encode_batch(records)))
