"""Logs that move between a broker's directories, under real brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.broker.replicas.partition import Role
from klamm.broker.server import Broker
from klamm.client.aio.connection import Connection
from klamm.log.directory import LogDirectory
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.model.settings import BrokerSettings
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import alter_replica_log_dirs, describe_log_dirs
from unit.broker.brokers import World, fetch, log_values, produce, until, values, world

TP = TopicPartition("t", 0)
WRITTEN = 20  # records, of which a slow move copies one a second
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
# A copy of a few hundred bytes then takes as long as a test wants it to take.
SLOW = {
    "log_dirs": "one,two",
    RATE.replace(".", "_"): "1",
    "alter_log_dirs_replication_quota_window_num": "1",
}


def homes(broker: Broker) -> tuple[LogDirectory, LogDirectory]:
    """The directory that has the partition, and the other one."""
    one, two = broker.parts.logs.directories
    return (one, two) if one.get(TP) is not None else (two, one)


async def alter(connection: Connection, path: str, *partitions: TopicPartition) -> list[int]:
    topics = [
        alter_replica_log_dirs.AlterReplicaLogDirTopic(p.topic, [p.partition])
        for p in partitions or (TP,)
    ]
    request = alter_replica_log_dirs.Request(
        [alter_replica_log_dirs.AlterReplicaLogDir(path, topics)]
    )
    response = await connection.request(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request)
    return [p.error_code for result in response.results for p in result.partitions]


async def described(connection: Connection) -> dict[str, list[tuple[int, bool]]]:
    """(offset lag, is it a future log) of the partition's logs, by the directory's name."""
    request = describe_log_dirs.Request(None)
    response = await connection.request(ApiKey.DESCRIBE_LOG_DIRS, 4, request)
    return {
        Path(result.log_dir).name: [
            (p.offset_lag, p.is_future_key) for topic in result.topics for p in topic.partitions
        ]
        for result in response.results
    }


def hurry(broker: Broker) -> None:
    """Lift the limit of the broker's moves."""
    broker.parts.throttles.take_rate(BrokerSettings.parse({}))


async def test_a_log_moves_while_it_is_written_and_read(tmp_path: Path) -> None:
    async with world(tmp_path, count=2, log_dirs="one,two", segment_bytes="2000") as w:
        await w.create("t", (0, 1))
        writer, reader = await w.connect(0), await w.connect(0)
        other = await w.connect(1)
        sent = [b"%d" % at * 50 for at in range(30)]
        for value in sent:
            assert (await produce(writer, value)).error_code == 0
        for broker, asker in ((w.brokers[0], reader), (w.brokers[1], other)):
            source, target = homes(broker)
            before = w.replica(broker.id).log
            assert await alter(asker, target.path) == [0]
            while homes(broker)[0] is source:
                sent.append(b"meanwhile %d" % len(sent))
                assert (await produce(writer, sent[-1])).error_code == 0
            assert homes(broker) == (target, source)
            assert w.replica(broker.id).log is not before
            sent.append(b"after")
            assert (await produce(writer, sent[-1])).error_code == 0
        assert len(w.leader().isr.committed) == 2
        assert log_values(w.replica(0)) == log_values(w.replica(1)) == sent
        data = await fetch(reader, len(sent) - 1)
        assert values(data)[-1] == b"after"
        for connection in (writer, reader, other):
            await connection.close()


async def test_what_cannot_be_moved_is_said(tmp_path: Path) -> None:
    async with world(tmp_path, count=2, log_dirs="one,two") as w:
        await w.create("t", (0,))
        connection, other = await w.connect(0), await w.connect(1)
        source, target = homes(w.brokers[0])
        unknown = TopicPartition("unknown", 0)
        assert await alter(connection, "/nowhere") == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await alter(connection, source.path, TP, unknown) == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        elsewhere = w.brokers[1].parts.logs.directories[1].path
        assert await alter(other, elsewhere) == [ErrorCode.REPLICA_NOT_AVAILABLE]
        target.health.failed(OSError(5, "planted"))
        assert await alter(connection, target.path) == [ErrorCode.KAFKA_STORAGE_ERROR]
        await connection.close()
        await other.close()


