"""Replication throttles: how fast replicas that are being moved may be copied.

A topic names its throttled replicas, once for those that lead and once for those that follow; a
broker has a rate for each of the two. Only a replica that lags behind is held back: one in sync
must stay in sync. A partition over the rate is left out for a while, and others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.broker.quotas.quotas import Meter
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.settings import BrokerSettings, TopicSettings

_ALL: Final = "*"


class Rate:
    """Bytes a second, measured over a few windows."""

    def __init__(
        self,
        rate_setting: str,
        elapsed_ms: Callable[[], int],
        *,
        window_setting: str = "replication.quota.window.size.seconds",
        windows_setting: str = "replication.quota.window.num",
    ) -> None:
        self._rate_setting = rate_setting
        self._window_setting = window_setting
        self._windows_setting = windows_setting
        self._elapsed_ms = elapsed_ms
        self._rate = 0
        self._meter = Meter(1000, 11)

    def take_rate(self, settings: BrokerSettings) -> None:
        """The broker's settings are these now."""
        self._rate = settings.int(self._rate_setting)
        window_ms = settings.int(self._window_setting) * 1000
        windows = settings.int(self._windows_setting)
        if (window_ms, windows) != (self._meter.window_ms, self._meter.windows):
            self._meter = Meter(window_ms, windows)

    def at_once(self, size: int) -> int:
        """The bytes to copy in one go, at most a second's worth."""
        return max(1, min(size, self._rate))

    def count(self, size: int) -> None:
        """So many bytes were copied."""
        self._meter.record(size, self._elapsed_ms())

    def wait_ms(self) -> int:
        """The time that copying has to wait now."""
        # Never longer than what is measured: by then the rate may be another one.
        longest_ms = self._meter.window_ms * self._meter.windows
        if self._rate == 0:
            return longest_ms
        return min(self._meter.wait_ms(self._rate, self._elapsed_ms()), longest_ms)


class Throttle(Rate):
    """The throttled replicas of one broker in one direction."""

    def __init__(
        self,
        rate_setting: str,
        replicas_setting: str,
        broker: BrokerId,
        elapsed_ms: Callable[[], int],
    ) -> None:
        super().__init__(rate_setting, elapsed_ms)
        self._replicas_setting = replicas_setting
        self._broker = broker
        self._topics: dict[str, frozenset[int] | None] = {}  # partitions; None for all of them

    def take_topic(self, topic: str, settings: TopicSettings) -> None:
        """A topic's settings are these now."""
        items = settings.list(self._replicas_setting)
        mine = f":{self._broker}"
        partitions = frozenset(int(i.partition(":")[0]) for i in items if i.endswith(mine))
        if _ALL in items:
            self._topics[topic] = None
        elif partitions:
            self._topics[topic] = partitions
        else:
            self._topics.pop(topic, None)

    def covers(self, topic_partition: TopicPartition) -> bool:
        """Whether this replica is throttled; asked for every fetch, so quick to say no."""
        if not self._topics or topic_partition.topic not in self._topics:
            return False
        partitions = self._topics[topic_partition.topic]
        return partitions is None or topic_partition.partition in partitions


class Throttles:
    """Both directions, and from one directory of a broker to another."""

    def __init__(self, broker: BrokerId, elapsed_ms: Callable[[], int]) -> None:
        self.leader: Final = Throttle(
            "leader.replication.throttled.rate",
            "leader.replication.throttled.replicas",
            broker,
            elapsed_ms,
        )
        self.follower: Final = Throttle(
            "follower.replication.throttled.rate",
            "follower.replication.throttled.replicas",
            broker,
            elapsed_ms,
        )
        self.directories: Final = Rate(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            elapsed_ms,
            window_setting="alter.log.dirs.replication.quota.window.size.seconds",
            windows_setting="alter.log.dirs.replication.quota.window.num",
        )

    def take_rate(self, settings: BrokerSettings) -> None:
        self.leader.take_rate(settings)
        self.follower.take_rate(settings)
        self.directories.take_rate(settings)

    def take_topic(self, topic: str, settings: TopicSettings) -> None:
        self.leader.take_topic(topic, settings)
        self.follower.take_topic(topic, settings)
