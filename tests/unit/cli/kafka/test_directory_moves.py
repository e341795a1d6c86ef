"""Moves between directories, in the words of Kafka's tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from klamm.cli.kafka.directory_moves import (
    LogPlace,
    MovedReplica,
    MoveRefused,
    TooLate,
    is_over,
    start,
    targets_of,
    verdict,
)
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

ZERO = TopicPartition("t", 0)
REPLICA = MovedReplica(ZERO, 2)


@pytest.mark.parametrize(
    ("place", "line", "over"),
    [
        (
            LogPlace(),
            "Partition t-0 is not found in any live log dir on broker 2. There is likely an offline"
            " log directory on the broker.",
            False,
        ),
        (LogPlace("/a"), "Reassignment of replica t-0-2 completed successfully.", True),
        (
            LogPlace("/b"),
            "Partition t-0 on broker 2 is not being moved from log dir /b to /a.",
            True,
        ),
        (LogPlace("/b", "/a"), "Reassignment of replica t-0-2 is still in progress.", False),
        (
            LogPlace("/b", "/c"),
            "Partition t-0 on broker 2 is being moved to log dir /c instead of /a.",
            False,
        ),
    ],
)
def test_a_verdict(place: LogPlace, line: str, over: bool) -> None:
    assert verdict(REPLICA, "/a", place) == line
    assert is_over(place) is over


def test_targets() -> None:
    assert targets_of({2: {ZERO: "/a"}, 3: {ZERO: "/b"}}) == {
        REPLICA: "/a",
        MovedReplica(ZERO, 3): "/b",
    }


class Answers:
    """Brokers that answer in turn what they are told to, and the last again and again."""

    def __init__(self, *codes: ErrorCode) -> None:
        self._codes = list(codes)

    async def alter_log_dirs(
        self, broker: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ErrorCode]:
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        return dict.fromkeys(wanted, code)


async def started(brokers: Any, timeout_ms: int) -> list[str]:
    return await start(brokers, {REPLICA: "/a"}, timeout_ms)


async def test_a_replica_that_comes_later_is_moved_then() -> None:
    brokers = Answers(ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NONE)
    line = "Successfully started moving log directory to /a for replica t-0 with broker 2 "
    assert await started(brokers, 30_000) == [line]


async def test_the_timeout_ends_it() -> None:
    words = "Timed out before log directory move could be started for: t-0-2"
    with pytest.raises(TooLate, match=words):
        await started(Answers(ErrorCode.REPLICA_NOT_AVAILABLE), 1)


async def test_a_refusal_ends_it() -> None:
    with pytest.raises(MoveRefused, match="Failed to alter dir for t-0-2: LOG_DIR_NOT_FOUND"):
        await started(Answers(ErrorCode.LOG_DIR_NOT_FOUND), 30_000)
