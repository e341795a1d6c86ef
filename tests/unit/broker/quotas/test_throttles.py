"""Replication throttles: which replicas, and how long they wait."""

from __future__ import annotations

import pytest

from klamm.broker.quotas.throttles import Throttles
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.settings import BrokerSettings
from unit.broker.admin_host import HandClock

SETTINGS = BrokerSettings.parse({})
WINDOW = {"replication.quota.window.num": "2", "replication.quota.window.size.seconds": "1"}


@pytest.mark.parametrize(
    ("replicas", "covered"),
    [("", []), ("*", [0, 1, 2]), ("0:7,2:7,1:8", [0, 2]), ("1:77,1:17", [])],
)
def test_a_broker_knows_its_own_throttled_replicas(replicas: str, covered: list[int]) -> None:
    throttles = Throttles(BrokerId(7), HandClock().elapsed_ms)
    topic = SETTINGS.for_topic({"leader.replication.throttled.replicas": replicas})
    throttles.take_topic("t", topic)
    found = [n for n in range(3) if throttles.leader.covers(TopicPartition("t", n))]
    assert found == covered
    assert not throttles.leader.covers(TopicPartition("u", 0))
    assert not throttles.follower.covers(TopicPartition("t", 0))
    throttles.take_topic("t", SETTINGS.for_topic({}))
    assert not throttles.leader.covers(TopicPartition("t", 0))


def test_copying_waits_until_it_is_back_at_its_rate() -> None:
    clock = HandClock()
    throttles = Throttles(BrokerId(7), clock.elapsed_ms)
    throttles.take_rate(
        BrokerSettings.parse({**WINDOW, "follower.replication.throttled.rate": "1000"})
    )
    throttles.follower.count(1000)
    assert throttles.follower.wait_ms() == 0
    throttles.follower.count(500)
    assert throttles.follower.wait_ms() == 500
    clock.ms += 500
    assert throttles.follower.wait_ms() <= 500
    # The other direction has a rate of its own, which is not limited.
    throttles.leader.count(10**9)
    assert throttles.leader.wait_ms() == 0


def test_a_rate_of_nothing_waits_and_asks_again() -> None:
    throttles = Throttles(BrokerId(7), HandClock().elapsed_ms)
    nothing = BrokerSettings.parse({**WINDOW, "leader.replication.throttled.rate": "0"})
    throttles.take_rate(nothing)
    assert throttles.leader.wait_ms() == 2000
