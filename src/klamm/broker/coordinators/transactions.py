"""The transaction coordinator: runs the transactional ids whose state partition this broker leads.

Every move of a transactional id is a record first. When the end of a transaction is written down
the client is answered; the markers are then sent to every partition until all have them, and the
transaction is complete. A coordinator that takes over sends the markers of whatever it finds
prepared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from klamm.broker.clock import Clock
from klamm.broker.coordinators import records
from klamm.broker.coordinators.allowance import Allowance
from klamm.broker.coordinators.journal import (
    Journal,
    partition_for,
    told_to_clients,
    until_read_back,
)
from klamm.broker.coordinators.portions import portions, tell
from klamm.groups.transactions import (
    PARTITION_BYTES,
    AnsweredAtOnce,
    Fence,
    Move,
    Transaction,
    TransactionalId,
    TxnState,
    first,
    weight_of,
)
from klamm.model.errors import ErrorCode, KlammError, ProtocolError
from klamm.model.names import TopicPartition
from klamm.protocol import internal
from klamm.protocol.batch import Record, parse_header

log = logging.getLogger("klamm.transactions")

_PREPARED: Final = (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerOrder:
    """The message to every partition of an ended transaction."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    partitions: frozenset[TopicPartition]


SendMarker = Callable[[MarkerOrder], Awaitable[None]]
FreshProducerId = Callable[[], Awaitable[int]]


