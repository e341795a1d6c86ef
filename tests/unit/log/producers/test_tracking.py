"""Idempotence and transactions, as one log sees them."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from klamm.log.partition import PartitionLog
from klamm.log.producers.bounding import bound_producers
from klamm.log.producers.history import ProducerHistory
from klamm.log.producers.tracking import ProducerStates
from klamm.log.segments.transactions import TransactionIndex
from klamm.log.writing.append import Appended, AppendRefused
from klamm.model.errors import ErrorCode
from klamm.protocol.batch import ControlKind, encode_control_batch
from unit.log.helpers import T0, append, batch, try_append

MakeLog = Callable[..., PartitionLog]
SEQUENCE_MAX = 2**31 - 1


@pytest.fixture
def log(make_log: MakeLog) -> PartitionLog:
    return make_log()


def write(
    log: PartitionLog,
    sequence: int,
    *,
    count: int = 1,
    producer_epoch: int = 0,
    producer_id: int = 1,
    transactional: bool = False,
    now_ms: int = T0,
) -> Appended | AppendRefused:
    data = batch(
        *[b"v"] * count,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    return try_append(log, data, now_ms=now_ms)


def end(
    log: PartitionLog,
    kind: ControlKind,
    *,
    producer_id: int = 1,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
) -> Appended | AppendRefused:
    marker = encode_control_batch(
        kind,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=T0,
    )
    return try_append(log, memoryview(bytearray(marker)), from_client=False)


def code(outcome: Appended | AppendRefused) -> ErrorCode:
    return outcome.code if isinstance(outcome, AppendRefused) else ErrorCode.NONE


def test_a_retry_of_one_of_the_last_five_is_answered_as_before(log: PartitionLog) -> None:
    for number in range(6):
        write(log, number * 2, count=2)
    end_before = log.log_end_offset
    for number in range(1, 6):
        outcome = write(log, number * 2, count=2)
        assert outcome == Appended(number * 2, number * 2 + 1, 0, is_duplicate=True)
    assert log.log_end_offset == end_before
    assert code(write(log, 0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_half_of_an_earlier_batch_is_no_retry(log: PartitionLog) -> None:
    write(log, 0, count=4)
    assert code(write(log, 0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(write(log, 2, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("sequence", [0, 1, 3, 4, SEQUENCE_MAX])
def test_a_gap_is_refused(log: PartitionLog, sequence: int) -> None:
    write(log, 0, count=2)
    assert code(write(log, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere(log: PartitionLog) -> None:
    assert code(write(log, 40)) is ErrorCode.NONE
    assert code(write(log, 41)) is ErrorCode.NONE


@pytest.mark.parametrize(("first", "count"), [(SEQUENCE_MAX, 1), (SEQUENCE_MAX - 1, 2)])
def test_sequences_wrap(log: PartitionLog, first: int, count: int) -> None:
    write(log, first, count=count)
    assert code(write(log, 0)) is ErrorCode.NONE
    assert write(log, first, count=count).is_duplicate


def test_a_batch_may_wrap_inside(log: PartitionLog) -> None:
    write(log, SEQUENCE_MAX - 1, count=4)
    assert log.producers.by_id[1].last_sequence == 1
    assert code(write(log, 2)) is ErrorCode.NONE


def test_an_older_epoch_is_fenced(log: PartitionLog) -> None:
    write(log, 0, producer_epoch=3)
    assert code(write(log, 1, producer_epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_begins_at_zero(log: PartitionLog) -> None:
    write(log, 0, count=5)
    refused = write(log, 5, producer_epoch=1)
    assert code(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(write(log, 0, producer_epoch=1)) is ErrorCode.NONE
    assert not write(log, 1, producer_epoch=1).is_duplicate
    assert code(write(log, 0, count=5)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_append_time_of_a_retry_is_the_first_one(make_log: MakeLog) -> None:
    log = make_log(log_append_time=True)
    first = write(log, 0, now_ms=T0 + 1)
    again = write(log, 0, now_ms=T0 + 99)
    assert first.log_append_time_ms == again.log_append_time_ms == T0 + 1


def test_nothing_but_the_transaction_while_one_is_open(log: PartitionLog) -> None:
    write(log, 0, transactional=True)
    assert code(write(log, 1)) is ErrorCode.INVALID_TXN_STATE
    assert code(write(log, 1, transactional=True)) is ErrorCode.NONE
    end(log, ControlKind.COMMIT)
    assert code(write(log, 2)) is ErrorCode.NONE


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(log: PartitionLog) -> None:
    append(log, b"plain")
    write(log, 0, producer_id=1, transactional=True)
    write(log, 0, producer_id=2, transactional=True)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    end(log, ControlKind.COMMIT, producer_id=1)
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 2
    end(log, ControlKind.ABORT, producer_id=2)
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5


def test_a_marker_above_the_high_watermark_decides_nothing_yet(log: PartitionLog) -> None:
    write(log, 0, transactional=True)
    end(log, ControlKind.COMMIT)
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_the_last_stable_offset_is_never_above_the_high_watermark(log: PartitionLog) -> None:
    append(log, b"a", b"b")
    write(log, 0, transactional=True)
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 1


def test_aborted_transactions_are_listed_where_they_matter(log: PartitionLog) -> None:
    write(log, 0, producer_id=1, transactional=True)  # 0
    write(log, 0, producer_id=2, transactional=True)  # 1
    end(log, ControlKind.ABORT, producer_id=2)  # 2
    log.roll()
    write(log, 1, producer_id=1, transactional=True)  # 3
    end(log, ControlKind.ABORT, producer_id=1)  # 4
    write(log, 2, producer_id=1, transactional=True)  # 5
    end(log, ControlKind.COMMIT, producer_id=1)  # 6
    assert log.aborted_transactions(0, 7) == [(1, 0, 4, 5), (2, 1, 2, 0)]
    assert log.aborted_transactions(3, 7) == [(1, 0, 4, 5)]
    assert log.aborted_transactions(5, 7) == []
    assert [a.producer_id for a in log.aborted_transactions(0, 1)] == [1]


def test_an_abort_is_known_before_its_file_can_be_written(log: PartitionLog) -> None:
    write(log, 0, transactional=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        end(log, ControlKind.ABORT)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    known = log.aborted_transactions(0, 2)
    assert len(known) == 1
    log.flush()
    assert TransactionIndex(log.segments.active.aborted.path, log.pool).entries() == known


def test_an_empty_transaction_leaves_nothing_to_filter(log: PartitionLog) -> None:
    end(log, ControlKind.ABORT)
    assert log.aborted_transactions(0, 10) == []
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 1


def test_a_marker_of_an_older_producer_epoch_is_refused(log: PartitionLog) -> None:
    write(log, 0, producer_epoch=5, transactional=True)
    refused = end(log, ControlKind.ABORT, producer_epoch=4)
    assert code(refused) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_an_older_coordinator_is_refused(log: PartitionLog) -> None:
    write(log, 0, transactional=True)
    end(log, ControlKind.COMMIT, coordinator_epoch=8)
    refused = end(log, ControlKind.COMMIT, coordinator_epoch=7)
    assert code(refused) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_with_a_newer_epoch_fences_the_producer(log: PartitionLog) -> None:
    write(log, 0, transactional=True)
    end(log, ControlKind.ABORT, producer_epoch=1)
    assert code(write(log, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    refused = write(log, 1, producer_epoch=1)
    assert code(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(write(log, 0, producer_epoch=1)) is ErrorCode.NONE


def test_a_coordinator_writes_without_sequences(log: PartitionLog) -> None:
    options = {"producer_id": 1, "producer_epoch": 2, "is_transactional": True}
    assert code(try_append(log, batch(b"x", **options), from_client=False)) is ErrorCode.NONE
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 0
    options["producer_epoch"] = 1
    refused = try_append(log, batch(b"x", **options), from_client=False)
    assert code(refused) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_silent_producers_are_forgotten_unless_they_have_something_open(
    log: PartitionLog,
) -> None:
    write(log, 0, producer_id=1)
    write(log, 0, producer_id=2, transactional=True)
    assert log.expire_producers(T0) == 0
    assert log.expire_producers(T0 + 1) == 1
    assert set(log.producers.by_id) == {2}


def test_truncation_takes_the_producers_back(log: PartitionLog) -> None:
    for number in range(4):
        write(log, number)
        log.roll()
    write(log, 4, transactional=True)
    log.truncate_to(2)
    assert log.producers.by_id[1].last_sequence == 1
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2
    assert code(write(log, 2)) is ErrorCode.NONE


def test_a_marker_makes_guards_worthless(log: PartitionLog) -> None:
    asked = log.producers.guard(1, 0)
    assert asked is not None
    assert log.producers.guard(1, 0) is asked
    assert log.producers.admits(1, asked)
    end(log, ControlKind.ABORT)
    assert not log.producers.admits(1, asked)
    again = log.producers.guard(1, 0)
    assert again is not asked


def test_an_open_transaction_needs_no_guard(log: PartitionLog) -> None:
    write(log, 0, transactional=True)
    assert log.producers.guard(1, 0) is None
    assert log.producers.guard(1, 1) is not None, "another epoch is another transaction"
    end(log, ControlKind.COMMIT)
    assert log.producers.guard(1, 0) is not None


def test_guards_that_nobody_came_back_with_are_forgotten(log: PartitionLog) -> None:
    asked = log.producers.guard(1, 0)
    assert asked is not None
    log.expire_producers(0)
    assert log.producers.admits(1, asked)
    log.expire_producers(0)
    assert not log.producers.admits(1, asked)


def test_beyond_a_bound_the_log_with_the_most_forgets_those_silent_longest(
    log: PartitionLog,
) -> None:
    write(log, 0, producer_id=1, transactional=True)
    for producer in range(2, 12):
        write(log, 0, producer_id=producer)
    write(log, 1, producer_id=2)
    small = ProducerStates()
    small.wrote(1, 0, 0, 0, 0, T0, False)
    other = ProducerHistory(log.history.snapshots, log.replay)
    other.know(small)
    assert bound_producers([log.history, other], 12) == 0
    assert bound_producers([log.history, other], 11) == 6
    assert set(log.producers.by_id) == {1, 2, 9, 10, 11}
    assert set(small.by_id) == {1}
    assert code(write(log, 1, producer_id=3)) is ErrorCode.NONE, "it writes on"
