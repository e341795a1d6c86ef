"""The ground a broker's parts stand on: what it has before it hosts anything.

Parts are built once, in three stages, and none changes afterwards: `Ground` once the store is
reached, `Hosting` (`replicas/hosting.py`) once the logs are open, and `Parts` (`parts.py`), with
which requests are answered. Each stage has what the one before it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from klamm.broker.access.access import Access
from klamm.broker.access.lists import Lists
from klamm.broker.access.tokens import Tokens
from klamm.broker.admin.dynamic_config import DynamicConfig
from klamm.broker.clock import Clock
from klamm.broker.controller_channel import ControllerChannel
from klamm.broker.foreigners import Foreigners
from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.metrics import BrokerMetrics
from klamm.broker.net.peers import Peers
from klamm.broker.net.proof import ClusterSecret
from klamm.broker.quotas.quotas import Quotas
from klamm.broker.quotas.throttles import Throttles
from klamm.broker.seat import Seat
from klamm.broker.troubles import Troubles
from klamm.broker.workers import Workers
from klamm.log.disk.failure import StorageTrouble
from klamm.model.brokers import Endpoint
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.protocol.bounds import Bounds
from klamm.store.port import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The parts of one broker before it hosts anything."""

    seat: Seat
    data_dir: Path
    clock: Clock
    metadata: MetadataCache
    metrics: BrokerMetrics
    quotas: Quotas
    throttles: Throttles
    bounds: Bounds
    dynamic_config: DynamicConfig
    access: Access
    tokens: Tokens
    lists: Lists | None  # None where no access control lists decide
    workers: Workers
    troubles: Troubles
    peers: Peers
    foreigners: Foreigners
    channel: ControllerChannel

    @property
    def id(self) -> BrokerId:
        return self.seat.id

    @property
    def rack(self) -> str | None:
        return self.seat.rack

    @property
    def cluster_id(self) -> str:
        return self.seat.cluster_id

    @property
    def secret(self) -> ClusterSecret:
        return self.seat.secret

    @property
    def session(self) -> Session:
        """The session in use now; a new one takes its place when it expires."""
        return self.seat.session

    @property
    def endpoint(self) -> Endpoint:
        """The address at which other brokers reach this one."""
        return self.seat.endpoint

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses that are handed out, one a listener."""
        return self.seat.endpoints

    @property
    def epoch(self) -> int:
        """The epoch of the registration, -1 before the first."""
        return self.seat.epoch

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force now."""
        return self.dynamic_config.settings

    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Run blocking work on one of the broker's threads."""
        return await self.workers.run(work)

    def storage_trouble(self, trouble: StorageTrouble) -> None:
        """A log could not do what it should."""
        self.troubles.met(trouble)

    def inherited(self) -> dict[str, Any]:
        """All the parts by name, for the stage that adds to them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