@pytest.mark.parametrize("wanted", [0, 1])
async def test_where_a_replica_is_to_be_made_is_remembered(tmp_path: Path, wanted: int) -> None:
    async with world(tmp_path, count=1, log_dirs="one,two") as w:
        connection = await w.connect(0)
        directory = w.brokers[0].parts.logs.directories[wanted]
        assert await alter(connection, directory.path) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await w.create("t", (0,))
        assert directory.get(TP) is not None
        await connection.close()


async def slow_move(w: World, connection: Connection) -> tuple[LogDirectory, LogDirectory]:
    """Begin a move that copies a record a second."""
    for at in range(WRITTEN):
        assert (await produce(connection, b"%d" % at * 100)).error_code == 0
    source, target = homes(w.brokers[0])
    assert await alter(connection, target.path) == [0]
    await until(lambda: target.futures[TP].log_end_offset > 0, "some is copied")
    return source, target


async def test_a_move_is_seen_and_can_be_called_off(tmp_path: Path) -> None:
    async with world(tmp_path, count=1, **SLOW) as w:
        await w.create("t", (0,))
        connection = await w.connect(0)
        source, target = await slow_move(w, connection)
        seen = await described(connection)
        assert seen[Path(source.path).name] == [(0, False)]
        ((lag, is_future),) = seen[Path(target.path).name]
        assert is_future
        assert 0 < lag < WRITTEN
        assert await alter(connection, target.path) == [0], "asking again changes nothing"
        assert target.futures[TP].log_end_offset > 0
        assert await alter(connection, source.path) == [0]
        assert (await described(connection))[Path(target.path).name] == []
        assert homes(w.brokers[0]) == (source, target)
        hurry(w.brokers[0])
        assert await alter(connection, target.path) == [0]
        await until(lambda: target.get(TP) is not None, "it can begin anew")
        await connection.close()


@pytest.mark.parametrize("at_once", [1, 2])
async def test_a_short_move_need_not_wait_for_a_long_one(tmp_path: Path, at_once: int) -> None:
    settings = {**SLOW, "num_replica_alter_log_dirs_threads": str(at_once)}
    async with world(tmp_path, count=1, **settings) as w:
        await w.create("t", (0,))
        await w.create("u", (0,))
        connection = await w.connect(0)
        _, target = await slow_move(w, connection)
        short = TopicPartition("u", 0)
        (home,) = (d for d in w.brokers[0].parts.logs.directories if d.get(short) is not None)
        (other,) = (d for d in w.brokers[0].parts.logs.directories if d is not home)
        assert await alter(connection, other.path, short) == [0]
        if at_once > 1:
            await until(lambda: other.get(short) is not None, "it has moved")
        else:
            copied = target.futures[TP].log_end_offset
            await until(lambda: target.futures[TP].log_end_offset > copied, "the long one goes")
            assert other.get(short) is None
            assert await alter(connection, homes(w.brokers[0])[0].path) == [0]
            await until(lambda: other.get(short) is not None, "its turn has come")
        await connection.close()


async def test_a_move_goes_on_after_a_crash(tmp_path: Path) -> None:
    async with world(tmp_path, count=1, **SLOW) as w:
        await w.create("t", (0,))
        connection = await w.connect(0)
        await slow_move(w, connection)
        await connection.close()
        await w.kill(0)
        broker = await w.start(0)
        target = broker.parts.logs.future_home(TP)
        assert target is not None
        hurry(broker)
        await until(lambda: target.get(TP) is w.replica(0).log, "the move goes on")
        assert len(log_values(w.leader())) == WRITTEN


async def test_a_disk_that_fails_during_a_move(tmp_path: Path) -> None:
    async with world(tmp_path, count=2, **SLOW) as w:
        await w.create("t", (0, 1))
        connection = await w.connect(0)
        _, target = await slow_move(w, connection)
        target.health.failed(OSError(5, "planted"))
        await until(lambda: not target.futures, "the copy is given up")
        assert (await produce(connection, b"goes on")).error_code == 0
        assert w.replica(0).role is Role.LEADER
        await connection.close()


async def test_a_disk_that_fails_below_a_log_that_moves(tmp_path: Path) -> None:
    async with world(tmp_path, count=2, **SLOW) as w:
        await w.create("t", (0, 1))
        connection = await w.connect(0)
        source, target = await slow_move(w, connection)
        source.health.failed(OSError(5, "planted"))
        await until(lambda: w.leader().leader == 1, "the other replica leads")
        assert not target.futures
        assert await alter(connection, target.path) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert len(log_values(w.leader())) == WRITTEN
        await connection.close()
