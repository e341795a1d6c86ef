"""A broker's seat in the cluster: its name there, its session with the store, its registration."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.broker.net.proof import Secret
from klamm.model.brokers import Endpoint
from klamm.model.names import BrokerId
from klamm.store.port import Session


@dataclass(slots=True, kw_only=True)
class Seat:
    """Everything about one broker that changes when it registers anew, and what that is about."""

    id: BrokerId
    rack: str | None
    cluster_id: str
    secret: Secret
    session: Session
    endpoint: Endpoint  # as asked for; as it is once the listener is up
    epoch: int = -1  # of the registration; -1 before the first
