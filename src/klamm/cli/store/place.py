"""Finding the store of a cluster and opening it for reading.

A ZooKeeper is asked by its protocol. In a data directory it depends: of a stopped cluster the file
is read, or its own ZooKeeper is started for the moment; a running one is asked where it serves its
store, and otherwise its file is read as it is, which lacks the ephemeral nodes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.cli.options import parse_pairs
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.datadir import DataDirectory
    from klamm.model.settings import BrokerSettings
    from klamm.store.browsing import Browser
    from klamm.store.zookeeper import ZooKeeperSession, ZooKeeperStore

_PATIENCE_MS: Final = "10000"
_LACKS: Final = (
    "the running cluster does not serve its store (klamm up --zookeeper-port), so this is its "
    "file: nodes that go with a session, such as /controller and /brokers/ids/*, are not in it"
)


@dataclass(frozen=True, slots=True)
class NamedStore:
    """The place of a store, as somebody gave it."""

    data: Path | None
    zookeeper: str | None
    settings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, data: Path | None, zookeeper: str | None, setting: Sequence[str] | None
    ) -> NamedStore:
        """UsageError where two places are named."""
        if data is not None and zookeeper is not None:
            raise UsageError("--data and --zookeeper name two stores: leave one out")
        return cls(data, zookeeper, tuple(setting or ()))

    def broker_settings(self, connect: str) -> BrokerSettings:
        """The settings by which a ZooKeeper is reached."""
        from klamm.model.settings import BrokerSettings

        patience = {"zookeeper.connection.timeout.ms": _PATIENCE_MS}
        given = parse_pairs(self.settings, option="-X")
        return BrokerSettings.parse(patience | given | {"zookeeper.connect": connect})


@dataclass(frozen=True, slots=True)
class Opened:
    """A store that can be looked into."""

    browser: Browser
    where: str
    session: ZooKeeperSession | None = None
    file: Path | None = None  # the embedded store's
    is_running: bool = True  # whether a cluster may be changing it
    lacks: str = ""  # what is not to be seen, and why


@asynccontextmanager
async def opened(place: NamedStore) -> AsyncIterator[Opened]:
    """The store at a place, for reading only."""
    async with AsyncExitStack() as stack:
        if place.zookeeper is not None:
            yield await _on_wire(stack, place, place.zookeeper)
            return
        path = existing(place.data)
        yield await _in_directory(stack, place, path)


async def _in_directory(stack: AsyncExitStack, place: NamedStore, path: Path) -> Opened:
    from klamm.datadir import ADDRESS_NAME, STORE_NAME, DataDirectory, InUse
    from klamm.store.browsing import TreeBrowser
    from klamm.store.peeking import peek

    file = path / STORE_NAME
    try:
        directory = stack.enter_context(DataDirectory.claim(path))
    except InUse:
        address = path / ADDRESS_NAME
        if address.exists():
            connect = address.read_text().strip()
            return await _on_wire(stack, place, connect, digest_in=path)
        return Opened(TreeBrowser(peek(file)), str(file), file=file, lacks=_LACKS)
    if file.exists():
        return Opened(TreeBrowser(peek(file)), str(file), file=file, is_running=False)
    session, where = await own_zookeeper(stack, place, directory, writes=False)
    return Opened(session, where, session, is_running=False)


async def own_zookeeper(
    stack: AsyncExitStack,
    place: NamedStore,
    directory: DataDirectory,
    *,
    writes: bool,
    nodes: int = 0,
) -> tuple[ZooKeeperSession, str]:
    """A session with the ZooKeeper of a stopped cluster's own, which runs meanwhile."""
    from klamm.datadir import ZOOKEEPER_NAME
    from klamm.ensemble import ROOT, Ensemble, kept_nodes
    from klamm.store.serving.digest import read_or_draw

    home = directory.path / ZOOKEEPER_NAME
    count = nodes or kept_nodes(home)
    if not count:
        raise UsageError(f"there is no cluster in {directory.path}; name another with --data")
    ensemble = Ensemble(home, nodes=count)
    stack.callback(ensemble.stop)
    ensemble.start()
    settings = place.broker_settings(f"{ensemble.connect_string}{ROOT}")
    protected = {**settings.static, "zookeeper.set.acl": "true"}
    store = await _store(stack, type(settings).parse(protected), read_or_draw(directory.path))
    session = await (store.fill() if writes else store.look_in())
    return session, str(home)


async def _on_wire(
    stack: AsyncExitStack, place: NamedStore, connect: str, *, digest_in: Path | None = None
) -> Opened:
    from klamm.store.serving.digest import FILE_NAME, read

    digest = ""
    if digest_in is not None and (digest_in / FILE_NAME).exists():
        digest = read(digest_in / FILE_NAME)
    store = await _store(stack, place.broker_settings(connect), digest)
    session = await store.look_in()
    return Opened(session, connect, session)


async def on_zookeeper(stack: AsyncExitStack, place: NamedStore) -> ZooKeeperStore:
    """The ZooKeeper that was named, for whoever writes to it."""
    assert place.zookeeper is not None, "no ZooKeeper was named"
    return await _store(stack, place.broker_settings(place.zookeeper), "")


async def _store(stack: AsyncExitStack, settings: BrokerSettings, digest: str) -> ZooKeeperStore:
    from klamm.store.zookeeper_opening import zookeeper_store

    store = zookeeper_store(settings, digest=digest)
    stack.push_async_callback(store.close)
    return store


def existing(data: Path | None) -> Path:
    """The data directory; UsageError where there is none."""
    from klamm.datadir import default_data

    place = data or default_data()
    if not place.is_dir():
        raise UsageError(f"{place} is not a directory: name the cluster's with --data")
    return place
