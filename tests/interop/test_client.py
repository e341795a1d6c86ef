"""klamm's own client against a real cluster: every admin call, and records through failures."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from klamm.client.aio.admin import PREFERRED_ELECTION, Admin, ConfigChange, ConfigResource
from klamm.client.aio.cluster import Client
from klamm.client.aio.consumer import Consumed, Consumer
from klamm.client.aio.groups import Groups
from klamm.client.aio.producer import Producer
from klamm.client.errors import DeadlineExceeded
from klamm.client.partitioner import partition_of
from klamm.cluster import Cluster
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from klamm.protocol.batch import Codec
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from klamm.protocol.private import PrivateKey

T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


def run(cluster: Cluster, use: Callable[[Client], Awaitable[T]]) -> T:
    async def main() -> T:
        async with Client(cluster.bootstrap_servers, timeout_s=20) as client:
            return await use(client)

    return asyncio.run(main())


def tps(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, n) for n in range(count)]


async def read_all(client: Client, partitions: list[TopicPartition]) -> list[Consumed]:
    """Everything that is there now."""
    ends = await Admin(client).list_offsets(dict.fromkeys(partitions, LATEST))
    records: list[Consumed] = []
    async with Consumer(client, dict.fromkeys(partitions, EARLIEST)) as consumer:
        while any(consumer.positions[tp] < ends[tp].offset for tp in partitions):
            got = await consumer.poll(timeout_s=10)
            assert got, "what the broker says it has does not come"
            records += got
    return records


def test_the_life_of_a_topic(cluster: Cluster) -> None:
    async def use(client: Client) -> None:
        admin = Admin(client)
        config = CreatableTopicConfig("retention.ms", "7200000")
        wanted = CreatableTopic("life", 2, 3, configs=[config])
        (dry,) = await admin.create_topics([wanted], validate_only=True)
        assert (dry.error_code, dry.num_partitions) == (0, 2)
        assert (await admin.topics(["life"]))["life"].error_code == 3
        (made,) = await admin.create_topics([wanted])
        assert made.error_code == 0
        (again,) = await admin.create_topics([wanted])
        assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert again.error_message
        shown = (await admin.topics(["life"]))["life"]
        assert shown.topic_id == made.topic_id
        assert [sorted(p.replica_nodes) for p in shown.partitions] == [[0, 1, 2]] * 2
        assert (await admin.topic_by_id(made.topic_id)).name == "life"
        assert "life" in await admin.topics()

        assert (await admin.create_partitions("life", 5)).error_code == 0
        refused = await admin.create_partitions("life", 5)
        assert refused.error_code == ErrorCode.INVALID_PARTITIONS

        topic = ConfigResource(ConfigResourceType.TOPIC, "life")
        change = ConfigChange(SettingOperation.SET, "max.message.bytes", "5000")
        (changed,) = await admin.change_configs({topic: [change]})
        assert changed.error_code == 0
        (seen,) = await admin.describe_configs([topic], names=["max.message.bytes", "retention.ms"])
        assert {c.name: c.value for c in seen.configs} == {
            "max.message.bytes": "5000",
            "retention.ms": "7200000",
        }
        broker = ConfigResource(ConfigResourceType.BROKER, "1")
        (of_broker,) = await admin.describe_configs([broker], synonyms=True, documentation=True)
        assert of_broker.error_code == 0
        assert of_broker.configs

        (gone,) = await admin.delete_topics([made.topic_id])
        assert (gone.error_code, gone.name) == (0, "life")
        (unknown,) = await admin.delete_topics(["life"])
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(cluster, use)


def test_what_an_operator_sees(cluster: Cluster) -> None:
    cluster.create_topic("seen", 3, 3)

    async def use(client: Client) -> None:
        admin = Admin(client)
        described = await admin.cluster()
        assert {b.broker_id for b in described.brokers} == {0, 1, 2}
        assert described.controller_id == cluster.controller_id
        async with Producer(client) as producer:
            for n in range(30):
                await producer.send("seen", bytes(100), partition=n % 3, timestamp=1000 + n)
        tp = TopicPartition("seen", 0)
        by_broker = await admin.log_dirs(partitions=tps("seen", 3))
        assert set(by_broker) == {0, 1, 2}
        assert all(p.partition_size > 1000 for d in by_broker[0] for p in d.topics[0].partitions)
        assert (await admin.list_offsets({tp: 1004}))[tp].offset == 2
        newest = (await admin.list_offsets({tp: MAX_TIMESTAMP}))[tp]
        assert (newest.offset, newest.timestamp) == (9, 1027)
        state = (await admin.producers([tp]))[tp].active_producers
        assert [p.last_sequence for p in state] == [9]
        deleted = await admin.delete_records({tp: 4})
        assert deleted[tp].low_watermark == 4
        assert (await admin.list_offsets({tp: EARLIEST}))[tp].offset == 4
        stories = await admin.ask_brokers(PrivateKey.STORY, {"topic": "seen"})
        assert set(stories) == {0, 1, 2}
        assert all(story["error_code"] == 0 for story in stories.values())

    run(cluster, use)


def test_moves_and_elections(cluster: Cluster) -> None:
    cluster.create_topic("moved", 1, 1)

    async def use(client: Client) -> None:
        admin = Admin(client)
        tp = TopicPartition("moved", 0)
        before = (await admin.topics(["moved"]))["moved"].partitions[0].replica_nodes
        target = [(before[0] + 1) % 3, (before[0] + 2) % 3]
        assert (await admin.reassign({tp: target}))[tp].error_code == 0
        deadline = client.deadline()
        while await admin.reassignments([tp]):
            assert await deadline.pause(0.05), "the move does not end"
        after = (await admin.topics(["moved"]))["moved"].partitions[0]
        assert after.replica_nodes == target
        assert (await admin.reassign({tp: None}))[tp].error_code == 85
        outcome = await admin.elect_leaders(PREFERRED_ELECTION, [tp])
        assert outcome[tp].error_code in (0, ErrorCode.ELECTION_NOT_NEEDED)

    run(cluster, use)


def test_offsets_of_groups(cluster: Cluster) -> None:
    cluster.create_topic("grouped", 2, 1)

    async def use(client: Client) -> None:
        groups = Groups(client)
        one, two = tps("grouped", 2)
        codes = await groups.set_offsets("readers", {one: 5, two: 7})
        assert set(codes.values()) == {ErrorCode.NONE}
        kept = await groups.offsets("readers")
        assert {tp: p.committed_offset for tp, p in kept.items()} == {one: 5, two: 7}
        assert "readers" in {g.group_id for g in await groups.all()}
        assert (await groups.describe("readers")).group_state == "Empty"
        assert await groups.delete_offsets("readers", [one]) == {one: ErrorCode.NONE}
        assert set(await groups.offsets("readers")) == {two}
        assert await groups.delete("readers") is ErrorCode.NONE
        assert (await groups.describe("readers")).group_state == "Dead"
        assert await groups.delete("readers") is ErrorCode.GROUP_ID_NOT_FOUND

    run(cluster, use)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_come_back_as_they_were(cluster: Cluster, codec: Codec, acks: int) -> None:
    topic = f"records-{codec.name.lower()}-{acks}"
    cluster.create_topic(topic, 4, 3)

    async def use(client: Client) -> None:
        sent = {}
        async with Producer(client, codec=codec, acks=acks, batch_size=20_000) as producer:
            for n in range(1500):
                key = b"key-%d" % n if n % 5 else None
                value = b"value-%d " % n * 20 if n % 7 else None
                headers = (("n", b"%d" % n), ("null", None))[: n % 3]
                future = await producer.send(topic, value, key=key, headers=headers, timestamp=n)
                sent[n] = (key, value, headers, future)
        if acks != -1:
            await until_there(client, topic, len(sent))
        records = {r.timestamp: r for r in await read_all(client, tps(topic, 4))}
        assert set(records) == set(sent)
        for n, (key, value, headers, future) in sent.items():
            record = records[n]
            assert (record.key, record.value, record.headers) == (key, value, headers)
            if key is not None:
                assert record.partition == partition_of(key, 4)
            if acks:
                assert future.result()[:3] == (topic, record.partition, record.offset)

    run(cluster, use)


async def until_there(client: Client, topic: str, count: int) -> None:
    """Nobody tells a producer with acks=0 when its records have arrived."""
    deadline = client.deadline()
    while True:
        ends = await Admin(client).list_offsets(dict.fromkeys(tps(topic, 4), LATEST))
        if sum(e.offset for e in ends.values()) == count:
            return
        assert await deadline.pause(0.02), "records are missing"


def test_a_record_that_is_too_large_spoils_nothing_else(cluster: Cluster) -> None:
    cluster.create_topic("small", 1, 3, {"max.message.bytes": 2000})

    async def use(client: Client) -> None:
        async with Producer(client, batch_size=1) as producer:
            kept = await producer.send("small", b"one")
            lost = await producer.send("small", bytes(5000))
            also = await producer.send("small", b"two")
            with pytest.raises(RequestRefused) as refused:
                await producer.flush()
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert isinstance(lost.exception(), RequestRefused)
        assert (kept.result().offset, also.result().offset) == (0, 1)
        values = [r.value for r in await read_all(client, tps("small", 1))]
        assert values == [b"one", b"two"]

    run(cluster, use)


def test_a_producer_says_what_it_could_not_deliver() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("lost", 2, 1)

        async def use(client: Client) -> None:
            async with Producer(client, timeout_s=1, idempotent=False) as producer:
                kept = await producer.send("lost", b"kept", partition=0)
                await producer.flush()
                assert kept.result().offset == 0
                for broker in (0, 1):
                    await asyncio.to_thread(cluster.kill_broker, broker)
                lost = [await producer.send("lost", b"x", partition=n) for n in (0, 1)]
                with pytest.raises(DeadlineExceeded):
                    await producer.flush()
                assert all(isinstance(f.exception(), DeadlineExceeded) for f in lost)

        run(cluster, use)


def test_topics_nobody_created(cluster: Cluster) -> None:
    async def use(client: Client) -> None:
        async with Producer(client) as producer:
            made = await producer.send("made-by-sending", b"x", key=b"k")
        assert made.result().offset == 0
        with pytest.raises(RequestRefused):
            async with Producer(client, create_topics=False, timeout_s=0.5) as producer:
                await producer.send("never-made", b"x")
        with pytest.raises(DeadlineExceeded):
            await Admin(client).list_offsets(
                {TopicPartition("never-made", 0): LATEST}, timeout_s=0.3
            )

    run(cluster, use)


def test_a_reader_waits_for_what_is_not_there_yet(cluster: Cluster) -> None:
    cluster.create_topic("later", 1, 1)

    async def use(client: Client) -> None:
        async with Consumer(client, {TopicPartition("later", 0): LATEST}) as consumer:
            assert await consumer.poll(timeout_s=0.2) == []
            waiting = asyncio.ensure_future(consumer.poll(timeout_s=10))
            async with Producer(client) as producer:
                await producer.send("later", b"here")
            assert [r.value for r in await waiting] == [b"here"]
        async with Consumer(client, {TopicPartition("later", 0): 999}, reset_to=None) as consumer:
            with pytest.raises(RequestRefused, match="OFFSET_OUT_OF_RANGE"):
                await consumer.poll(timeout_s=5)
        async with Consumer(client, {TopicPartition("later", 0): 999}) as consumer:
            assert [r.value for r in await consumer.poll(timeout_s=5)] == [b"here"]

    run(cluster, use)


async def test_leaders_and_the_controller_may_die_meanwhile() -> None:
    """Every record is stored exactly once, in order, while each broker in turn crashes."""
    with Cluster(brokers=3, min_insync_replicas=2) as cluster:
        cluster.create_topic("safe", 3, 3)

        async def use(client: Client) -> None:
            loop = asyncio.get_running_loop()
            sent: dict[int, list[int]] = defaultdict(list)
            async with Producer(client, batch_size=500) as producer:
                for n in range(3000):
                    await producer.send("safe", b"%d" % n, partition=n % 3)
                    sent[n % 3].append(n)
                    if n % 1000 == 500:
                        victim = n // 1000
                        await loop.run_in_executor(None, cluster.kill_broker, victim)
                        await producer.flush()
                        (made,) = await Admin(client).create_topics(
                            [CreatableTopic(f"meanwhile-{n}", 1, 2)]
                        )
                        assert made.error_code == 0
                        await loop.run_in_executor(None, cluster.start_broker, victim)
                        await loop.run_in_executor(None, cluster.wait_for_isr, "safe")
            read: dict[int, list[int]] = defaultdict(list)
            for record in await read_all(client, tps("safe", 3)):
                read[record.partition].append(int(record.value or b""))
            assert read == sent

        async def main() -> None:
            async with Client(cluster.bootstrap_servers, timeout_s=30) as client:
                await use(client)

        await main()


def test_a_topic_is_known_everywhere_when_its_creation_is_answered(cluster: Cluster) -> None:
    async def use(client: Client) -> None:
        admin = Admin(client)
        for number in range(12):
            name = f"everywhere-{number}"
            (made,) = await admin.create_topics([CreatableTopic(name, 3, 3)])
            assert made.error_code == 0
            views = cluster.view.brokers
            assert {at: name in view.topics for at, view in views.items()} == dict.fromkeys(
                views, True
            )

    run(cluster, use)
