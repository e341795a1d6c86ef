"""A batch that opens a transaction: the coordinator's word, and what the log has seen since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.broker.coordinators.transaction_openings import Opening
from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode
from klamm.protocol.batch import ControlKind, Record, encode_batch, encode_control_batch
from unit.broker.hosting import TP, Host, new_log, order

PRODUCER, EPOCH = 7, 0


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    log = new_log(tmp_path)
    partition = Partition(TP, Host())
    partition.lead(order(), log)
    yield partition
    log.close(clean=False)


def asked(partition: Partition, verdict: ErrorCode = ErrorCode.NONE) -> Opening:
    assert partition.log is not None
    guard = partition.log.producers.guard(PRODUCER, EPOCH)
    assert guard is not None
    return Opening(PRODUCER, EPOCH, guard, verdict)


def append(partition: Partition, batch: bytes, *, from_client: bool) -> None:
    partition.append(memoryview(bytearray(batch)), acks=1, version=11, from_client=from_client)


def test_a_yes_is_good_as_long_as_no_marker_came(partition: Partition) -> None:
    opening = asked(partition)
    assert opening.outcome(partition) is ErrorCode.NONE
    marker = encode_control_batch(
        ControlKind.ABORT,
        producer_id=PRODUCER,
        producer_epoch=EPOCH,
        coordinator_epoch=0,
        timestamp=1_700_000_000_000,
    )
    append(partition, marker, from_client=False)
    assert opening.outcome(partition) is ErrorCode.INVALID_TXN_STATE
    assert asked(partition).outcome(partition) is ErrorCode.NONE


def test_a_transaction_that_another_batch_opened_meanwhile_is_open(partition: Partition) -> None:
    opening = asked(partition)
    batch = encode_batch(
        [Record(0, 1_700_000_000_000, None, b"v", ())],
        producer_id=PRODUCER,
        producer_epoch=EPOCH,
        base_sequence=0,
        is_transactional=True,
    )
    append(partition, batch, from_client=True)
    assert opening.outcome(partition) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("verdict", "version", "told"),
    [
        (ErrorCode.NONE, 11, ErrorCode.NONE),
        (ErrorCode.INVALID_TXN_STATE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 9, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 11, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NETWORK_EXCEPTION, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_producers_are_told(
    partition: Partition, verdict: ErrorCode, version: int, told: ErrorCode
) -> None:
    assert asked(partition, verdict).told_to_producers(partition, version) is told
