"""One transactional id: who may write under it, and what its open transaction touches.

A producer asks for its id and epoch; whoever asked last is the only one obeyed. A transaction
collects partitions, then ends in two steps: what is to happen is written down (PrepareCommit,
PrepareAbort), the markers go to every partition, and only then is it complete. A coordinator that
takes over in between finds the first step written and repeats the rest.

Each method plans one move and returns it as a value; the state changes in `confirm`, when the
record is durable. While a record is being written (`pending`) everybody else is asked to come
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

EPOCH_MAX: Final = 32_767
_ID_BYTES: Final = 700
PARTITION_BYTES: Final = 150


def weight_of(transactional_id: str, partitions: int = 0) -> int:
    """About how many bytes of memory a transactional id takes that writes to so many places."""
    return _ID_BYTES + len(transactional_id) + partitions * PARTITION_BYTES


class TxnState(IntEnum):
    """The numbers are those of the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """The name that clients are shown."""
        return "".join(word.capitalize() for word in self.name.split("_"))


# Every legal move, and nothing else.
MOVES: Final[dict[TxnState, frozenset[TxnState]]] = {
    TxnState.EMPTY: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.DEAD}),
    TxnState.ONGOING: frozenset(
        {
            TxnState.ONGOING,
            TxnState.PREPARE_COMMIT,
            TxnState.PREPARE_ABORT,
            TxnState.PREPARE_EPOCH_FENCE,
        }
    ),
    TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.PREPARE_ABORT}),
    TxnState.PREPARE_COMMIT: frozenset({TxnState.COMPLETE_COMMIT}),
    TxnState.PREPARE_ABORT: frozenset({TxnState.COMPLETE_ABORT}),
    TxnState.COMPLETE_COMMIT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.DEAD}),
    TxnState.COMPLETE_ABORT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.DEAD}),
    TxnState.DEAD: frozenset(),
}
_ENDED: Final = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
_PREPARED: Final = (
    TxnState.PREPARE_COMMIT,
    TxnState.PREPARE_ABORT,
    TxnState.PREPARE_EPOCH_FENCE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The recorded state of a transactional id."""

    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TxnState = TxnState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = -1
    started_ms: int = -1
    # Not in the records: the pair a client may still name when an answer to it was lost.
    last_producer_id: int = -1
    last_epoch: int = -1

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return weight_of(self.id, len(self.partitions))


@dataclass(frozen=True, slots=True)
class Move:
    """Write this, then it is so."""

    to: Transaction


@dataclass(frozen=True, slots=True)
class AnsweredAtOnce:
    """Nothing is to be written: the request is answered at once."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Fence:
    """An open transaction is aborted under a higher epoch; the client comes again."""

    to: Transaction


class TransactionalId:
    """One transactional id at its coordinator."""

    __slots__ = ("current", "pending")

    def __init__(self, current: Transaction) -> None:
        self.current = current
        self.pending: Transaction | None = None

    def confirm(self, *, durable: bool) -> Transaction:
        """The record that was being written is durable, or could not be written."""
        assert self.pending is not None, f"{self.current.id} has no record under way"
        if durable:
            self.current = self.pending
        self.pending = None
        return self.current

    def _begin(self, to: Transaction) -> Transaction:
        now = self.current.state
        assert to.state in MOVES[now], f"{to.id}: {now.name} -> {to.state.name} is not legal"
        assert self.pending is None, f"{to.id} has a record under way"
        self.pending = to
        return to

    # --- getting an id -------------------------------------------------------------------------

    def initialise(
        self,
        *,
        timeout_ms: int,
        producer_id: int,
        epoch: int,
        fresh_producer_id: int,
        now_ms: int,
    ) -> Move | Fence | AnsweredAtOnce:
        """A producer starts, or starts again. The pair (-1, -1) says that it knows no former id."""
        current = self.current
        if self.pending is not None or current.state in _PREPARED:
            return AnsweredAtOnce(ErrorCode.CONCURRENT_TRANSACTIONS)
        if producer_id != -1 and not self._is_known_pair(producer_id, epoch):
            return AnsweredAtOnce(ErrorCode.PRODUCER_FENCED)
        if current.state is TxnState.ONGOING:
            return self._fence(now_ms)
        renewed = replace(
            current,
            state=TxnState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=-1,
            updated_ms=now_ms,
        )
        # A client whose answer was lost names the former pair and is given the present one again.
        repeats = producer_id != -1 and (producer_id, epoch) != (current.producer_id, current.epoch)
        if not repeats:
            renewed = self._next_epoch(renewed, fresh_producer_id)
        return Move(self._begin(renewed))

    def _is_known_pair(self, producer_id: int, epoch: int) -> bool:
        current = self.current
        return (producer_id, epoch) in (
            (current.producer_id, current.epoch),
            (current.last_producer_id, current.last_epoch),
        )

    @staticmethod
    def _next_epoch(txn: Transaction, fresh_producer_id: int) -> Transaction:
        renewed = replace(txn, last_producer_id=txn.producer_id, last_epoch=txn.epoch)
        if txn.epoch >= EPOCH_MAX - 1:
            return replace(renewed, producer_id=fresh_producer_id, epoch=0)
        return replace(renewed, epoch=txn.epoch + 1)

    # --- while a transaction is open -----------------------------------------------------------

    def add_partitions(
        self,
        *,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
        now_ms: int,
    ) -> Move | AnsweredAtOnce:
        """The producer is about to write to these partitions."""
        fault = self.fault(producer_id, epoch)
        if fault is not None:
            return AnsweredAtOnce(fault)
        current = self.current
        if self.pending is not None or current.state in _PREPARED:
            return AnsweredAtOnce(ErrorCode.CONCURRENT_TRANSACTIONS)
        wanted = frozenset(partitions)
        if current.state is TxnState.ONGOING and wanted <= current.partitions:
            return AnsweredAtOnce(ErrorCode.NONE)
        is_open = current.state is TxnState.ONGOING
        return Move(
            self._begin(
                replace(
                    current,
                    state=TxnState.ONGOING,
                    partitions=(current.partitions | wanted) if is_open else wanted,
                    started_ms=current.started_ms if is_open else now_ms,
                    updated_ms=now_ms,
                )
            )
        )

    def verify(
        self, *, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each of these partitions is part of the open transaction (KIP-890)."""
        fault = self.fault(producer_id, epoch)
        # One that is about to end counts as neither open nor ended: its markers may be written
        # already, and a batch behind them would open what nobody ends.
        coming = self.current if self.pending is None else self.pending
        if fault is None and (coming.state in _PREPARED or self.current.state in _PREPARED):
            fault = ErrorCode.CONCURRENT_TRANSACTIONS
        return {
            at: ErrorCode.INVALID_TXN_STATE
            if fault is None and at not in self.current.partitions
            else fault or ErrorCode.NONE
            for at in partitions
        }

    def end(
        self, *, producer_id: int, epoch: int, commit: bool, now_ms: int
    ) -> Move | AnsweredAtOnce:
        """The producer ends its transaction."""
        fault = self.fault(producer_id, epoch)
        if fault is not None:
            return AnsweredAtOnce(fault)
        if self.pending is not None:
            return AnsweredAtOnce(ErrorCode.CONCURRENT_TRANSACTIONS)
        current = self.current
        wanted = TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT
        done = TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT
        if current.state is TxnState.ONGOING:
            return Move(self._begin(replace(current, state=wanted, updated_ms=now_ms)))
        if current.state is done:
            return AnsweredAtOnce(ErrorCode.NONE)
        if current.state is wanted:
            return AnsweredAtOnce(ErrorCode.CONCURRENT_TRANSACTIONS)
        return AnsweredAtOnce(ErrorCode.INVALID_TXN_STATE)

    def time_out(self, now_ms: int) -> Fence | None:
        """Abort the open transaction of a producer that went silent, under a higher epoch."""
        current = self.current
        if self.pending is not None or current.state is not TxnState.ONGOING:
            return None
        if now_ms - current.started_ms < current.timeout_ms:
            return None
        return self._fence(now_ms)

    def _fence(self, now_ms: int) -> Fence:
        # The higher epoch goes into the markers, so that whatever the old producer still sends is
        # refused by every partition from then on.
        aborted = replace(
            self.current,
            state=TxnState.PREPARE_ABORT,
            epoch=min(self.current.epoch + 1, EPOCH_MAX),
            updated_ms=now_ms,
        )
        return Fence(self._begin(aborted))

    def complete(self, now_ms: int) -> Move:
        """All markers are written."""
        done = {
            TxnState.PREPARE_COMMIT: TxnState.COMPLETE_COMMIT,
            TxnState.PREPARE_ABORT: TxnState.COMPLETE_ABORT,
        }[self.current.state]
        return Move(
            self._begin(
                replace(self.current, state=done, partitions=frozenset(), updated_ms=now_ms)
            )
        )

    def is_expired(self, now_ms: int, retention_ms: int) -> bool:
        """Whether nobody has used the id for so long that it may be forgotten."""
        idle = self.current.state is TxnState.EMPTY or self.current.state in _ENDED
        return idle and self.pending is None and now_ms - self.current.updated_ms >= retention_ms

    def fault(self, producer_id: int, epoch: int) -> ErrorCode | None:
        """The reason why this producer may not use the id."""
        if producer_id != self.current.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != self.current.epoch:
            return ErrorCode.PRODUCER_FENCED
        return None


def first(transactional_id: str, *, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A transactional id that nobody has used before."""
    return Transaction(
        id=transactional_id,
        producer_id=producer_id,
        epoch=-1,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )
