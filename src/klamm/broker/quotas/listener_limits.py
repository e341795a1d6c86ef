"""Limits the connections of one listener, beside those of its broker."""

from __future__ import annotations

from collections.abc import Callable

from klamm.broker.net.welcome import Welcome
from klamm.broker.quotas.connection_limits import ConnectionLimits
from klamm.broker.quotas.quotas import NO_RATE, Quotas
from klamm.model.settings import BrokerSettings


class ListenerLimits:
    """The limits of one listener: the broker's, and its own under `listener.name.<l>.`.

    The listener between brokers is not held to the broker's `max.connections`, where there are
    others, as in Kafka: a crowd of clients does not keep brokers out, whatever their kind.
    """

    def __init__(
        self,
        broker: ConnectionLimits,
        listener: str,
        quotas: Quotas,
        settings: Callable[[], BrokerSettings],
        *,
        is_protected: bool = False,
    ) -> None:
        self._broker = broker
        self._listener = listener
        self._quotas = quotas
        self._settings = settings
        self._is_protected = is_protected
        self._count = 0

    @property
    def room(self) -> int:
        """The number of connections that it still takes."""
        own = self._own("max.connections") - self._count
        return own if self._is_protected else min(own, self._broker.room)

    def joined(self, address: str) -> Welcome:
        """One more is let in; say what becomes of it."""
        self._count += 1
        welcome = self._broker.joined(address)
        rate = self._own("max.connection.creation.rate")
        wait_ms = self._quotas.connection_wait_ms(rate, self._settings(), self._listener)
        if not welcome.is_served:
            return welcome
        return Welcome(after_ms=max(welcome.after_ms, wait_ms))

    def left(self, address: str) -> None:
        self._count -= 1
        self._broker.left(address)

    def _own(self, name: str) -> int:
        """The limit of this listener alone; none where it is not set for it."""
        origins = self._settings().origins(f"listener.name.{self._listener.lower()}.{name}")
        return int(origins[0].text or NO_RATE) if origins else NO_RATE
