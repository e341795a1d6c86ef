"""Logs of topics that ended while their broker was away."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from klamm.broker.storage.strays import find_strays
from klamm.controller.events import ExplanationAsked, Obstacle
from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.settings import LogSettings
from klamm.model.assignment import Assignment
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import alter_partition_reassignments
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, Delete, Session
from unit.broker.brokers import World, log_values, produce, until, world

ME, OLD, NEW = BrokerId(2), uuid.uuid4(), uuid.uuid4()
T0 = TopicPartition("t", 0)

# The id in the log, the topic's in the store (None: no such topic), the tombstone's: is it a stray?
CASES: dict[str, tuple[uuid.UUID | None, uuid.UUID | str | None, uuid.UUID | None, bool]] = {
    "a log of its topic": (OLD, OLD, None, False),
    "the topic is gone": (OLD, None, None, True),
    "the name is another topic's now": (OLD, NEW, None, True),
    "the topic has no id": (OLD, "no id", None, False),
    "the log lost its id": (None, NEW, None, False),
    "the log lost its id and its topic": (None, None, None, True),
    "the controller has it removed": (OLD, None, OLD, False),
    "the controller has it removed for a later topic": (OLD, NEW, OLD, False),
    "the controller has a log without id removed": (None, None, OLD, False),
    "the controller had an earlier one removed": (OLD, None, NEW, True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_what_is_a_stray(
    tmp_path: Path, case: tuple[uuid.UUID | None, uuid.UUID | str | None, uuid.UUID | None, bool]
) -> None:
    in_log, in_store, tombstone, expected = case
    store = EmbeddedStore.open(None)
    session = await store.connect()
    ops = [Create(path) for path in ("/brokers", "/brokers/topics", "/klamm", layout.FORGOTTEN)]
    if in_store is not None:
        topic_id = in_store if isinstance(in_store, uuid.UUID) else None
        node = layout.TopicNode(topic_id, {0: Assignment((ME,))})
        ops.append(Create(layout.topic_path("t"), layout.encode_topic(node)))
    if tombstone is not None:
        text = layout.encode_forgotten([layout.ForgottenReplica(tombstone, T0)])
        ops.append(Create(layout.forgotten_path(ME), text))
    assert all(result.ok for result in await session.multi(ops))
    log = PartitionLog.create(T0, str(tmp_path / "t-0"), LogSettings(), FilePool(), topic_id=in_log)
    assert await find_strays(session, ME, [log]) == ([T0] if expected else [])
    log.close(clean=False)
    await store.close()


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        ({0: Assignment((BrokerId(1),))}, [T0]),
        ({0: Assignment((BrokerId(1), ME), adding=(ME,))}, []),
        ({0: Assignment((BrokerId(1), ME), removing=(ME,))}, []),
        ({1: Assignment((ME,))}, [T0]),
    ],
)
async def test_a_replica_that_is_kept_elsewhere_is_a_stray(
    tmp_path: Path, assigned: dict[int, Assignment], expected: list[TopicPartition]
) -> None:
    store = EmbeddedStore.open(None)
    session = await store.connect()
    node = layout.encode_topic(layout.TopicNode(OLD, assigned))
    paths = ("/brokers", "/brokers/topics", "/klamm", layout.FORGOTTEN)
    await session.multi([*map(Create, paths), Create(layout.topic_path("t"), node)])
    log = PartitionLog.create(T0, str(tmp_path / "t-0"), LogSettings(), FilePool(), topic_id=OLD)
    assert await find_strays(session, ME, [log]) == expected
    log.close(clean=False)
    await store.close()


async def test_a_replica_moved_while_its_broker_was_away_is_removed_and_no_stray(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (0, 2))
        await write_to(w, 0)
        await until(lambda: log_values(w.replica(2)) == [b"first"], "broker 2 has a record")
        await w.kill(2)
        await until(lambda: w.leader("t").isr.committed == (0,), "the set without broker 2")
        request = alter_partition_reassignments.Request(
            60_000,
            [
                alter_partition_reassignments.ReassignableTopic(
                    "t", [alter_partition_reassignments.ReassignablePartition(0, [0, 1])]
                )
            ],
        )
        controller = next(b for b in w.brokers.values() if b.is_controller)
        connection = await w.connect(controller.id)
        answer = await connection.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request)
        assert answer.responses[0].partitions[0].error_code == 0
        await connection.close()
        for broker in w.brokers.values():
            assert await broker.parts.metadata.wait_for(
                lambda s: set(s.topics["t"][0].replicas) == {0, 1}, 60_000
            )
        await w.start(2)
        home = tmp_path / "broker-2"
        await until(lambda: any(home.glob("t-0.*-delete")), "the controller has it removed")
        assert not list(home.glob("t-0.*-stray"))


async def write_to(w: World, broker: int) -> None:
    """Let the log have files, by its first record."""
    connection = await w.connect(broker)
    assert (await produce(connection, b"first")).error_code == 0
    await connection.close()


async def remove_by_hand(session: Session, w: World) -> None:
    for path in (*reversed(layout.with_parents([layout.state_path(T0)])),):
        if path.startswith(layout.topic_path("t")):
            (result,) = await session.multi([Delete(path)])
            assert result.ok, path
    for broker in w.brokers.values():
        assert await broker.parts.metadata.wait_for(lambda s: "t" not in s.topics, 60_000)


async def test_a_log_of_an_ended_topic_makes_way_for_a_later_one_and_its_records_stay(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (2,))
        connection = await w.connect(2)
        assert (await produce(connection, b"of the first life")).error_code == 0
        await connection.close()
        await w.kill(2)
        await remove_by_hand(w.brokers[0].parts.session, w)
        node = layout.TopicNode(NEW, {0: Assignment((ME,))})
        await w.brokers[0].parts.session.multi(
            [Create(layout.topic_path("t"), layout.encode_topic(node))]
        )
        await w.start(2)
        await until(lambda: w.leader("t").leader == 2, "the later topic is led")
        connection = await w.connect(2)
        assert (await produce(connection, b"of the second")).error_code == 0
        await connection.close()
        assert log_values(w.replica(2)) == [b"of the second"]
        (stray,) = (tmp_path / "broker-2").glob("t-0.*-stray")
        assert b"of the first life" in (stray / f"{0:020d}.log").read_bytes()


async def test_a_running_broker_keeps_the_other_log_until_it_restarts_and_another_leads(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (2,))
        await write_to(w, 2)
        session = w.brokers[0].parts.session
        await remove_by_hand(session, w)
        # The second partition has nothing in its way: its neighbour must not spoil it.
        replicas = Assignment((ME, BrokerId(1)))
        node = layout.TopicNode(NEW, {0: replicas, 1: replicas})
        await session.multi([Create(layout.topic_path("t"), layout.encode_topic(node))])
        await until(lambda: w.leader("t").leader == 1, "another replica leads")
        await until(lambda: w.leader("t", 1).leader == 2, "the other partition is as it was")
        controller = next(b for b in w.brokers.values() if b.is_controller).parts.controller
        told = await controller.submit(ExplanationAsked("t"))
        assert told is not None
        assert [(x.partition, x.broker, x.why) for x in told.waiting] == [
            (0, ME, Obstacle.FOREIGN_LOG)
        ]
        await w.kill(2)
        await w.start(2)
        await until(lambda: set(w.leader("t").isr.committed) == {1, 2}, "the replica is in sync")
        assert list((tmp_path / "broker-2").glob("t-0.*-stray"))
