"""Limits the connections of a broker, and the rate of new ones.

Who finds the broker full waits until somebody leaves, as it would in front of a Kafka that accepts
nobody then; who comes over its address's share is closed at once. Who comes too fast for the broker
waits before it is served; who comes too fast for its address (KIP-612) waits and is closed, for it
would otherwise be back at once. All limits are read when somebody comes or leaves, so a change of
them counts from the next on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from klamm.broker.net.welcome import Welcome
from klamm.broker.quotas.quotas import Quotas
from klamm.model.settings import BrokerSettings


class ConnectionLimits:
    """Counts the connections of one broker."""

    def __init__(self, quotas: Quotas, settings: Callable[[], BrokerSettings]) -> None:
        self._quotas = quotas
        self._settings = settings
        self._by_address: Counter[str] = Counter()

    @property
    def room(self) -> int:
        """The number of connections the broker still takes; negative if a change left too many."""
        return self._settings().int("max.connections") - self._by_address.total()

    def joined(self, address: str) -> Welcome:
        """One more is let in; say what becomes of it."""
        self._by_address[address] += 1
        settings = self._settings()
        own_max = per_address(settings).get(address, settings.int("max.connections.per.ip"))
        if self._by_address[address] > own_max:
            return Welcome(is_served=False)
        if self._quotas.counts_connections:
            offer = self._quotas.offer_connection(address, settings)
            if not offer.is_taken:
                return Welcome(is_served=False, after_ms=offer.wait_ms)
        rate = settings.int("max.connection.creation.rate")
        return Welcome(after_ms=self._quotas.connection_wait_ms(rate, settings))

    def left(self, address: str) -> None:
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def per_address(settings: BrokerSettings) -> dict[str, int]:
    """The limits that addresses have of their own."""
    items = settings.list("max.connections.per.ip.overrides")
    return {host: int(count) for host, _, count in (item.rpartition(":") for item in items)}
