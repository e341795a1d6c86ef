"""`klamm store export` and `import`: a cluster's metadata moved from one kind of store to another.

The logs stay where they are. Both refuse while brokers are alive: what they would still write is
not in the file.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from klamm.cli.options import Output, OutputOption
from klamm.cli.output import print_json, say
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.store.options import DataOption, SettingOption, ZooKeeperOption
from klamm.cli.store.place import NamedStore, Opened, existing, on_zookeeper, opened, own_zookeeper
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.store.exports import Export, Kept

FileArgument = Annotated[Path, Argument(metavar="FILE", help="one line of JSON a node")]


def export(
    file: FileArgument,
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
    setting: SettingOption = None,
    set_aside: Annotated[
        bool,
        Option(
            "--set-aside",
            help="rename the exported store of --data, so that nobody starts on it by mistake",
        ),
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Write the metadata of a stopped cluster into a file, which holds its secrets, too.

    Example: klamm store export store.jsonl --data DIR --set-aside
    """
    from klamm.store import backups, exports

    if file.exists():
        raise UsageError(f"{file} is there already: name a new file")
    if set_aside and zookeeper is not None:
        raise UsageError("--set-aside is for a store in a data directory, which --data names")
    nodes, left, store = asyncio.run(_gathered(NamedStore.of(data, zookeeper, setting)))
    told: dict[str, object] = {}

    def fill(draft: Path) -> None:
        with draft.open("wb") as target:
            source, now_ms = store.where, time.time_ns() // 1_000_000
            told["sha256"] = exports.write(target, nodes, source=source, taken_ms=now_ms)

    backups.put_in_place(fill, file)
    told |= {"file": str(file), "from": store.where, "nodes": len(nodes), "left_out": left}
    moved = _set_aside(existing(data)) if set_aside else []
    told["set_aside"] = moved
    if output is Output.JSON:
        print_json(told)
        return
    say(f"exported {len(nodes)} nodes from {store.where} to {file}; it holds secrets, keep it safe")
    if left:
        say(f"left out: {left} nodes that go with a session or belong to ZooKeeper itself")
    for path in moved:
        say(f"what was there before is now {path}")


async def _gathered(place: NamedStore) -> tuple[list[Kept], int, Opened]:
    from klamm.store import exports, layout
    from klamm.store.browsing import walk

    async with opened(place) as store:
        registered = await store.browser.children(layout.BROKER_IDS)
        if registered or (store.is_running and store.session is None):
            who = f" ({', '.join(registered)} are registered)" if registered else ""
            raise UsageError(f"brokers run on {store.where}{who}: stop them, and export then")
        found = [seen async for seen in walk(store.browser, "/", acls=True)]
        if len(found) <= 1:
            raise UsageError(f"there is nothing in {store.where}")
        nodes = [exports.kept(seen) for seen in found if exports.is_carried(seen)]
        return nodes, len(found) - len(nodes), store


def _set_aside(directory: Path) -> list[str]:
    from klamm.datadir import STORE_NAME, ZOOKEEPER_NAME, DataDirectory
    from klamm.salvage import set_aside
    from klamm.store.presence import WAL_SUFFIX

    names = (STORE_NAME, f"{STORE_NAME}{WAL_SUFFIX}", ZOOKEEPER_NAME)
    with DataDirectory.claim(directory) as claimed:
        paths = [claimed.path / name for name in names]
        moved = set_aside(paths, now_ms=time.time_ns() // 1_000_000)
    return [str(path) for path in moved]


def import_(
    file: FileArgument,
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
    zookeeper_nodes: Annotated[
        int | None,
        Option(
            help="put it into a ZooKeeper of the cluster's own, of so many servers, instead of the "
            "embedded store (klamm up --zookeeper)"
        ),
    ] = None,
    setting: SettingOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Fill an empty store from an export, and compare it node by node.

    Example: klamm store import store.jsonl --zookeeper zk1:2181/klamm
    """
    found = _read(file)
    place = NamedStore.of(data, zookeeper, setting)
    if place.zookeeper is not None and zookeeper_nodes is not None:
        raise UsageError("--zookeeper-nodes is for a ZooKeeper below --data: leave one out")
    if place.zookeeper is not None:
        where, count = place.zookeeper, asyncio.run(_into_zookeeper(place, found))
    elif zookeeper_nodes is not None:
        where, count = asyncio.run(_into_own(place, found, zookeeper_nodes))
    else:
        where, count = _into_file(place, found)
    if output is Output.JSON:
        print_json({"file": str(file), "into": where, "nodes": count, "sha256": found.sha256})
    else:
        say(f"imported {count} nodes into {where}, each compared; start the cluster on it")


def _read(file: Path) -> Export:
    from klamm.store import exports

    def read(source: BinaryIO) -> Export:
        return exports.read(source, str(file))

    try:
        with file.open("rb") as source:
            return read(source)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _into_file(place: NamedStore, found: Export) -> tuple[str, int]:
    from klamm import salvage
    from klamm.datadir import ZOOKEEPER_NAME, DataDirectory, default_data
    from klamm.store.imports import check_file, tree_of
    from klamm.store.serving.digest import digest_id, read_or_draw

    with DataDirectory.claim(place.data or default_data()) as directory:
        if directory.store.exists() or (directory.path / ZOOKEEPER_NAME).exists():
            raise UsageError(
                f"{directory.path} has a store already: an import goes where there is none. Move "
                "it away first, as `klamm store export --set-aside` does"
            )
        owner = digest_id(read_or_draw(directory.path).encode())
        tree = tree_of(found, owner=owner)
        salvage.put_in_place(directory, tree, now_ms=time.time_ns() // 1_000_000)
        try:
            check_file(directory.store, tree)
        except UsageError:
            directory.store.unlink()
            raise
        return str(directory.store), len(found.nodes)


async def _into_zookeeper(place: NamedStore, found: Export) -> int:
    from klamm.store.imports import fill_zookeeper

    async with AsyncExitStack() as stack:
        store = await on_zookeeper(stack, place)
        session = await store.fill()
        door = store.door
        return await fill_zookeeper(
            session, found, is_somebody=door.is_somebody, protects=door.sets_acl
        )


async def _into_own(place: NamedStore, found: Export, nodes: int) -> tuple[str, int]:
    from klamm.datadir import DataDirectory
    from klamm.store.imports import fill_zookeeper

    async with AsyncExitStack() as stack:
        directory = stack.enter_context(DataDirectory.claim(existing(place.data)))
        if directory.store.exists():
            raise UsageError(
                f"{directory.path} has an embedded store: move it away first, as `klamm store "
                "export --set-aside` does"
            )
        session, where = await own_zookeeper(stack, place, directory, writes=True, nodes=nodes)
        return where, await fill_zookeeper(session, found, is_somebody=True, protects=True)
