"""A broker's ways to the other brokers: connections on which both sides have proven what they are.

A broker says in its registration whether it can prove itself (`proof`): klamm's can, Apache Kafka's
cannot, and are believed to be what the store says is at their address. Only the store is asked:
whoever answers at an address could claim to be of the kind that need not prove anything.

What was learnt of a broker is kept until a proof fails, so that connections can be made while the
store is away. One that nothing is known of has to prove itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.net.proof import Ask, ClusterSecret, NotProven, prove
from klamm.client.aio.connection import Connection
from klamm.client.security import Security
from klamm.model.brokers import PLAINTEXT, Endpoint, Registration
from klamm.model.errors import KlammError, StoreUnavailable
from klamm.model.names import BrokerId
from klamm.repeats import limited
from klamm.store import layout
from klamm.store.port import Session

log = limited(logging.getLogger(__name__))

_LOOK_S: Final = 2.0  # a connection does not wait longer for the store
_PROVE_S: Final = 10.0


class PeersHost(Protocol):
    """The services this needs of its broker."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def session(self) -> Session: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def secret(self) -> ClusterSecret: ...


@dataclass(frozen=True, slots=True)
class Ways:
    """The listeners that brokers use among themselves."""

    inter_broker: str = PLAINTEXT
    controller: str = PLAINTEXT  # between the controller and brokers


# What a broker shows when it goes to another one on this listener.
SecurityOf = Callable[[str], Security]


def _clear_text(_listener: str) -> Security:
    return Security()


class Peers:
    """The other brokers, as one broker reaches them."""

    def __init__(
        self,
        host: PeersHost,
        metadata: MetadataCache,
        ways: Ways | None = None,
        security_of: SecurityOf = _clear_text,
    ) -> None:
        self.ways = ways or Ways()
        self.security_of = security_of
        self._host = host
        self._metadata = metadata
        self._can_prove: dict[BrokerId, bool] = {}

    def endpoint(self, to: BrokerId) -> Endpoint | None:
        """The address at which brokers reach this one; None while it is not alive."""
        return self._metadata.snapshot.endpoint(to, self.ways.inter_broker)

    def endpoint_as_controller(self, to: BrokerId) -> Endpoint | None:
        """The address at which brokers reach this one while it is the controller."""
        return self._metadata.snapshot.endpoint(to, self.ways.controller)

    async def connect(self, to: BrokerId, endpoint: Endpoint, name: str) -> Connection:
        """A connection to this broker and no impostor; `KlammError` where there is none."""
        security = self.security_of(endpoint.listener)
        connection = await Connection.open(endpoint.host, endpoint.port, name, security=security)
        try:
            await self.introduce(to, connection.ask)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def connect_to(self, broker: Registration, name: str) -> Connection:
        """The controller's connection to a broker whose registration is at hand."""
        self._can_prove[broker.id] = broker.can_prove
        endpoint = broker.endpoint(self.ways.controller)
        if endpoint is None:
            raise KlammError(
                f"broker {broker.id} has registered no endpoint of listener {self.ways.controller}"
            )
        return await self.connect(broker.id, endpoint, name)

    async def introduce_at(self, connection: Connection) -> None:
        """Prove on a connection that a client made, where it leads to a broker of ours."""
        for broker in self._metadata.snapshot.brokers.values():
            if any(
                (e.host, e.port) == (connection.host, connection.port) for e in broker.endpoints
            ):
                await self.introduce(broker.id, connection.ask)
                return

    async def introduce(self, to: BrokerId, ask: Ask) -> None:
        """Prove on a fresh connection what this broker is, and that the other is `to`."""
        if not await self.proves(to):
            return
        host = self._host
        try:
            async with asyncio.timeout(_PROVE_S):
                await prove(ask, host.secret, cluster_id=host.cluster_id, me=host.id, to=to)
        except NotProven as fault:
            log.warning("a broker is not what it should be", extra={"to": to, "why": str(fault)})
            self._can_prove.pop(to, None)
            raise
        except (KlammError, OSError, TimeoutError):
            self._can_prove.pop(to, None)
            raise

    async def proves(self, to: BrokerId) -> bool:
        """Whether this broker can show that it is one of ours: Apache Kafka's cannot."""
        if self._can_prove.get(to):
            return True
        try:
            async with asyncio.timeout(_LOOK_S):
                node = await self._host.session.get(layout.broker_path(to))
        except (StoreUnavailable, TimeoutError):
            return self._can_prove.get(to, True)
        found = layout.decode_broker(to, node.data, node.stat.czxid) if node else None
        if found is None:
            return self._can_prove.get(to, True)
        self._can_prove[to] = found.can_prove
        return found.can_prove
