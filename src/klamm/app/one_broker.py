"""One broker on the loop of its own process, on a store that others use as well."""

from __future__ import annotations

import gc
from asyncio import sslproto
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.app import asking
from klamm.app.faults import plain, raise_file_limit
from klamm.app.scraping import serve_metrics
from klamm.app.stores import open_zookeeper
from klamm.broker.server import Broker
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings

if TYPE_CHECKING:
    from klamm.metrics.server import MetricsServer
    from klamm.store.port import Store

Progress = Callable[[str], None]
_TLS_BUFFER_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlan:
    """The wishes for one broker; its store is the `zookeeper.connect` of its settings."""

    id: int | None  # None: one is drawn from the store
    data: str  # where it keeps its logs, and what `log.dirs` is relative to
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str | None = None
    rack: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    reserved_max: int = 0  # drawn ids are above


class BrokerApp:
    """The running parts of one broker's process."""

    def __init__(self, plan: BrokerPlan, progress: Progress) -> None:
        self.plan = plan
        self.id = plan.id if plan.id is not None else -1  # -1 until it is drawn
        self.settings = BrokerSettings.parse(plan.settings)
        self._progress = progress
        self._store: Store | None = None
        self._broker: Broker | None = None
        self._metrics: MetricsServer | None = None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "the broker has not been started"
        return self._broker

    @property
    def address(self) -> str:
        """`host:port` on the first listener, for a client's configuration."""
        return asking.bootstrap({self.id: self.broker.endpoints}, None)

    @property
    def metrics_url(self) -> str:
        return self._metrics.url if self._metrics else ""

    async def start(self, gate: Callable[[], Awaitable[object]] | None = None) -> None:
        """Return when clients can be served; undo all on failure."""
        raise_file_limit()
        plan = self.plan
        try:
            self._store = await open_zookeeper(self.settings)
            if plan.id is None:
                self.id = await asking.drawn_id(self._store, plan.reserved_max)
            self._broker = Broker(
                BrokerId(self.id),
                store=self._store,
                settings=self.settings,
                data_dir=Path(plan.data),
                host=plan.host,
                port=plan.port,
                advertise=plan.advertise,
                rack=plan.rack,
                progress=lambda done, total: self._progress(f"log {done} of {total}"),
                on_hand_over=lambda left: self._progress(f"{left} leaderships left to hand over"),
            )
            brokers = {self.id: self._broker}
            port = self.settings.int("klamm.metrics.port")
            self._metrics = await serve_metrics(brokers, plan.host, port)
            await self._broker.start(gate)
        except BaseException as error:
            await self._release()
            raise plain(error) from error

    async def rest(self) -> None:
        """Be no controller any more, and let nobody take that for a loss."""
        await self.broker.parts.controller.stop(resign=False)

    async def stop(self, *, hand_over: bool = True) -> None:
        """Go down in order."""
        if self._broker is not None:
            await self._broker.stop(hand_over=hand_over)
        await self._release()

    def forgo_hand_over(self) -> None:
        """Have a stop that is under way wait for nobody."""
        if self._broker is not None:
            self._broker.forgo_hand_over()

    async def kill(self) -> None:
        """Go down as a crash would."""
        if self._broker is not None:
            await self._broker.kill()
        await self._release()

    async def failed(self) -> None:
        """Until the broker has stopped by itself, which it does when its last disk fails."""
        await self.broker.stopped.wait()

    async def _release(self) -> None:
        if self._metrics is not None:
            await self._metrics.stop()
            self._metrics = None
        if self._store is not None:
            await self._store.close()
            self._store = None


def buffer_less() -> None:
    """Have asyncio take 64 KB for a connection that a broker makes with TLS, and not 256.

    Only here, too. The name is not documented: where it is gone, the buffers stay as they are.
    """
    if getattr(sslproto.SSLProtocol, "max_size", 0) > _TLS_BUFFER_SIZE:
        sslproto.SSLProtocol.max_size = _TLS_BUFFER_SIZE


def collect_seldom() -> None:
    """Have Python look for cyclic garbage less often.

    Brokers make a lot that stays, a dozen objects a partition, and next to no cycles; looking
    through it all the time was an eighth of the cost of a wide topic. What the imports made stays
    anyway. Only in a process that does nothing else: one that merely embeds a cluster keeps its own
    ways.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
