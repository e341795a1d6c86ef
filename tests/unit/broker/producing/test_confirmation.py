"""One request with acks=all, on a real partition: what it is told, and when."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from klamm.broker.net.peer import Peer
from klamm.broker.net.promises import Alarm, Receipt
from klamm.broker.net.replies import Reply
from klamm.broker.producing.confirmation import Confirmation
from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode
from unit.broker.hosting import TP, B, C, Host, batch, new_log, order


@dataclass
class Told:
    """Notes which places failed, and how often a reply was wanted."""

    failures: list[tuple[str, ErrorCode]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def failed(self, place: str, code: ErrorCode) -> None:
        self.failures.append((place, code))

    def reply(self) -> Reply:
        self.replies.append(Reply())
        return self.replies[-1]


class Client:
    """As much of a peer as a confirmation needs."""

    def __init__(self) -> None:
        self.alarm = Alarm(asyncio.get_running_loop())


@pytest.fixture
def led(tmp_path: Path) -> Partition:
    partition = Partition(TP, Host())
    partition.lead(order(), new_log(tmp_path))
    partition.follower_fetched(B, 0, 0)
    partition.follower_fetched(C, 0, 0)
    return partition


def waiting(told: Told, *appends: tuple[Partition, str]) -> Confirmation[str]:
    confirmation = Confirmation(cast(Peer, Client()), told)
    for partition, place in appends:
        partition.append(batch(), acks=-1, version=11)
        confirmation.expect(partition, place)
    return confirmation


def kept(promise: Reply | Receipt) -> list[Reply | Exception]:
    """What the connection hears of it."""
    assert isinstance(promise, Receipt)
    heard: list[Reply | Exception] = []
    promise.then(heard.append)
    return heard


async def test_the_last_append_that_is_confirmed_makes_the_reply(led: Partition) -> None:
    told = Told()
    confirmation = waiting(told, (led, "first"), (led, "second"))
    heard = kept(confirmation.begin(60_000))
    for offset in (1, 2):
        assert heard == []
        assert not confirmation.is_over
        led.follower_fetched(B, offset, 0)
        led.follower_fetched(C, offset, 0)
    assert heard == told.replies
    assert len(heard) == 1
    assert confirmation.is_over
    assert told.failures == []


async def test_what_is_confirmed_already_is_answered_at_once(led: Partition) -> None:
    told = Told()
    confirmation = waiting(told, (led, "first"))
    led.follower_fetched(B, 1, 0)
    led.follower_fetched(C, 1, 0)
    assert [confirmation.begin(60_000)] == told.replies
    assert isinstance(Confirmation(cast(Peer, Client()), told).begin(0), Reply), (
        "nothing to wait for"
    )


async def test_each_append_that_is_late_fails_in_its_place(led: Partition) -> None:
    told = Told()
    confirmation = waiting(told, (led, "first"), (led, "second"))
    promise = confirmation.begin(1)
    assert isinstance(promise, Receipt)
    led.follower_fetched(B, 1, 0)
    led.follower_fetched(C, 1, 0)
    async with asyncio.timeout(10):
        reply = await promise.outcome()
    assert [reply] == told.replies
    assert told.failures == [("second", ErrorCode.REQUEST_TIMED_OUT)]
    led.follower_fetched(B, 2, 0)
    led.follower_fetched(C, 2, 0)
    assert len(told.replies) == 1, "it was told once"


async def test_a_leadership_that_ends_fails_what_is_open(led: Partition) -> None:
    told = Told()
    heard = kept(waiting(told, (led, "first"), (led, "second")).begin(60_000))
    led.stop()
    assert [place for place, _ in told.failures] == ["first", "second"]
    assert heard == told.replies


async def test_nobody_is_told_when_the_client_has_gone(led: Partition) -> None:
    told = Told()
    confirmation = waiting(told, (led, "first"))
    promise = confirmation.begin(60_000)
    heard = kept(promise)
    assert isinstance(promise, Receipt)
    promise.cancel()
    assert confirmation.is_over
    led.follower_fetched(B, 1, 0)
    led.follower_fetched(C, 1, 0)
    assert (heard, told.replies, told.failures) == ([], [], [])
