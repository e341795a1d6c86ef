"""The checker finds what was planted, and nothing in a good history."""

from __future__ import annotations

from history import Acked, Stored, check

T0 = ("t", 0)


def history() -> tuple[list[Acked], dict[tuple[str, int], dict[int, list[Stored]]]]:
    acked = [Acked("p", i, T0, i, b"%d" % i) for i in range(6)]
    records = [Stored(i, b"%d" % i) for i in range(6)]
    return acked, {T0: {0: list(records), 1: list(records)}}


def test_good_history_has_no_fault() -> None:
    assert check(*history()) == []


def test_record_that_was_never_acknowledged_is_no_fault() -> None:
    acked, logs = history()
    assert check(acked[:3], logs) == []


def test_planted_loss_is_found() -> None:
    acked, logs = history()
    del logs[T0][1][2]
    (fault,) = check(acked, logs)
    assert fault == "t-0 on broker 1: lost b'2' of p, acknowledged at offset 2"


def test_lost_partition_is_found() -> None:
    acked, _ = history()
    assert check(acked, {}) == ["t-0: no replica at all"]


def test_planted_duplicate_is_found() -> None:
    acked, logs = history()
    logs[T0][0].append(Stored(6, b"2"))
    faults = check(acked, logs)
    assert "t-0 on broker 0: b'2' is there twice, at offsets 2 and 6" in faults


def test_planted_reorder_is_found() -> None:
    acked, logs = history()
    swapped = [
        Acked(
            "p",
            3 if a.sequence == 2 else 2 if a.sequence == 3 else a.sequence,
            a.partition,
            a.offset,
            a.value,
        )
        for a in acked
    ]
    assert check(swapped, logs) == [
        f"t-0 on broker {broker}: b'3' stands behind a later one of p" for broker in (0, 1)
    ]


def test_file_out_of_order_is_found() -> None:
    acked, logs = history()
    records = logs[T0][0]
    records[2], records[3] = records[3], records[2]
    assert "t-0 on broker 0: offset 2 stands behind 3" in check(acked, logs)


def test_replicas_that_differ_are_found() -> None:
    acked, logs = history()
    logs[T0][1][5] = Stored(5, b"other")
    assert "t-0: brokers 0 and 1 differ at offset 5" in check(acked[:5], logs)
