"""Nodes that tools and brokers of other ages leave in the store, while a cluster runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from interop.wire import Wire, codes, topic
from klamm import Cluster
from klamm.broker.admin.waiting import until_absent
from klamm.model.errors import ErrorCode as E
from klamm.model.names import BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.port import Create, Node, Session, SetData
from klamm.view import ClusterView

T0 = TopicPartition("t", 0)


async def gone(session: Session, path: str) -> None:
    async with asyncio.timeout(10):
        await until_absent(session, path)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(2) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, 1))) == [E.NONE]
        yield wire


@pytest.mark.parametrize(
    "data",
    [b"", b"not json", b'{"version":1}', b'{"version":1,"partitions":[]}', b'["partitions"]'],
    ids=["empty", "garbage", "without-partitions", "of-nothing", "a-list"],
)
def test_a_legacy_move_that_cannot_be_read_stands_in_nobodys_way(wire: Wire, data: bytes) -> None:
    async def ask(session: Session) -> None:
        await session.multi([Create(layout.REASSIGN_PARTITIONS, data)])
        await gone(session, layout.REASSIGN_PARTITIONS)

    wire.in_store(ask)


def test_a_legacy_move_is_followed_after_one_that_was_not_readable(wire: Wire) -> None:
    leader = wire.cluster.partition("t")
    assert leader is not None
    away = BrokerId(1 - leader.leader)

    async def ask(session: Session) -> None:
        await session.multi([Create(layout.REASSIGN_PARTITIONS, b"?")])
        await gone(session, layout.REASSIGN_PARTITIONS)
        data = layout.encode_reassignment({T0: (away,)})
        await session.multi([Create(layout.REASSIGN_PARTITIONS, data)])
        await gone(session, layout.REASSIGN_PARTITIONS)

    def has_moved(view: ClusterView) -> bool:
        moved = view.partition("t", 0)
        return moved is not None and moved.replicas == (away,)

    wire.in_store(ask)
    wire.cluster.wait_until(has_moved)  # the store knows before brokers are told


def test_a_notice_of_an_isr_change_is_taken_up_at_once(wire: Wire) -> None:
    notices = [
        layout.encode_partitions([T0]),
        b"?",
        layout.encode_partitions([TopicPartition("../x", 0)]),
    ]

    async def leave(session: Session) -> None:
        ops = [Create(layout.ISR_CHANGE_PREFIX, data, sequential=True) for data in notices]
        for result in await session.multi(ops):
            assert result.ok
        for name in await session.children(layout.ISR_CHANGES) or ():
            await gone(session, f"{layout.ISR_CHANGES}/{name}")

    wire.in_store(leave)


@pytest.mark.parametrize(
    "data",
    [layout.encode_feature(layout.FeatureNode(enabled=False, levels={"x": 1})), b"?"],
    ids=["disabled", "garbage"],
)
def test_features_that_were_switched_off_are_enabled_by_the_next_controller(data: bytes) -> None:
    with Cluster(1) as cluster:
        wire = Wire(cluster)

        async def disable(session: Session) -> None:
            await session.multi([SetData(layout.FEATURE, data)])

        async def feature(session: Session) -> Node | None:
            return await session.get(layout.FEATURE)

        wire.in_store(disable)
        cluster.restart_broker(0)
        cluster.create_topic("t")  # there is a controller again
        node = wire.in_store(feature)
        assert node is not None
        assert layout.decode_feature(node.data) == layout.FeatureNode(enabled=True)
