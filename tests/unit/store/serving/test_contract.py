"""The embedded store over the wire: the contract, through klamm's own client of ZooKeeper."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from klamm.store.port import Store
from unit.store.contract import StoreContract
from unit.store.serving.served import DIGEST, TICK_MS, served
from unit.store.tiny_model import Comparison, EndSession, Step, plans

zookeeper = pytest.importorskip("klamm.store.zookeeper", exc_type=Exception)


@asynccontextmanager
async def over_the_wire(path: Path | None = None) -> AsyncIterator[Store]:
    async with served(path, anyone_may_write=False) as (_, server):
        store = zookeeper.ZooKeeperStore(
            f"{server.address}/root",
            session_timeout_ms=2 * TICK_MS,
            connection_timeout_ms=30_000,
            digest=DIGEST,
        )
        try:
            yield store
        finally:
            await store.close()


class TestInMemory(StoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        async with over_the_wire() as store:
            yield store


class TestOnDisk(StoreContract):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        with tempfile.TemporaryDirectory() as folder:
            async with over_the_wire(Path(folder) / "store.db") as store:
                yield store


@given(plans)
@settings(deadline=None, max_examples=15)
def test_it_does_what_the_model_does(plan: list[Step]) -> None:
    # A killed session's nodes go a second later; the contract has a test for that.
    quick = [replace(s, how="close") if isinstance(s, EndSession) else s for s in plan]

    async def scenario() -> None:
        async with over_the_wire() as store:
            await Comparison(store).follow(quick)

    asyncio.run(scenario())
