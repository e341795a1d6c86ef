"""Replication between real brokers: in-sync sets, truncation, readers of followers, failures."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from pathlib import Path

import pytest

from klamm.broker.metadata_cache import MetadataSnapshot
from klamm.broker.replicas.partition import Partition, Role
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol import fetch as fetch_messages
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages import (
    delete_records,
    elect_leaders,
    leader_and_isr,
    list_offsets,
    metadata,
    stop_replica,
    update_metadata,
)
from klamm.protocol.produce import PartitionRecords, ProduceRequest, TopicRecords
from klamm.replication.leader import Isr
from klamm.store import layout
from klamm.store.embedded import EmbeddedSession
from klamm.store.port import Create
from unit.broker.brokers import World, fetch, log_values, produce, until, values, world


def replica_ends(w: World) -> list[int]:
    logs = [w.replica(broker).log for broker in w.brokers]
    return [log.log_end_offset for log in logs if log is not None]


async def test_records_are_on_all_replicas_when_they_are_acknowledged(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (1, 2, 0))
        connection = await w.connect(1)
        for at in range(20):
            result = await produce(connection, b"a%d" % at, b"b%d" % at)
            assert (result.error_code, result.base_offset) == (0, 2 * at)
            assert replica_ends(w) == [2 * at + 2] * 3
        held = [log_values(w.replica(broker)) for broker in range(3)]
        assert held[0] == held[1] == held[2]
        assert len(held[0]) == 40
        await connection.close()


async def test_a_follower_that_hangs_leaves_the_set_and_comes_back(tmp_path: Path) -> None:
    async with world(tmp_path, min_insync_replicas="2", replica_lag_time_max_ms="1500") as w:
        await w.create("t", (0, 1, 2))
        connection = await w.connect(0)
        assert (await produce(connection, b"x")).error_code == 0
        await w.brokers[2].parts.fetchers.stop()
        result = await produce(connection, b"y", timeout_ms=20_000)
        assert result.error_code == 0, "once the laggard is out, two are enough"
        assert set(w.leader().isr.committed) == {0, 1}
        for broker in w.brokers.values():
            await broker.parts.metadata.wait_for(lambda s: set(s.topics["t"][0].isr) == {0, 1})
        await w.brokers[1].parts.fetchers.stop()
        result = await produce(connection, b"z", timeout_ms=100)
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        await until(lambda: w.leader().isr.committed == (0,), "broker 1 leaves, too")
        result = await produce(connection, b"never")
        assert result.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        for late in (1, 2):
            w.brokers[late].parts.fetchers.add(w.replica(late))
            w.brokers[late].parts.fetchers.apply()
        await until(lambda: len(w.leader().isr.committed) == 3, "both come back")
        assert replica_ends(w) == [3, 3, 3]
        await connection.close()


async def test_a_producer_does_not_wait_for_a_follower_that_is_gone(tmp_path: Path) -> None:
    """It was caught up and not in sync: about to join, so the high watermark waited for it."""

    # What is done now and then is not done here within the test.
    async with world(tmp_path, count=2, replica_lag_time_max_ms="300000") as w:
        await w.create("t", (0, 1))
        broker, led = w.brokers[0], w.leader()
        await until(lambda: led.followers[BrokerId(1)].log_end == 0, "broker 1 has fetched")
        await w.brokers[1].parts.fetchers.stop()
        led.isr = Isr((broker.id,))
        connection = await w.connect(0)
        producing = asyncio.create_task(produce(connection, b"x", timeout_ms=60_000))
        local = led.log
        assert local is not None
        await until(lambda: local.log_end_offset == 1, "it is appended")
        assert local.high_watermark == 0
        await broker.parts.replicas.learn(
            update_metadata.Request(controller_epoch=broker.parts.replicas.controller_epoch)
        )
        assert (await asyncio.wait_for(producing, 30)).error_code == 0
        await connection.close()


async def test_a_partition_that_a_request_names_twice_is_acknowledged_twice(tmp_path: Path) -> None:
    def twice(value: bytes) -> TopicRecords:
        batches = (encode_batch([Record(0, 1_000, None, value + end)]) for end in (b"1", b"2"))
        return TopicRecords("t", [PartitionRecords(0, memoryview(batch)) for batch in batches])

    async with world(tmp_path) as w:
        await w.create("t", (0, 1, 2))
        connection = await w.connect(0)
        response = await connection.produce(11, ProduceRequest(None, -1, 5_000, [twice(b"x")]))
        assert response is not None
        found = [(r.error_code, r.base_offset) for r in response.topics[0].partitions]
        assert found == [(0, 0), (0, 1)]
        assert replica_ends(w) == [2, 2, 2]
        for follower in (1, 2):
            await w.brokers[follower].parts.fetchers.stop()
        response = await connection.produce(11, ProduceRequest(None, -1, 100, [twice(b"y")]))
        assert response is not None
        codes = [result.error_code for result in response.topics[0].partitions]
        assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 2, "neither is on all replicas"
        await connection.close()


async def test_what_only_a_dead_leader_had_is_cut_when_it_returns(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (0, 1, 2))
        connection = await w.connect(0)
        await produce(connection, b"kept-0", b"kept-1")
        await w.brokers[1].parts.fetchers.stop()
        await w.brokers[2].parts.fetchers.stop()
        for at in range(3):
            await produce(connection, b"lost-%d" % at, acks=1)
        await connection.close()
        await w.kill(0)
        await until(lambda: w.leader().leader != 0, "another leader")
        leader = w.leader().leader
        connection = await w.connect(leader)
        await produce(connection, b"new-0", acks=1)
        await w.start(0)
        await until(lambda: replica_ends(w) == [3, 3, 3], "all have what the leader has")
        for broker in range(3):
            assert log_values(w.replica(broker)) == [b"kept-0", b"kept-1", b"new-0"]
        await connection.close()


async def test_a_leader_without_records_of_its_own_epoch_follows_again(tmp_path: Path) -> None:
    """It has left its epoch at the end of its log, where the next leader has another one."""

    async with world(tmp_path) as w:
        await w.create("t", (0, 1, 2))
        connection = await w.connect(0)
        await produce(connection, b"x")
        await connection.close()
        await w.kill(0)
        await until(lambda: w.leader().leader == 1, "another leader")
        await w.start(0)
        await until(lambda: len(w.leader().isr.committed) == 3, "all in sync again")
        controller = next(b.id for b in w.brokers.values() if b.is_controller)
        connection = await w.connect(controller)
        request = elect_leaders.Request(topic_partitions=None, timeout_ms=5_000)
        await connection.request(ApiKey.ELECT_LEADERS, 2, request)
        await until(lambda: w.leader().leader == 0, "the preferred leader is back")
        await connection.close()
        connection = await w.connect(0)
        assert (await produce(connection, b"y")).error_code == 0
        assert replica_ends(w) == [2, 2, 2]
        epochs = [w.replica(at).log.epochs.entries for at in range(3)]  # type: ignore[union-attr]
        assert epochs[0] == epochs[1] == epochs[2]
        await connection.close()


async def test_a_follower_older_than_the_leaders_log_starts_anew(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (0, 1))
        connection = await w.connect(0)
        await produce(connection, b"old-0", b"old-1")
        await w.kill(1)
        for at in range(5):
            await produce(connection, b"new-%d" % at, acks=1)
        leader = w.leader().log
        assert leader is not None
        await until(lambda: leader.high_watermark == 7, "committed without broker 1")
        await delete(w, connection, 5)
        await w.start(1)
        await until(lambda: len(w.leader().isr.committed) == 2, "in sync")
        follower = w.replica(1).log
        assert follower is not None
        assert (follower.log_start_offset, follower.log_end_offset) == (5, 7)
        assert log_values(w.replica(1)) == [b"new-3", b"new-4"]
        await connection.close()


async def delete(w: World, connection: object, offset: int) -> delete_records.Response:
    wanted = [delete_records.DeleteRecordsPartition(0, offset)]
    request = delete_records.Request([delete_records.DeleteRecordsTopic("t", wanted)], 5_000)
    response = await connection.request(ApiKey.DELETE_RECORDS, 2, request)  # type: ignore[attr-defined]
    assert isinstance(response, delete_records.Response)
    return response


async def test_deleted_records_are_gone_everywhere_before_the_answer(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (0, 1, 2))
        connection = await w.connect(0)
        await produce(connection, *(b"%d" % at for at in range(10)))
        answer = (await delete(w, connection, 4)).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 4)
        starts = [w.replica(at).log.log_start_offset for at in range(3)]  # type: ignore[union-attr]
        assert starts == [4, 4, 4]
        assert (await fetch(connection, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        beyond = (await delete(w, connection, 11)).topics[0].partitions[0]
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        rest = (await delete(w, connection, -1)).topics[0].partitions[0]
        assert rest.low_watermark == 10
        await connection.close()


async def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Path) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

    async with world(tmp_path, racks=("a", "b", "c"), replica_selector_class=selector) as w:
        await w.create("t", (0, 1, 2))
        at_leader, at_follower = await w.connect(0), await w.connect(1)
        await produce(at_leader, b"x", b"y")
        redirected = await fetch(at_leader, 0, rack="b")
        assert (redirected.preferred_read_replica, len(redirected.records)) == (1, 0)
        assert values(await fetch(at_leader, 0, rack="a")) == [b"x", b"y"]
        assert values(await fetch(at_leader, 0, rack="elsewhere")) == [b"x", b"y"]
        # What a follower knows to be committed comes to it one fetch later: it may wait.
        near = await fetch(at_follower, 0, rack="b", max_wait_ms=5_000)
        assert values(near) == [b"x", b"y"]
        for connection in (at_leader, at_follower):
            await connection.close()


async def test_a_waiting_fetch_hears_of_committed_records_and_of_a_lost_leader(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (0, 1, 2))
        reader, writer = await w.connect(0), await w.connect(0)
        waiting = asyncio.create_task(fetch(reader, 0, max_wait_ms=20_000))
        await produce(writer, b"x")
        assert values(await waiting) == [b"x"]
        waiting = asyncio.create_task(fetch(reader, 1, max_wait_ms=20_000))
        await until(lambda: bool(w.leader().committed_watches), "the fetch waits")
        w.leader().stop()
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for connection in (reader, writer):
            await connection.close()


async def test_offsets_by_name_and_by_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, count=1) as w:
            await w.create("t", (0,))
            connection = await w.connect(0)
            await produce(connection, *(b"%d" % at for at in range(5)))  # times 1000 to 1004

            async def ask(timestamp: int, version: int = 9) -> tuple[int, int, int]:
                wanted = [list_offsets.ListOffsetsPartition(0, -1, timestamp)]
                request = list_offsets.Request(-1, 0, [list_offsets.ListOffsetsTopic("t", wanted)])
                response = await connection.request(ApiKey.LIST_OFFSETS, version, request)
                answer = response.topics[0].partitions[0]
                return answer.error_code, answer.offset, answer.timestamp

            assert await ask(-1) == (0, 5, -1)
            assert await ask(-2) == (0, 0, -1)
            assert await ask(-3) == (0, 4, 1004)
            assert await ask(-4) == (0, 0, -1)
            assert await ask(-5) == (0, -1, -1)
            assert await ask(1002) == (0, 2, 1002)
            assert await ask(1005) == (0, -1, -1)
            assert await ask(-3, version=6) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
            assert await ask(-9) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
            await connection.close()

    await run()


async def test_a_failed_disk_moves_its_partitions_and_leaves_the_others(tmp_path: Path) -> None:
    async with world(tmp_path, log_dirs="one,two") as w:
        await w.create("t", (0, 1), (0, 1))
        broker = w.brokers[0]
        hit, spared = broker.parts.logs.directories
        assert [len(hit), len(spared)] == [1, 1]
        (victim,) = (log.topic_partition for log in hit)
        (other,) = (log.topic_partition for log in spared)
        hit.health.failed(OSError(5, "planted"))
        await until(lambda: w.leader("t", victim.partition).leader == 1, "the controller moves it")
        lost = broker.parts.replicas.partition(victim)
        assert lost is not None
        assert lost.role is Role.OFFLINE
        kept = broker.parts.replicas.partition(other)
        assert kept is not None
        assert kept.role is Role.LEADER
        for at in (0, 1):
            found = await w.brokers[at].parts.metadata.wait_for(
                lambda s: 0 in s.topics["t"][victim.partition].offline, 10_000
            )
            assert found, f"broker {at} tells its clients"


@pytest.mark.parametrize("count", [1, 64])
async def test_a_new_replica_is_on_the_disk_when_the_controller_hears_of_it(
    tmp_path: Path, count: int
) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", *[(0,)] * count)
        term = w.brokers[0].parts.controller._term
        assert term is not None
        await term.delivered()
        made = list(w.brokers[0].parts.logs)
        assert len(made) == count
        assert all(local.durability.home_synced for local in made)


async def test_a_disk_that_does_not_take_a_new_log_loses_its_replicas(tmp_path: Path) -> None:
    async with world(tmp_path, count=2, log_dirs="one,two") as w:
        hit = w.brokers[0].parts.logs.directories[0]
        shutil.rmtree(hit.path)  # a new directory can neither be made nor synced
        await w.create("t", (0, 1), (0, 1))
        await until(lambda: {w.leader("t", at).leader for at in range(2)} == {0, 1}, "one each")
        lost = [
            p for p in w.brokers[0].parts.replicas.partitions.values() if p.role is Role.OFFLINE
        ]
        assert len(lost) == 1
        assert not hit.is_online


async def test_a_broker_without_a_disk_stops(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (0, 1, 2))
        w.brokers[0].parts.logs.directories[0].health.failed(OSError(5, "planted"))
        async with asyncio.timeout(10):
            await w.brokers.pop(0).stopped.wait()
        await until(lambda: w.leader().leader != 0, "the others go on")


async def produce_somewhere(w: World, value: bytes) -> None:
    """As a client does: find the leader, and look for it again when it is another one."""
    for _ in range(200):
        connection = await w.connect(max((p.leader_epoch, p.leader) for p in leaders(w))[1])
        result = await produce(connection, value)
        await connection.close()
        if result.error_code == 0:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{value!r} was never acknowledged")


def leaders(w: World) -> list[Partition]:
    return [p for p in (w.replica(broker) for broker in w.brokers) if p.is_leader]


async def test_a_broker_whose_session_expired_registers_as_a_new_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", (0, 1, 2))
        await produce_somewhere(w, b"x")
        for broker in (w.brokers[1], w.brokers[0]):
            epoch, leader_epoch = broker.parts.epoch, w.leader().leader_epoch
            assert isinstance(broker.parts.session, EmbeddedSession)
            await broker.parts.session.expire()
            await until(lambda b=broker, e=epoch: b.parts.epoch > e, "registered")  # type: ignore[misc]
            await until(
                lambda e=leader_epoch: (  # type: ignore[misc]
                    len(leaders(w)) == 1
                    and w.leader().leader_epoch > e
                    and len(w.leader().isr.committed) == 3
                ),
                "the controller has noticed, and all are in sync again",
            )
            await produce_somewhere(w, b"y")
        held = [log_values(w.replica(at)) for at in range(3)]
        assert held[0] == held[1] == held[2] == [b"x", b"y", b"y"]


async def test_topic_ids_are_forgotten_with_the_last_replica(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,), (0,))
        await w.create("u", (0,))
        replicas = w.brokers[0].parts.replicas
        assert set(replicas.topic_names.values()) == {"t", "u"}

        async def stop(index: int) -> None:
            state = stop_replica.StopReplicaPartitionState(index, -2, delete_partition=True)
            topic = stop_replica.StopReplicaTopicState("t", [state])
            request = stop_replica.Request(
                controller_epoch=replicas.controller_epoch, topic_states=[topic]
            )
            assert (await replicas.stop(request))[0] == 0

        await stop(0)
        assert set(replicas.topic_names.values()) == {"t", "u"}
        await stop(1)
        assert set(replicas.topic_names.values()) == {"u"}


async def test_what_an_earlier_controller_says_late_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        replicas = w.brokers[0].parts.replicas
        late = replicas.controller_epoch
        replicas.authority.epoch += 1  # another one has spoken since
        state = leader_and_isr.LeaderAndIsrPartitionState(
            partition_index=0, leader=-1, leader_epoch=99, isr=[0], replicas=[0]
        )
        order = leader_and_isr.LeaderAndIsrTopicState(
            "t", w.brokers[0].parts.metadata.snapshot.topic_ids["t"], [state]
        )
        said, results = await replicas.obey(
            leader_and_isr.Request(controller_epoch=late, topic_states=[order])
        )
        assert (said, [code for _, code in results]) == (
            ErrorCode.STALE_CONTROLLER_EPOCH,
            [ErrorCode.STALE_CONTROLLER_EPOCH],
        )
        doomed = stop_replica.StopReplicaPartitionState(0, -2, delete_partition=True)
        stop = stop_replica.StopReplicaTopicState("t", [doomed])
        assert await replicas.stop(
            stop_replica.Request(controller_epoch=late, topic_states=[stop])
        ) == (ErrorCode.STALE_CONTROLLER_EPOCH, [])
        nobody = update_metadata.Request(controller_epoch=late)
        assert await replicas.learn(nobody) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert w.leader().leader == 0
        assert 0 in w.brokers[0].parts.metadata.snapshot.brokers


async def delete_topic(w: World) -> None:
    session = next(iter(w.brokers.values())).parts.session
    await session.multi([Create(layout.delete_topic_path("t"))])
    for broker in w.brokers.values():
        gone = await broker.parts.metadata.wait_for(lambda s: "t" not in s.topics, 10_000)
        assert gone, f"broker {broker.id} still knows it"
    for _ in range(2_000):
        if await session.get(layout.topic_path("t")) is None:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the topic is still in the store")


async def test_a_topic_created_again_is_replicated_under_its_new_id(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for attempt in range(3):
            await w.create("t", (0, 1, 2))
            connection = await w.connect(0)
            result = await produce(connection, b"%d" % attempt)
            assert result.error_code == 0, f"attempt {attempt}"
            assert [log_values(w.replica(at)) for at in range(3)] == [[b"%d" % attempt]] * 3
            await connection.close()
            await delete_topic(w)


async def test_a_session_does_not_take_a_new_topic_for_the_old_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        connection = await w.connect_as_broker(0)
        session_id, codes = 0, []
        for epoch in range(2):
            await w.create("t", (0, 1))
            topic_id = w.brokers[0].parts.metadata.snapshot.topic_ids["t"]
            request = FetchRequest(
                replica_id=2,  # no replica of it, so broker 2 itself has no session here
                max_wait_ms=0,
                session_id=session_id,
                session_epoch=epoch,
                topics=[FetchTopic("", topic_id, [FetchPartition(0, 0, 0)])],
            )
            response = await connection.fetch(17, request)
            session_id = response.session_id
            codes += [data.error_code for t in response.topics for data in t.partitions]
            await delete_topic(w)
        assert codes == [ErrorCode.UNKNOWN_LEADER_EPOCH] * 2, "not INCONSISTENT_TOPIC_ID"
        await connection.close()


async def test_an_answer_to_an_old_question_is_not_stored(tmp_path: Path) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0, 1))
        connection = await w.connect(0)
        await produce(connection, b"x")
        follower = w.replica(1)
        fetcher = w.brokers[1].parts.fetchers.of(follower.topic_partition)
        assert fetcher is not None
        assert follower.log is not None
        topic_id = follower.log.topic_id
        assert topic_id is not None
        following = fetcher.following[follower.topic_partition]

        def answer(base_offset: int, topic_id: uuid.UUID) -> None:
            records = [Record(base_offset, 1, None, b"stale")]
            late = encode_batch(records, base_offset=base_offset, leader_epoch=0)
            data = fetch_messages.PartitionData(0, 0, 1, 1, 0, records=late)
            topics = [fetch_messages.TopicData("", topic_id, [data])]
            response = fetch_messages.FetchResponse(session_id=1, topics=topics)
            fetcher.take(response)

        await until(lambda: following.asked == 1, "the follower has acknowledged")
        answer(1, uuid.uuid4())
        assert follower.log.log_end_offset == 1, "records of another topic"
        following.asked = 0
        answer(1, topic_id)
        assert follower.log.log_end_offset == 1, "the answer to another offset"
        following.asked = 1
        answer(1, topic_id)
        assert follower.log.log_end_offset == 2, "what was asked for is stored"
        await connection.close()


async def test_sessions_are_refused_that_nobody_opened(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, count=2) as w:
            await w.create("t", (0, 1))
            connection = await w.connect_as_broker(0)
            topic_id = w.leader().log.topic_id  # type: ignore[union-attr]
            assert topic_id is not None
            topic = FetchTopic("", topic_id, [FetchPartition(0, 0, 0)])

            async def ask(replica: int, session: int, epoch: int) -> int:
                request = FetchRequest(
                    replica_id=replica,
                    max_wait_ms=0,
                    session_id=session,
                    session_epoch=epoch,
                    topics=[topic],
                )
                return (await connection.fetch(17, request)).error_code

            assert await ask(-1, 99, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert await ask(1, 99, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            request = FetchRequest(
                replica_id=1, max_wait_ms=0, session_id=0, session_epoch=0, topics=[topic]
            )
            opened = await connection.fetch(17, request)
            assert opened.session_id != 0
            wrong = await ask(1, opened.session_id, 7)
            assert wrong == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            assert await ask(-1, 0, 0) == 0, "a consumer that offers one is answered without"
            # The real follower has lost its session to ours and opens a new one.
            await produce(connection, b"x")
            await connection.close()

    await run()


@pytest.mark.parametrize("version", [4, 7, 12, 13, 15, 17])
async def test_a_stranger_that_calls_itself_a_follower_moves_no_high_watermark(
    tmp_path: Path, version: int
) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0, 1))
        leader, connection = w.leader(), await w.connect(0)
        await w.brokers[1].parts.fetchers.stop()
        await produce(connection, b"x", acks=1)
        assert leader.log is not None
        topic_id = leader.log.topic_id if version >= 13 else uuid.UUID(int=0)
        assert topic_id is not None
        topic = FetchTopic("t", topic_id, [FetchPartition(0, -1, 1)])
        for session_epoch in (-1, 0) if version >= 7 else (-1,):
            request = FetchRequest(
                replica_id=1, max_wait_ms=0, session_epoch=session_epoch, topics=[topic]
            )
            response = await connection.fetch(version, request)
            (data,) = response.topics[0].partitions
            assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert response.session_id == 0
        if version >= 7:
            empty = FetchRequest(replica_id=1, max_wait_ms=0, session_epoch=0)
            response = await connection.fetch(version, empty)
            assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert leader.log.high_watermark == 0
        # A broker that says the same is believed: the follower has it.
        proven = await w.connect_as_broker(0)
        request = FetchRequest(replica_id=1, max_wait_ms=0, topics=[topic])
        response = await proven.fetch(version, request)
        assert response.topics[0].partitions[0].error_code == 0
        assert leader.log.high_watermark == 1
        for each in (connection, proven):
            await each.close()


async def test_an_unknown_topic_id_is_told_apart_from_another_topics(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        connection = await w.connect(0)
        for topic_id, code in (
            (uuid.uuid4(), ErrorCode.UNKNOWN_TOPIC_ID),
            (uuid.UUID(int=0), ErrorCode.UNKNOWN_TOPIC_ID),
        ):
            topic = FetchTopic("", topic_id, [FetchPartition(0)])
            response = await connection.fetch(17, FetchRequest(topics=[topic]))
            assert response.topics[0].partitions[0].error_code == code
        missing = FetchTopic("nope", uuid.UUID(int=0), [FetchPartition(0)])
        response = await connection.fetch(12, FetchRequest(topics=[missing]))
        code_of = response.topics[0].partitions[0].error_code
        assert code_of == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert w.brokers[0].parts.replicas.partition(TopicPartition("nope", 0)) is None
        await connection.close()


def test_a_broker_that_knows_nothing_yet_does_not_say_that_there_are_no_topics(
    tmp_path: Path,
) -> None:
    """A client would take that for the truth, and give its records up."""

    async def run() -> None:
        async with world(tmp_path, 1) as w:
            await w.create("t", (0,))
            cache = w.brokers[0].parts.metadata
            known, cache.snapshot, cache.is_introduced = cache.snapshot, MetadataSnapshot(), False
            connection = await w.connect(0)
            request = metadata.Request([metadata.MetadataRequestTopic(name="t")], False)
            asking = asyncio.create_task(connection.request(ApiKey.METADATA, 7, request))
            await asyncio.sleep(0.05)
            assert not asking.done()
            cache.snapshot = known
            cache.introduce()
            answer = await asking
            assert [(t.name, t.error_code) for t in answer.topics] == [("t", 0)]
            await connection.close()

    asyncio.run(run())
