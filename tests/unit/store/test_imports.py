"""An export put into a ZooKeeper, here an embedded store that is served as one."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from klamm.model.errors import UsageError
from klamm.store import exports, layout
from klamm.store.access import OPEN, Grant
from klamm.store.browsing import Seen, TreeBrowser, walk
from klamm.store.database import write_copy
from klamm.store.exports import Export
from klamm.store.port import Create, Delete, SetData
from klamm.store.serving.digest import digest_id
from unit.store.serving.served import DIGEST, served

zookeeper = pytest.importorskip("klamm.store.zookeeper", exc_type=Exception)
from klamm.store import imports  # noqa: E402 - needs what may be missing

OWNER = digest_id(DIGEST.encode())
BEFORE = Grant(31, "digest", "before:hash")
WORLD = Grant(1, "world", "anyone")
VERSIONS = {"/controller_epoch": 7, "/brokers/seqid": 2, "/brokers/topics/t": 1}
TOPICS = 40


async def an_export(*, owned: bool = False) -> Export:
    """What a cluster leaves: versions, grants, notices, and nodes that go with a session."""
    from klamm.store.embedded import EmbeddedStore

    store = EmbeddedStore.open(None)
    session = await store.connect()
    topics = [layout.state_path((f"t{number}", 0)) for number in range(TOPICS)]
    paths = layout.with_parents([*layout.ROOTS, *VERSIONS, "/consumers", "/raw", *topics])
    await session.multis([Create(path)] for path in paths)
    for path, version in VERSIONS.items():
        await session.multis([SetData(path, b"%d" % at)] for at in range(version))
    change = Create(layout.CONFIG_CHANGE_PREFIX, b"{}", sequential=True)
    gone = Create("/controller", ephemeral=True)
    secret = Create("/config/users/alice", b"s")
    await session.multi([SetData("/raw", b"\xff\x00"), change, gone, secret])
    entries = store.tree.entries
    if owned:
        entries[secret.path] = entries[secret.path]._replace(acl=(BEFORE,))
        entries["/brokers"] = entries["/brokers"]._replace(acl=(BEFORE, WORLD))
    found = [seen async for seen in walk(TreeBrowser(store.tree), "/", acls=True)]
    await store.close()
    file = io.BytesIO()
    nodes = [exports.kept(seen) for seen in found if exports.is_carried(seen)]
    exports.write(file, nodes, source="test", taken_ms=0)
    file.seek(0)
    return exports.read(file, "test")


@asynccontextmanager
async def a_target(root: str = "/root") -> AsyncIterator[Any]:
    async with served(anyone_may_write=False) as (_, server):
        store = zookeeper.ZooKeeperStore(f"{server.address}{root}", digest=DIGEST)
        try:
            yield store
        finally:
            await store.close()


async def everything(session: Any) -> dict[str, Seen]:
    return {seen.path: seen async for seen in walk(session, "/", acls=True)}


async def test_every_node_comes_with_its_version_and_an_owner() -> None:
    export = await an_export(owned=True)
    async with a_target() as store:
        session = await store.fill()
        count = await imports.fill_zookeeper(session, export, is_somebody=True)
        found = await everything(session)
        wanted = {node.path: node for node in imports.carried(export)}
        assert count == len(wanted)
        assert found.keys() - {"/"} == wanted.keys()
        assert {path: found[path].data for path in wanted} == {p: n.data for p, n in wanted.items()}
        assert {p: found[p].facts.version for p in VERSIONS} == VERSIONS
        assert found["/config/users/alice"].acl == (Grant(31, "digest", OWNER),)
        assert found["/brokers"].acl == (Grant(31, "digest", OWNER), WORLD)
        assert found["/consumers"].acl == OPEN
        assert "/controller" not in found
        assert await session.children("/config/changes") == ()
        await store.connect()  # brokers may come


async def test_nodes_that_were_open_are_protected_where_that_is_asked_for() -> None:
    export = await an_export(owned=True)
    async with a_target() as store:
        session = await store.fill()
        await imports.fill_zookeeper(session, export, is_somebody=True, protects=True)
        found = await everything(session)
        assert found["/controller_epoch"].acl == (Grant(31, "digest", OWNER), WORLD)
        assert found["/config/users"].acl == (Grant(31, "digest", OWNER),)
        assert found["/consumers"].acl == OPEN


async def test_one_that_was_stopped_goes_on_and_no_broker_starts_meanwhile() -> None:
    export = await an_export()
    async with a_target() as store:
        session = await store.fill()
        half = imports.carried(export)[: TOPICS * 2]
        await imports._begin(session, export.sha256)
        await imports._put(session, half)
        with pytest.raises(UsageError, match="has not ended: run `klamm store import`"):
            await store.connect()
        with pytest.raises(UsageError, match="an import of another file has not ended"):
            await imports.fill_zookeeper(session, Export([], "other", "", 0))
        await imports.fill_zookeeper(session, export)
        found = await everything(session)
        assert {p: found[p].facts.version for p in VERSIONS} == VERSIONS
        await store.connect()


async def test_a_node_that_was_set_a_few_times_is_set_the_rest() -> None:
    export = await an_export()
    async with a_target() as store:
        session = await store.fill()
        await imports._begin(session, export.sha256)
        await session.multi([Create("/controller_epoch"), SetData("/controller_epoch", None)])
        await imports.fill_zookeeper(session, export)
        (epoch,) = await session.look(["/controller_epoch"])
        assert (epoch.facts.version, epoch.data) == (7, b"6")


async def test_a_target_that_holds_something_is_refused() -> None:
    export = await an_export()
    async with a_target() as store:
        session = await store.connect()
        await session.multi([Create("/a")])
        with pytest.raises(UsageError, match="is not empty, it has /a"):
            await imports.fill_zookeeper(session, export)
        await session.multi([Delete("/a"), Create("/brokers"), Create("/brokers/ids")])
        await session.multi([Create("/brokers/ids/1", ephemeral=True)])
        with pytest.raises(UsageError, match="brokers are registered here"):
            await imports.fill_zookeeper(session, export)
        assert await session.get(layout.IMPORT_MARK) is None


@pytest.mark.parametrize("change", ["data", "version", "gone"])
async def test_what_somebody_changed_meanwhile_is_noticed(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    export = await an_export()
    async with a_target() as store:
        session = await store.fill()
        put = imports._put

        async def meddle(session: Any, nodes: Any) -> None:
            await put(session, nodes)
            ops = {
                "data": [Delete("/raw"), Create("/raw", b"other"), SetData("/raw", b"other")],
                "version": [SetData("/raw", b"\xff\x00")],
                "gone": [Delete("/raw")],
            }
            await session.multi(ops[change])

        monkeypatch.setattr(imports, "_put", meddle)
        with pytest.raises(UsageError, match="/raw is not as it should be"):
            await imports.fill_zookeeper(session, export)
        assert await session.get(layout.IMPORT_MARK) is not None


async def test_a_version_that_would_take_hours_is_refused_before_anything_is_done() -> None:
    export = await an_export()
    nodes = [n._replace(version=2**31 - 1) if n.path == "/raw" else n for n in export.nodes]
    async with a_target() as store:
        session = await store.fill()
        with pytest.raises(UsageError, match="/raw has version 2147483647"):
            await imports.fill_zookeeper(session, Export(nodes, export.sha256, "", 0))
        assert await session.children("/") == ()


async def test_an_embedded_store_gets_all_numbers_and_a_new_owner(tmp_path: Path) -> None:
    export = await an_export(owned=True)
    tree = imports.tree_of(export, owner=OWNER)
    path = tmp_path / "store.db"
    await asyncio.to_thread(write_copy, path, tree.entries, tree.zxid)
    imports.check_file(path, tree)
    kept = {node.path: node for node in export.nodes}
    alice = tree.entries["/config/users/alice"]
    assert alice.acl == (Grant(31, "digest", OWNER),)
    assert alice.stat.czxid == kept["/config/users/alice"].czxid
    assert tree.entries["/config/changes"].children_made == 1
    assert tree.zxid == max(node.pzxid for node in export.nodes)
    other = imports.tree_of(Export(export.nodes[:-1], "", "", 0), owner=OWNER)
    with pytest.raises(UsageError, match="is different"):
        imports.check_file(path, other)


async def test_what_belongs_to_another_needs_a_login() -> None:
    export = await an_export(owned=True)
    async with a_target() as store:
        with pytest.raises(UsageError, match="no auth"):
            await imports.fill_zookeeper(await store.fill(), export)
