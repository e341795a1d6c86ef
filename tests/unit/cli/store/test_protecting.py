"""`klamm store protect`: grants for nodes that are there already."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from klamm.cli.__main__ import main
from klamm.store import layout
from klamm.store.access import OPEN, Grant
from klamm.store.port import Create
from klamm.store.serving.digest import digest_id
from unit.store.serving.served import DIGEST, served

pytest.importorskip("klamm.store.zookeeper", exc_type=Exception)

OWN = Grant(31, "digest", digest_id(DIGEST.encode()))
WORLD = Grant(1, "world", "anyone")


async def test_nodes_are_protected_and_opened_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "digest"
    file.touch(0o600)
    file.write_text(DIGEST)
    async with served() as (store, server):
        session = await store.connect()
        await session.multis([Create(path)] for path in layout.with_parents(layout.ROOTS))
        command = ["store", "protect", "--zookeeper", server.address]
        login = ["-X", f"klamm.zookeeper.digest.file={file}"]
        assert await asyncio.to_thread(main, command) == 2
        assert "nobody is logged in" in capsys.readouterr().err
        assert store.tree.entries["/brokers/topics"].acl == OPEN
        assert await asyncio.to_thread(main, [*command, *login]) == 0
        entries = store.tree.entries
        assert entries["/brokers/topics"].acl == (OWN, WORLD)
        assert entries["/config/users"].acl == (OWN,)
        assert entries["/consumers"].acl == OPEN
        assert entries["/zookeeper"].acl == OPEN
        assert await asyncio.to_thread(main, [*command, "--open"]) == 2, "who is not logged in"
        assert await asyncio.to_thread(main, [*command, *login, "--open"]) == 0
        assert {entry.acl for entry in store.tree.entries.values()} == {OPEN}
