"""A broker's seat in the cluster: its name there, its session with the store, its registration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from klamm.broker.identity.identity import Identity
from klamm.broker.net.proof import ClusterSecret
from klamm.model.brokers import Endpoint
from klamm.model.errors import Refused
from klamm.model.names import BrokerId
from klamm.security.listeners.config import ListenerConfig
from klamm.store.port import Session


class Doors(Protocol):
    """The listeners of a broker, as far as they change while it runs."""

    async def fault(self, own: Mapping[str, str]) -> Refused | None:
        """The reason why this broker cannot have these settings of its own."""
        ...

    def look_again(self) -> None:
        """Settings or files may have changed."""
        ...


@dataclass(slots=True, kw_only=True)
class Seat:
    """Everything about one broker that changes when it registers anew, and what that is about."""

    id: BrokerId
    rack: str | None
    cluster_id: str
    secret: ClusterSecret
    session: Session
    listeners: ListenerConfig
    identity: Identity
    doors: Doors | None = None  # once the listeners are up
    endpoints: tuple[Endpoint, ...] = ()  # to hand out, once the listeners are up
    epoch: int = -1  # of the registration; -1 before the first

    @property
    def endpoint(self) -> Endpoint:
        """The address at which other brokers reach this one."""
        name = self.listeners.inter_broker
        return next(endpoint for endpoint in self.endpoints if endpoint.listener == name)
