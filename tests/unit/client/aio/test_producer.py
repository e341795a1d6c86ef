"""A producer that gives up says why it had to wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from klamm.client.aio.deadline import Deadline
from klamm.client.aio.producer import Producer
from klamm.client.errors import DeadlineExceeded
from klamm.model.errors import ErrorCode, RequestRefused


class Cluster:
    """One that knows no topic, and answers so often."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        topic = SimpleNamespace(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions={})
        self.picture = SimpleNamespace(topics={"t": topic})

    def deadline(self, timeout_s: float) -> Deadline:
        return Deadline.after(timeout_s)

    async def refresh(self, *_: object, **__: object) -> Any:
        if self._answers == 0:
            raise DeadlineExceeded("nobody answered in time")
        self._answers -= 1
        return self.picture


@pytest.mark.parametrize(("answers", "reason"), [(0, DeadlineExceeded), (1, RequestRefused)])
async def test_what_was_answered_counts_more_than_the_time_that_ran_out(
    answers: int, reason: type[Exception]
) -> None:
    client: Any = Cluster(answers)
    async with Producer(client, idempotent=False, create_topics=False) as producer:
        with pytest.raises(reason):
            await producer.send("t", b"x")
