"""The parts of a broker once its logs are open: replicas, fetchers, proposals."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.broker.ground import Ground
from klamm.broker.replicas.fetchers import Fetchers
from klamm.broker.replicas.proposals import Proposals
from klamm.broker.replicas.replicas import ReplicaManager
from klamm.broker.storage.logs import Logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting(Ground):
    """The ground, and what hosts partitions on it."""

    logs: Logs
    proposals: Proposals
    fetchers: Fetchers
    replicas: ReplicaManager
