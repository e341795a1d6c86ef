"""Records that wait: each reason is said once, and a move of a leader is not worth a line."""

from __future__ import annotations

import pytest

from klamm.cli.records.troubles import Telling
from klamm.client.aio.producer import Trouble
from klamm.model.names import TopicPartition

TP = TopicPartition("orders", 1)


def test_a_full_disk_is_told_at_once_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    telling = Telling()
    for lasting_s in (0.0, 5.0):
        telling.hear(Trouble(TP, "KAFKA_STORAGE_ERROR", lasting_s, 30 - lasting_s))
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "klamm: orders-1 takes no records: the disk of its leader is full or has failed (free "
        "some space and start that broker again); trying for 30 s more (klamm status shows what "
        "is wrong)"
    ]


def test_a_leader_that_moves_is_told_when_it_takes_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    telling = Telling()
    telling.hear(Trouble(TP, "NOT_LEADER_OR_FOLLOWER", 0.5, 29))
    assert capsys.readouterr().err == ""
    telling.hear(Trouble(TP, "NOT_LEADER_OR_FOLLOWER", 2.5, 27))
    assert "takes no records: NOT_LEADER_OR_FOLLOWER; trying for 27 s" in capsys.readouterr().err


def test_what_is_given_up_anyway_is_left_to_the_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Telling().hear(Trouble(TP, "no broker answers", 30, 0))
    assert capsys.readouterr().err == ""
