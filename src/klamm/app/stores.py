"""Opens the store that the settings ask for: embedded, embedded and served, or a ZooKeeper."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.app.plan import Plan
from klamm.datadir import ZOOKEEPER_NAME, DataDirectory
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.model.settings import BrokerSettings
from klamm.store.backups import Policy
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Store
from klamm.store.serving.digest import digest_id, read_or_draw

if TYPE_CHECKING:
    from klamm.ensemble import Ensemble
    from klamm.store.serving.server import StoreServer
    from klamm.store.zookeeper import ZooKeeperStore

log = logging.getLogger(__name__)

Progress = Callable[[str], None]

_SILENT_S: Final = 1.0  # somebody who waits for longer is told for what


@dataclass(slots=True)
class OpenStore:
    """A store, and what serves it where that is ours."""

    store: Store
    settings: BrokerSettings  # the brokers' settings, which name the ZooKeeper if it is one
    server: StoreServer | None = None
    ensemble: Ensemble | None = None

    @property
    def address(self) -> str:
        """The address of the served store, or of the cluster's own ZooKeeper; '' for neither."""
        if self.ensemble is not None:
            return self.settings.str("zookeeper.connect")
        return self.server.address if self.server else ""

    @property
    def is_shared(self) -> bool:
        """Whether brokers of other processes can use it."""
        return bool(self.settings.str("zookeeper.connect")) or self.server is not None

    async def close(self) -> None:
        if self.server is not None:
            await self.server.stop()
        await self.store.close()
        if self.ensemble is not None:
            await asyncio.to_thread(self.ensemble.stop)


async def open_store(
    plan: Plan, settings: BrokerSettings, directory: DataDirectory, progress: Progress
) -> OpenStore:
    """The store that a plan asks for; embedded and temporary, it lives in memory only."""
    opened = await _open(plan, settings, directory, progress)
    if opened.address:
        directory.tell_address(opened.address)
    return opened


async def _open(
    plan: Plan, settings: BrokerSettings, directory: DataDirectory, progress: Progress
) -> OpenStore:
    if plan.zookeeper_nodes:
        return await _open_own_zookeeper(plan, settings, directory, progress)
    if settings.str("zookeeper.connect"):
        return OpenStore(await open_zookeeper(settings), settings)
    serves = settings.int("klamm.store.serve.port") >= 0
    digest = _digest(settings, directory)
    owner = digest_id(digest.encode()) if digest else ""
    if plan.data is None:
        embedded = EmbeddedStore.open(None, serving=serves, owner=owner)
    else:
        embedded = await _open_embedded(settings, directory, serves=serves, owner=owner)
    if not serves:
        return OpenStore(embedded, settings)
    return OpenStore(embedded, settings, server=await _serve(settings, embedded, directory))


async def open_zookeeper(settings: BrokerSettings, *, digest: str = "") -> ZooKeeperStore:
    """The ZooKeeper at `zookeeper.connect`, which has answered; UsageError where it does not."""
    # Not at the top: most clusters never need it.
    from klamm.store.zookeeper_opening import zookeeper_store

    store = zookeeper_store(settings, digest=digest)
    await _reach(store)
    return store


async def _open_own_zookeeper(
    plan: Plan, settings: BrokerSettings, directory: DataDirectory, progress: Progress
) -> OpenStore:
    """A ZooKeeper of the cluster's own, which is started for it."""
    # Not at the top: most clusters never need it.
    from klamm.ensemble import ROOT, Ensemble

    ensemble = Ensemble(
        directory.path / ZOOKEEPER_NAME, nodes=plan.zookeeper_nodes, port=plan.zookeeper_port
    )
    try:
        progress("starting ZooKeeper")
        ensemble.launch()  # on this thread, with which it ends
        while not await asyncio.to_thread(ensemble.wait):
            ensemble.launch()
        # Others are on this machine, too: what they find is not for them to change.
        settings = settings.with_static(
            {
                "zookeeper.set.acl": "true",
                **plan.settings,
                "zookeeper.connect": f"{ensemble.connect_string}{ROOT}",
            }
        )
        store = await open_zookeeper(settings, digest=_digest(settings, directory))
    except BaseException:
        await asyncio.to_thread(ensemble.stop)
        raise
    return OpenStore(store, settings, ensemble=ensemble)


def _digest(settings: BrokerSettings, directory: DataDirectory) -> str:
    """The cluster's own digest, for a store of its own whose nodes are protected; or ''."""
    return read_or_draw(directory.path) if settings.bool("zookeeper.set.acl") else ""


async def _serve(
    settings: BrokerSettings, store: EmbeddedStore, directory: DataDirectory
) -> StoreServer:
    """Open the embedded store's door for other processes."""
    # Not at the top: most clusters never need it.
    from klamm.store.serving.server import ServedDoor, StoreServer

    try:
        door = ServedDoor(
            host=settings.str("klamm.store.serve.host"),
            port=settings.int("klamm.store.serve.port"),
            digest=read_or_draw(directory.path),
            anyone_may_write=settings.str("klamm.store.serve.writers") == "anyone",
            tick_ms=settings.int("klamm.store.serve.tick.ms"),
            connections_max=settings.int("klamm.store.serve.connections.max"),
        )
        server = StoreServer(store, door)
        await server.start()
    except BaseException:
        await store.close()
        raise
    return server


async def _reach(store: ZooKeeperStore) -> None:
    """Wait for ZooKeeper, and say so when it takes longer than a moment."""
    patience_ms = store.connection_timeout_ms
    waiting = asyncio.get_running_loop().call_later(
        _SILENT_S,
        log.warning,
        "no ZooKeeper answers yet at %s: trying for %g s (zookeeper.connection.timeout.ms)",
        store.hosts,
        patience_ms / 1000,
    )
    try:
        await store.reach()
    except UsageError:
        await store.close()
        raise
    except StoreUnavailable as fault:
        await store.close()
        raise UsageError(
            f"no ZooKeeper could be reached within {patience_ms / 1000:g} s ({fault}): start "
            "it, or correct --zookeeper (zookeeper.connect)"
        ) from fault
    finally:
        waiting.cancel()


async def _open_embedded(
    settings: BrokerSettings, directory: DataDirectory, *, serves: bool, owner: str
) -> EmbeddedStore:
    """The store of the data directory; UsageError where it was lost and logs would be too."""
    elsewhere = [Path(name) for name in _log_dirs(settings) if name.startswith("/")]
    directory.refuse_loss(elsewhere)
    store = EmbeddedStore.open(
        directory.store,
        fsync=settings.bool("klamm.store.fsync"),
        policy=Policy(
            keep=settings.int("klamm.store.backups"),
            interval_s=settings.int("klamm.store.backup.interval.ms") / 1000,
        ),
        serving=serves,
        owner=owner,
    )
    try:
        directory.refuse_loss(elsewhere, is_empty=store.is_empty)
    except UsageError:
        await store.close()
        raise
    return store


def _log_dirs(settings: BrokerSettings) -> list[str]:
    static = settings.static
    named = static.get("log.dirs") or static.get("log.dir") or ""
    return [name.strip() for name in named.split(",")]
