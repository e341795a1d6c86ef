"""Nodes that a cluster protects in its embedded store, seen by those who come over the wire."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.model.errors import StoreUnavailable
from klamm.store import layout
from klamm.store.access import OPEN, Grant
from klamm.store.database import read_copy
from klamm.store.port import Create, Outcome, SetData
from klamm.store.serving.digest import digest_id
from unit.store.serving.served import DIGEST, served

zookeeper = pytest.importorskip("klamm.store.zookeeper", exc_type=Exception)

OWNER = digest_id(DIGEST.encode())
SECRET, TOPIC = "/config/users/alice", "/brokers/topics/t"


async def test_who_has_not_the_digest_can_neither_change_nor_learn_secrets(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with served(path, anyone_may_write=True, owner=OWNER) as (store, server):
        inside = await store.connect()
        made = layout.with_parents([SECRET, TOPIC, "/consumers"])
        await inside.multis([Create(node, b"0")] for node in made)
        theirs = zookeeper.ZooKeeperStore(server.address)
        ours = zookeeper.ZooKeeperStore(server.address, digest=DIGEST)
        try:
            stranger, broker = await theirs.connect(), await ours.connect()
            assert (await stranger.get(TOPIC)).data == b"0"
            with pytest.raises(StoreUnavailable, match="may not be read"):
                await stranger.get(SECRET)
            (refused,) = await stranger.multi([SetData(TOPIC, b"x")])
            assert refused.outcome is Outcome.NO_AUTH
            (old_client,) = await stranger.multi([Create("/consumers/old")])
            assert old_client.ok
            assert all(
                r.ok for r in await broker.multi([SetData(p, b"1") for p in (TOPIC, SECRET)])
            )
        finally:
            await theirs.close()
            await ours.close()
    kept = read_copy(path).entries
    assert kept[SECRET].acl == (Grant(31, "digest", OWNER),)
    assert kept[TOPIC].acl == (Grant(31, "digest", OWNER), Grant(1, "world", "anyone"))
    assert kept["/consumers"].acl == OPEN
    assert DIGEST.partition(":")[2] not in json.dumps([entry.acl for entry in kept.values()])
