"""Orders that cannot be obeyed: impossible names, places that are taken, no descriptors left."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.broker.server import Broker
from klamm.log.disk import names
from klamm.log.disk.register import read_register
from klamm.log.partition import StorageTrouble
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages import leader_and_isr, stop_replica, update_metadata
from klamm.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
)
from klamm.protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaTopicState
from klamm.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from unit.broker.brokers import World, log_values, produce, world

REFUSED = ErrorCode.INVALID_TOPIC_EXCEPTION


def epochs(broker: Broker) -> dict[str, int]:
    return {
        "controller_id": 0,
        "controller_epoch": broker.parts.replicas.controller_epoch,
        "broker_epoch": broker.parts.epoch,
    }


def state(partition: int, **values: int) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=partition,
        controller_epoch=1,
        leader=0,
        leader_epoch=0,
        isr=[0],
        replicas=[0],
        is_new=True,
        **values,
    )


async def order(broker: Broker, *named: tuple[str, int]) -> dict[tuple[str, int], ErrorCode]:
    request = leader_and_isr.Request(
        **epochs(broker),
        topic_states=[
            LeaderAndIsrTopicState(topic, uuid.uuid4(), [state(partition)])
            for topic, partition in named
        ],
    )
    _, results = await broker.parts.replicas.obey(request)
    return {tuple(order.topic_partition): code for order, code in results}


async def stop(broker: Broker, *named: tuple[str, int]) -> dict[tuple[str, int], ErrorCode]:
    request = stop_replica.Request(
        **epochs(broker),
        topic_states=[
            StopReplicaTopicState(
                topic, [StopReplicaPartitionState(partition, -2, delete_partition=True)]
            )
            for topic, partition in named
        ],
    )
    _, results = await broker.parts.replicas.stop(request)
    return {tuple(stop.topic_partition): code for stop, code in results}


def files_below(path: Path) -> dict[str, str]:
    return {str(file.relative_to(path)): file.read_text() for file in path.rglob("*.txt")}


@pytest.mark.parametrize("is_absolute", [True, False])
async def test_a_name_that_is_a_path_reaches_nothing(tmp_path: Path, is_absolute: bool) -> None:
    outside = tmp_path / "some" / "dir"
    (outside / "precious-7").mkdir(parents=True)
    (outside / "precious-7" / "letters.txt").write_text("dear")

    above = Path("..", "..", "some", "dir")
    evil = str((outside if is_absolute else above) / "precious"), 7

    async def run() -> None:
        async with world(tmp_path / "data", count=1) as w:
            broker = w.brokers[0]
            assert await order(broker, ("good", 0), evil, ("good", 1)) == {
                ("good", 0): ErrorCode.NONE,
                evil: REFUSED,
                ("good", 1): ErrorCode.NONE,
            }
            assert await stop(broker, evil, ("good", 0)) == {
                evil: REFUSED,
                ("good", 0): ErrorCode.NONE,
            }
            assert broker.parts.replicas.partitions.keys() == {TopicPartition("good", 1)}
            await broker.parts.in_worker(
                lambda: broker.parts.logs.directories[0].purge_due(1 << 62)
            )

    await run()
    assert files_below(outside) == {"precious-7/letters.txt": "dear"}
    assert os.listdir(outside) == ["precious-7"]


@pytest.mark.parametrize(
    "named", [("", 0), ("..", 0), ("a b", 0), ("a\0b", 0), ("a" * 400, 0), ("a", -1), ("é", 0)]
)
async def test_what_is_no_partition_is_refused_alone(
    tmp_path: Path, named: tuple[str, int]
) -> None:
    async with world(tmp_path, count=1) as w:
        broker = w.brokers[0]
        both = await order(broker, named, ("good", 0))
        assert both == {named: REFUSED, ("good", 0): ErrorCode.NONE}
        assert (await stop(broker, named))[named] is REFUSED
        home = broker.parts.logs.directories[0].path
        assert broker.parts.relocations.alter(TopicPartition(*named), home) is REFUSED
        assert broker.parts.logs.directories[0].is_online


async def test_metadata_of_what_is_no_partition_is_left_out(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        broker = w.brokers[0]
        await w.create("t", (0,))
        shown = UpdateMetadataPartitionState(
            partition_index=3, leader=0, leader_epoch=0, isr=[0], replicas=[0]
        )
        request = update_metadata.Request(
            **epochs(broker),
            topic_states=[
                UpdateMetadataTopicState("../t", uuid.uuid4(), [shown]),
                UpdateMetadataTopicState("good", uuid.uuid4(), [shown]),
            ],
        )
        assert await broker.parts.replicas.learn(request) is REFUSED
        assert "../t" not in broker.parts.metadata.snapshot.topics
        assert "good" in broker.parts.metadata.snapshot.topic_ids


async def foreign_refused(w: World, home: Path) -> None:
    broker = w.brokers[0]
    both = await order(broker, ("backup", 2024), ("good", 0))
    assert both == {
        ("backup", 2024): ErrorCode.INCONSISTENT_TOPIC_ID,
        ("good", 0): ErrorCode.NONE,
    }
    await stop(broker, ("backup", 2024))
    assert (home / "backup-2024" / "notes.txt").read_text() == "mine"


async def test_a_directory_that_is_no_log_is_neither_taken_nor_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "broker-0"

    async with world(tmp_path, count=1) as w:
        (home / "backup-2024").mkdir()
        (home / "backup-2024" / "notes.txt").write_text("mine")
        await foreign_refused(w, home)
        await w.kill(0)
        await w.start(0)
        assert [r for r in caplog.records if r.message == "this is no log, and is left alone"]
        await foreign_refused(w, home)


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_descriptors_a_broker_refuses_and_keeps_its_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        broker = w.brokers[0]
        connection = await w.connect(0)
        importlib.import_module("klamm.broker.api.produce")  # a broker does so in its own time
        with no_descriptors():
            assert await order(broker, ("late", 0)) == {("late", 0): ErrorCode.REQUEST_TIMED_OUT}
            result = await produce(connection, b"refused")
            assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            result = await produce(connection, b"refused")
            directory = broker.parts.logs.directories[0]
            with pytest.raises(StorageTrouble):
                await broker.parts.in_worker(directory.checkpoint)
        assert directory.is_online
        told = [r for r in caplog.records if r.message == "storage trouble"]
        assert len(told) == 1
        assert await order(broker, ("late", 0)) == {("late", 0): ErrorCode.NONE}
        assert (await produce(connection, b"taken")).error_code == 0
        assert log_values(w.leader()) == [b"taken"]
        await connection.close()


async def test_new_logs_are_on_paper_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    turns = 0

    async def be_served() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with world(tmp_path, count=1) as w:
        broker = w.brokers[0]
        home = Path(broker.parts.logs.directories[0].path)
        other = asyncio.create_task(be_served())
        named = [("many", number) for number in range(500)]
        codes = await order(broker, *named, named[0])
        other.cancel()
        # What is named twice is made once, and is not another topic's by then.
        assert codes.pop(named[0]) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert set(codes.values()) == {ErrorCode.NONE}
        assert all(
            (p := broker.parts.replicas.partition(TopicPartition(*one))) is not None and p.is_leader
            for one in named
        )
        assert len(broker.parts.logs.directories[0]) == 500
        assert not any(name.startswith("many-") for name in os.listdir(home))
        written = read_register(str(home / names.REGISTER))
        assert written.keys() == {TopicPartition(*one) for one in named}
        # Each of the slices let others in, and so did the wait for the disk.
        assert turns > 3


async def test_a_few_new_logs_have_their_directories_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        broker = w.brokers[0]
        home = Path(broker.parts.logs.directories[0].path)
        named = [("few", number) for number in range(3)]
        assert set((await order(broker, *named)).values()) == {ErrorCode.NONE}
        assert all((home / f"few-{number}").is_dir() for number in range(3))
        # Until a checkpoint has brought them to the disk, the register answers for them.
        written = read_register(str(home / names.REGISTER))
        assert written.keys() == {TopicPartition(*one) for one in named}


async def test_an_order_that_repeats_an_epoch_gives_a_log_its_id(tmp_path: Path) -> None:
    async with world(tmp_path, 2) as cluster:
        await cluster.create("t", (0, 1))
        known = cluster.leader().leader_epoch
        for broker_id, broker in cluster.brokers.items():
            partition = cluster.replica(broker_id)
            assert partition.log is not None
            topic_id, partition.log.topic_id = partition.log.topic_id, None
            assert topic_id is not None
            states = [
                LeaderAndIsrPartitionState(
                    partition_index=0,
                    controller_epoch=1,
                    leader=cluster.leader().leader,
                    leader_epoch=known,
                    isr=[0, 1],
                    replicas=[0, 1],
                )
            ]
            request = leader_and_isr.Request(
                **epochs(broker), topic_states=[LeaderAndIsrTopicState("t", topic_id, states)]
            )
            _, ((_, code),) = await broker.parts.replicas.obey(request)
            assert (code, partition.log.topic_id) == (ErrorCode.NONE, topic_id)
            _, ((_, again),) = await broker.parts.replicas.obey(request)
            assert again is ErrorCode.STALE_CONTROLLER_EPOCH
        connection = await cluster.connect(cluster.leader().leader)
        # The follower goes on, by the id.
        assert (await produce(connection, b"v")).error_code == ErrorCode.NONE
        await connection.close()
