"""One transactional id, move by move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.groups.transactions import (
    EPOCH_MAX,
    MOVES,
    AnsweredAtOnce,
    Fence,
    Move,
    TransactionalId,
    TxnState,
    first,
)
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def fresh() -> TransactionalId:
    return TransactionalId(first("x", producer_id=7, timeout_ms=1_000, now_ms=0))


def initialised() -> TransactionalId:
    txn = fresh()
    assert isinstance(start(txn), Move)
    txn.confirm(durable=True)
    return txn


def start(
    txn: TransactionalId, producer_id: int = -1, epoch: int = -1, now_ms: int = 1
) -> Move | Fence | AnsweredAtOnce:
    return txn.initialise(
        timeout_ms=1_000, producer_id=producer_id, epoch=epoch, fresh_producer_id=8, now_ms=now_ms
    )


def add(txn: TransactionalId, *partitions: TopicPartition, epoch: int = 0) -> Move | AnsweredAtOnce:
    return txn.add_partitions(producer_id=7, epoch=epoch, partitions=partitions, now_ms=2)


def end(txn: TransactionalId, *, commit: bool = True, epoch: int = 0) -> Move | AnsweredAtOnce:
    return txn.end(producer_id=7, epoch=epoch, commit=commit, now_ms=3)


def opened() -> TransactionalId:
    txn = initialised()
    add(txn, T0)
    txn.confirm(durable=True)
    return txn


def test_new_id_starts_with_epoch_zero() -> None:
    current = initialised().current
    assert (current.producer_id, current.epoch, current.state) == (7, 0, TxnState.EMPTY)


def test_every_start_raises_the_epoch() -> None:
    txn = initialised()
    start(txn)
    assert txn.confirm(durable=True).epoch == 1


def test_exhausted_epoch_gets_a_new_producer_id() -> None:
    txn = fresh()
    object.__setattr__(txn.current, "epoch", EPOCH_MAX - 1)
    start(txn)
    current = txn.confirm(durable=True)
    assert (current.producer_id, current.epoch) == (8, 0)


def test_client_whose_answer_was_lost_gets_the_same_epoch_again() -> None:
    txn = initialised()
    start(txn, 7, 0)
    txn.confirm(durable=True)
    start(txn, 7, 0)
    assert txn.confirm(durable=True).epoch == 1


def test_stranger_is_fenced() -> None:
    assert start(initialised(), 7, 5) == AnsweredAtOnce(ErrorCode.PRODUCER_FENCED)


def test_start_over_an_open_transaction_aborts_it_under_a_higher_epoch() -> None:
    txn = opened()
    decided = start(txn)
    assert isinstance(decided, Fence)
    assert (decided.to.state, decided.to.epoch) == (TxnState.PREPARE_ABORT, 1)
    assert decided.to.partitions == {T0}
    assert start(txn) == AnsweredAtOnce(ErrorCode.CONCURRENT_TRANSACTIONS)


def test_partitions_are_collected() -> None:
    txn = opened()
    assert isinstance(add(txn, T1), Move)
    assert txn.confirm(durable=True).partitions == {T0, T1}


def test_known_partition_needs_no_record() -> None:
    assert add(opened(), T0) == AnsweredAtOnce(ErrorCode.NONE)


def test_record_that_could_not_be_written_changes_nothing() -> None:
    txn = initialised()
    add(txn, T0)
    assert txn.confirm(durable=False).state is TxnState.EMPTY
    assert txn.pending is None


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [
        (6, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (7, 1, ErrorCode.PRODUCER_FENCED),
        (7, -1, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_wrong_producer_is_refused(producer_id: int, epoch: int, error: ErrorCode) -> None:
    txn = opened()
    added = txn.add_partitions(producer_id=producer_id, epoch=epoch, partitions=[T1], now_ms=2)
    ended = txn.end(producer_id=producer_id, epoch=epoch, commit=True, now_ms=2)
    assert (added, ended) == (AnsweredAtOnce(error), AnsweredAtOnce(error))


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_ends_in_two_steps(commit: bool) -> None:
    txn = opened()
    end(txn, commit=commit)
    prepared = txn.confirm(durable=True)
    assert prepared.state is (TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT)
    assert prepared.partitions == {T0}
    assert end(txn, commit=commit) == AnsweredAtOnce(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert end(txn, commit=not commit) == AnsweredAtOnce(ErrorCode.INVALID_TXN_STATE)
    txn.complete(4)
    done = txn.confirm(durable=True)
    assert done.state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)
    assert done.partitions == frozenset()
    assert end(txn, commit=commit) == AnsweredAtOnce(ErrorCode.NONE)
    assert end(txn, commit=not commit) == AnsweredAtOnce(ErrorCode.INVALID_TXN_STATE)


def test_transaction_that_was_never_opened_cannot_end() -> None:
    assert end(initialised()) == AnsweredAtOnce(ErrorCode.INVALID_TXN_STATE)


def test_next_transaction_starts_with_its_own_partitions() -> None:
    txn = opened()
    end(txn)
    txn.confirm(durable=True)
    txn.complete(4)
    txn.confirm(durable=True)
    add(txn, T1)
    assert txn.confirm(durable=True).partitions == {T1}


def test_silent_producer_is_fenced_when_its_time_is_over() -> None:
    txn = opened()
    assert txn.time_out(1_001) is None
    decided = txn.time_out(1_002)
    assert isinstance(decided, Fence)
    assert txn.confirm(durable=True).epoch == 1
    assert end(txn) == AnsweredAtOnce(ErrorCode.PRODUCER_FENCED)


def test_partitions_are_verified_only_while_their_transaction_is_open() -> None:
    def verdict(txn: TransactionalId, producer_id: int = 7, epoch: int = 0) -> list[ErrorCode]:
        asked = txn.verify(producer_id=producer_id, epoch=epoch, partitions=[T0, T1])
        return list(asked.values())

    idle, unknown = initialised(), ErrorCode.INVALID_TXN_STATE
    assert verdict(idle) == [unknown, unknown]
    txn = opened()
    assert T0 in txn.current.partitions
    assert verdict(txn) == [ErrorCode.NONE, unknown]
    assert verdict(txn, producer_id=8) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert verdict(txn, epoch=1) == [ErrorCode.PRODUCER_FENCED] * 2
    add(txn, T1)
    assert verdict(txn) == [ErrorCode.NONE, unknown], "what is being added is not yet part of it"
    txn.confirm(durable=True)
    assert verdict(txn) == [ErrorCode.NONE, ErrorCode.NONE]
    # From the decision to end it until that is complete its markers may already be there.
    end(txn, commit=True)
    assert verdict(txn) == [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    txn.confirm(durable=True)
    assert verdict(txn) == [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    txn.complete(20)
    assert verdict(txn) == [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    txn.confirm(durable=True)
    assert verdict(txn) == [unknown, unknown]


def test_unused_id_expires() -> None:
    txn = initialised()
    assert not txn.is_expired(10, retention_ms=10)
    assert txn.is_expired(11, retention_ms=10)
    assert not opened().is_expired(10_000, retention_ms=10)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["start", "add", "commit", "abort", "complete", "time_out", "fail"]),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_no_sequence_of_requests_makes_an_illegal_move(steps: list[tuple[str, int]]) -> None:
    txn = initialised()
    now = 10
    for step, epoch in steps:
        before = txn.current
        now += 500
        match step:
            case "start":
                start(txn, now_ms=now)
            case "add":
                add(txn, T0, epoch=epoch)
            case "commit" | "abort":
                end(txn, commit=step == "commit", epoch=epoch)
            case "time_out":
                txn.time_out(now)
            case "complete" if before.state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT):
                txn.complete(now)
        if txn.pending is not None:
            txn.confirm(durable=step != "fail")
        after = txn.current
        assert after == before or after.state in MOVES[before.state]
        assert (after.producer_id, after.epoch) >= (before.producer_id, before.epoch)
