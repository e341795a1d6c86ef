"""A roll call among real brokers: who says what, and what a new controller still has to order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from klamm.broker.roll_call_form import from_json, to_json
from klamm.broker.server import Broker
from klamm.controller.membership.roll_call import Holdings
from klamm.model.errors import ProtocolError
from klamm.protocol.messages import leader_and_isr
from klamm.protocol.private import PrivateKey
from klamm.store import layout
from klamm.store.port import Delete
from unit.broker.brokers import World, until, world


@pytest.mark.parametrize("answer", [{}, {"replicas": {}}, {"replicas": {"x": [1]}, "metadata": {}}])
def test_an_answer_that_makes_no_sense_is_no_answer(answer: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        from_json(answer)


class Orders:
    """What brokers are ordered to serve, and by which controller epoch."""

    def __init__(self, w: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: dict[int, list[tuple[int, str, int]]] = {}
        for id, broker in w.brokers.items():
            monkeypatch.setattr(broker.parts.replicas, "obey", self._noting(id, broker))

    def _noting(self, id: int, broker: Broker) -> Any:
        obey = broker.parts.replicas.obey

        async def noting(request: leader_and_isr.Request) -> Any:
            for topic in request.topic_states:
                for state in topic.partition_states:
                    given = (id, topic.topic_name, state.partition_index)
                    self.given.setdefault(request.controller_epoch, []).append(given)
            return await obey(request)

        return noting


def controller(w: World) -> Broker:
    for broker in w.brokers.values():
        if broker.is_controller:
            return broker
    raise AssertionError("nobody is the controller")


@asynccontextmanager
async def cluster(path: Path) -> AsyncIterator[World]:
    async with world(path, count=4) as w:
        dead = controller(w).id
        b, c, d = (id for id in range(4) if id != dead)
        await w.create("near", (dead, b), (b, dead))
        await w.create("far", (b, c, d), (c, d, b), (d, b, c))
        await settled(w)
        yield w


async def settled(w: World) -> None:
    """Until every broker has answered all that the controller had to say."""
    term = controller(w).parts.controller._term
    assert term is not None
    async with asyncio.timeout(15):
        await term._outbox.delivered()


async def replaced(w: World, epoch: int) -> None:
    await until(lambda: controller(w).parts.controller.epoch > epoch, "nobody was elected")
    await until(
        lambda: (
            {b.parts.metadata.snapshot.controller_id for b in w.brokers.values()}
            == {controller(w).id}
        ),
        "somebody was not told",
    )
    await settled(w)


async def test_a_failover_with_nothing_changed_orders_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as w:
        shown = {id: b.parts.metadata.snapshot.topics for id, b in w.brokers.items()}
        epoch = controller(w).parts.controller.epoch
        orders = Orders(w, monkeypatch)
        spared = sum(b.parts.controller.metrics.orders_spared for b in w.brokers.values())
        await controller(w).parts.session.multi([Delete(layout.CONTROLLER)])
        await replaced(w, epoch)
        assert orders.given == {}
        now = sum(b.parts.controller.metrics.orders_spared for b in w.brokers.values())
        assert now - spared == 2 * 2 + 3 * 3
        assert {b.parts.replicas.controller_epoch for b in w.brokers.values()} == {epoch + 1}
        assert {id: b.parts.metadata.snapshot.topics for id, b in w.brokers.items()} == shown


async def test_what_the_dead_controller_hosted_is_all_that_is_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as w:
        dead, epoch = controller(w).id, controller(w).parts.controller.epoch
        orders = Orders(w, monkeypatch)
        await w.kill(dead)
        await replaced(w, epoch)
        left = min(w.brokers)
        assert orders.given == {epoch + 1: [(left, "near", 0), (left, "near", 1)]}
        leaders = [w.leader("near", p).leader for p in (0, 1)]
        assert leaders == [left, left]
        assert [w.leader("far", p).leader_epoch for p in range(3)] == [0, 0, 0]


async def claimed(w: World, broker: Broker) -> Holdings:
    await w.elect(1000)
    connection = await w.connect_as_broker(broker.id)
    body = {"controller": 9, "controller_epoch": 1000, "broker_epoch": broker.parts.epoch}
    answer = await connection.ask(PrivateKey.ROLL_CALL, body)
    await connection.close()
    assert answer.pop("error_code") == 0
    assert answer == to_json(from_json(answer))
    return from_json(answer)


async def test_a_broker_claims_what_it_serves_and_fences_who_spoke_before(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,), (0,))
        await settled(w)
        broker = w.brokers[0]
        topic_id = broker.parts.metadata.snapshot.topic_ids["t"]
        assert (await claimed(w, broker)).replicas == {topic_id: {0: 0, 1: 0}}
        assert broker.parts.replicas.controller_epoch == 1000
        connection = await w.connect_as_broker(0)
        late = {"controller": 8, "controller_epoch": 999, "broker_epoch": broker.parts.epoch}
        assert (await connection.ask(PrivateKey.ROLL_CALL, late))["error_code"] == 11
        older = {
            "controller": 9,
            "controller_epoch": 1000,
            "broker_epoch": broker.parts.epoch - 1,
        }
        assert (await connection.ask(PrivateKey.ROLL_CALL, older))["error_code"] == 77
        await connection.close()
        stopped = w.replica(0, "t", 1)
        stopped.stop()
        assert (await claimed(w, broker)).replicas == {topic_id: {0: 0}}
        log = w.replica(0, "t", 0).log
        assert log is not None
        path = str(Path(log.directory).parent)
        broker.parts.replicas.fail_directory(path)
        assert (await claimed(w, broker)).replicas == {}
        assert list((await claimed(w, broker)).metadata) == ["t"]
