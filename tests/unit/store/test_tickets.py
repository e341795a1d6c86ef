"""The tickets of ZooKeeper's writes, with a store that is away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

pytest.importorskip("kazoo", reason="no kazoo")

from klamm.model.errors import StoreUnavailable
from klamm.store.port import Op, Outcome, Result, SetData, Stat
from klamm.store.zookeeper_nodes import ServerNodes
from klamm.store.zookeeper_tickets import TicketOffice


class Nodes(ServerNodes):
    """A server that does every write, while it is there."""

    def __init__(self) -> None:
        self.is_away = False

    async def ensure(self, path: str) -> None:
        pass

    async def send(self, ops: Sequence[Op]) -> list[Result]:
        if self.is_away:
            raise StoreUnavailable("away")
        return [Result(Outcome.OK, op.path, Stat(0, 1, 1, 0, 0)) for op in ops]


async def test_writes_that_fail_together_give_all_their_tickets_back() -> None:
    nodes = Nodes()
    office = TicketOffice(nodes, 1)
    await office.open()
    many = [[SetData(f"/n{at}", b"")] for at in range(100)]
    nodes.is_away = True
    for _ in range(3):
        # The first failure cancels those that were not even begun.
        with pytest.raises(StoreUnavailable):
            await office.multis(many)
    nodes.is_away = False
    async with asyncio.timeout(10):
        assert len(await office.multis(many)) == 100
        assert all(result.ok for result in await office.multi(many[0]))
        await office.all_done()