@dataclass(slots=True)
class TransactionShard:
    """One partition of the transaction topic, led here."""

    partition: TopicPartition
    epoch: int
    is_loading: bool = True
    ids: dict[str, TransactionalId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProducerGranted:
    """The answer to InitProducerId."""

    error: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def _replay(at: TopicPartition, record: Record, found: dict[str, Transaction]) -> None:
    """Take over what a record of the transaction topic tells."""
    try:
        name = internal.decode_transaction_key(record.key or b"")
        if name is None:
            return
        if record.value is None:
            found.pop(name, None)
        else:
            found[name] = records.transaction(name, bytes(record.value))
    except ProtocolError as fault:
        tell(at, record.offset, fault)


class TransactionCoordinator:
    """The transactional ids kept by this broker."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        allowance: Allowance,
        send_marker: SendMarker,
        fresh_producer_id: FreshProducerId,
        partition_count: Callable[[], int],
        timeout_ms_max: int,
        expiration_ms: int,
        timeout_check_ms: int,
        expiration_check_ms: int,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._allowance = allowance
        self._send_marker = send_marker
        self._fresh_producer_id = fresh_producer_id
        self._partition_count = partition_count
        self._timeout_ms_max = timeout_ms_max
        self._expiration_ms = expiration_ms
        self._timeout_check_ms = timeout_check_ms
        self._expiration_check_ms = expiration_check_ms
        self._shards: dict[int, TransactionShard] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Own the coordinator's tasks until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for shard in list(self._shards.values()):
                    self._begin(shard)  # led here before this ran
                tasks.create_task(self._expire_regularly())
                while True:
                    await asyncio.sleep(self._timeout_check_ms / 1000)
                    await self.time_out()
        finally:
            self._tasks = None
            self._shards.clear()

    # --- becoming and ceasing to be the coordinator
    # ------------------------------------------------

    def load(self, partition: TopicPartition, epoch: int) -> None:
        """This broker leads a partition of the transaction topic from now on."""
        known = self._shards.get(partition.partition)
        if known is not None and known.epoch >= epoch:
            return
        if known is not None and not known.is_loading:
            known.epoch = epoch
            return
        shard = TransactionShard(partition, epoch)
        self._shards[partition.partition] = shard
        self._begin(shard)

    def _begin(self, shard: TransactionShard) -> None:
        if self._tasks is not None:
            self._tasks.create_task(self._load(shard))

    def _keeps(self, shard: TransactionShard) -> bool:
        return self._shards.get(shard.partition.partition) is shard

    async def _read_back(self, shard: TransactionShard, found: dict[str, Transaction]) -> None:
        found.clear()
        async for batch in self._journal.batches(shard.partition):
            header = parse_header(batch, 0)
            if header.is_control:
                continue
            async for some in portions(shard.partition, header, batch):
                for record in some:
                    _replay(shard.partition, record, found)

    async def _load(self, shard: TransactionShard) -> None:
        found: dict[str, Transaction] = {}
        await until_read_back(
            lambda: self._read_back(shard, found), shard.partition, lambda: self._keeps(shard)
        )
        if not self._keeps(shard):
            return
        shard.ids = {name: TransactionalId(txn) for name, txn in found.items()}
        shard.is_loading = False
        for kept in shard.ids.values():
            if kept.current.state in _PREPARED:
                self._finish_later(shard, kept)

    def unload(self, partition: TopicPartition) -> None:
        """Another broker leads the partition now."""
        self._shards.pop(partition.partition, None)

    def shard(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """The shard that keeps an id here, or the reason why none does."""
        found = self._shards.get(partition_for(transactional_id, self._partition_count()))
        if found is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if found.is_loading else found

    @property
    def weight(self) -> int:
        """About how many bytes of memory all transactional ids take."""
        kept = (each for shard in self._shards.values() for each in shard.ids.values())
        return sum(each.current.weight for each in kept)

    # --- requests
    # ----------------------------------------------------------------------------------

    async def initialise(
        self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int
    ) -> ProducerGranted:
        """Give a producer its id and epoch, and fence whoever had them before."""
        if not transactional_id:
            return ProducerGranted(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._timeout_ms_max:
            return ProducerGranted(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        shard = self.shard(transactional_id)
        if isinstance(shard, ErrorCode):
            return ProducerGranted(shard)
        try:
            fresh = await self._fresh_producer_id()
        except KlammError:
            return ProducerGranted(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        now_ms = self._clock.now_ms()
        kept = shard.ids.get(transactional_id)
        if kept is None:
            if producer_id != -1:
                # A client that still knows an id we have forgotten starts from the beginning.
                producer_id, epoch = -1, -1
            if not self._allowance.take(weight_of(transactional_id)):
                return ProducerGranted(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            txn = first(transactional_id, producer_id=fresh, timeout_ms=timeout_ms, now_ms=now_ms)
            kept = shard.ids.setdefault(transactional_id, TransactionalId(txn))
        planned = kept.initialise(
            timeout_ms=timeout_ms,
            producer_id=producer_id,
            epoch=epoch,
            fresh_producer_id=fresh,
            now_ms=now_ms,
        )
        match planned:
            case AnsweredAtOnce(error):
                return ProducerGranted(error)
            case Fence():
                await self._write(shard, kept)
                return ProducerGranted(ErrorCode.CONCURRENT_TRANSACTIONS)
            case Move(to):
                error = await self._write(shard, kept)
                if error is not ErrorCode.NONE:
                    return ProducerGranted(error)
                return ProducerGranted(ErrorCode.NONE, to.producer_id, to.epoch)

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Remember where a transaction writes, before it does."""
        kept = self._kept(transactional_id)
        if isinstance(kept, ErrorCode):
            return kept
        shard, txn = kept
        wanted = frozenset(partitions)
        if not self._allowance.take(len(wanted - txn.current.partitions) * PARTITION_BYTES):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        planned = txn.add_partitions(
            producer_id=producer_id,
            epoch=epoch,
            partitions=wanted,
            now_ms=self._clock.now_ms(),
        )
        return (
            planned.error if isinstance(planned, AnsweredAtOnce) else await self._write(shard, txn)
        )

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each of these partitions is part of the open transaction."""
        wanted = list(partitions)
        kept = self._kept(transactional_id)
        if isinstance(kept, ErrorCode):
            return dict.fromkeys(wanted, kept)
        _, txn = kept
        return txn.verify(producer_id=producer_id, epoch=epoch, partitions=wanted)

    async def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool
    ) -> ErrorCode:
        """Answered as soon as the decision is durable; the markers follow."""
        kept = self._kept(transactional_id)
        if isinstance(kept, ErrorCode):
            return kept
        shard, txn = kept
        planned = txn.end(
            producer_id=producer_id, epoch=epoch, commit=commit, now_ms=self._clock.now_ms()
        )
        return (
            planned.error if isinstance(planned, AnsweredAtOnce) else await self._write(shard, txn)
        )

    def _kept(self, transactional_id: str) -> tuple[TransactionShard, TransactionalId] | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self.shard(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        kept = shard.ids.get(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if kept is None else (shard, kept)

    # --- moves
    # -------------------------------------------------------------------------------------

    async def _write(self, shard: TransactionShard, kept: TransactionalId) -> ErrorCode:
        """Write the move that was just planned; send markers if it was the end of a transaction."""
        planned = kept.pending
        assert planned is not None, kept.current
        batch = records.batch_of([records.transaction_pair(planned)], now_ms=self._clock.now_ms())
        # Once it is on its way the record counts, even if the client has gone: the append is
        # shielded so that memory never falls behind the log.
        return await asyncio.shield(self._spawn(self._append(shard, kept, batch)))

    async def _append(
        self, shard: TransactionShard, kept: TransactionalId, batch: bytes
    ) -> ErrorCode:
        written = await self._journal.append(shard.partition, batch)
        current = kept.confirm(durable=written.error is ErrorCode.NONE)
        if written.error is ErrorCode.NONE and current.state in _PREPARED:
            self._finish_later(shard, kept)
        return told_to_clients(written.error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)

    def _spawn(self, work: Awaitable[ErrorCode]) -> asyncio.Future[ErrorCode]:
        if self._tasks is None:
            return asyncio.ensure_future(work)

        async def run() -> ErrorCode:
            return await work

        return self._tasks.create_task(run())

    def _finish_later(self, shard: TransactionShard, kept: TransactionalId) -> None:
        if self._tasks is not None:
            self._tasks.create_task(self._finish(shard, kept))

    async def _finish(self, shard: TransactionShard, kept: TransactionalId) -> None:
        """Tell every partition, then write that the transaction is complete."""
        txn = kept.current
        await self._send_marker(
            MarkerOrder(
                producer_id=txn.producer_id,
                producer_epoch=txn.epoch,
                commit=txn.state is TxnState.PREPARE_COMMIT,
                coordinator_epoch=shard.epoch,
                partitions=txn.partitions,
            )
        )
        while self._shards.get(shard.partition.partition) is shard:
            kept.complete(self._clock.now_ms())
            if await self._write(shard, kept) is ErrorCode.NONE:
                return
            await asyncio.sleep(0.1)  # the state topic itself is not writable for now

    async def time_out(self) -> None:
        """Abort the transactions of producers that went silent."""
        now_ms = self._clock.now_ms()
        for shard in list(self._shards.values()):
            for kept in list(shard.ids.values()):
                if kept.time_out(now_ms) is not None:
                    log.info("timed out", extra={"transactional_id": kept.current.id})
                    await self._write(shard, kept)

    async def _expire_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._expiration_check_ms / 1000)
            await self.expire_ids()

    async def expire_ids(self) -> None:
        """Forget the ids that nobody has used for a long time."""
        now_ms = self._clock.now_ms()
        for shard in list(self._shards.values()):
            names = [
                name
                for name, kept in shard.ids.items()
                if kept.is_expired(now_ms, self._expiration_ms)
            ]
            if not names:
                continue
            batch = records.batch_of(map(records.transaction_tombstone, names), now_ms=now_ms)
            written = await self._journal.append(shard.partition, batch)
            for name in names if written.error is ErrorCode.NONE else ():
                kept = shard.ids.get(name)
                if kept is not None and kept.is_expired(now_ms, self._expiration_ms):
                    del shard.ids[name]

    def transactions(self) -> list[Transaction]:
        """Every transactional id kept here."""
        return [kept.current for shard in self._shards.values() for kept in shard.ids.values()]

    @property
    def is_loading(self) -> bool:
        return any(shard.is_loading for shard in self._shards.values())
