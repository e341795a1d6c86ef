"""Groups of the new protocol (KIP-848) with librdkafka; by hand where a client must misbehave."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from interop.members import ConfluentMember, NewProtocolMember, Seen, running
from klamm import Cluster
from klamm.broker.coordinators.journal import partition_for
from klamm.cli.groups.views import look_at
from klamm.client.aio.cluster import Client
from klamm.client.aio.groups import Groups
from klamm.client.errors import VersionMismatch
from klamm.model.errors import ErrorCode, NotThere
from klamm.model.names import CONSUMER_OFFSETS
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    join_group,
    offset_commit,
    offset_fetch,
)

SHARDS = 4
names = (f"name-{number}" for number in itertools.count())
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "group.initial.rebalance.delay.ms": "100",
        "offsets.topic.num.partitions": str(SHARDS),
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "5000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "500",
    }
    with Cluster(settings=settings) as cluster:
        yield cluster


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for its topic and its group."""
    return next(names)


def produce(cluster: Cluster, topic: str, start: int, count: int = 120) -> set[bytes]:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    values = {b"%d" % number for number in range(start, start + count)}
    for number, value in enumerate(sorted(values)):
        # By hand over all partitions, so that whoever has one of them gets something.
        partitions = len(cluster.view.brokers[cluster.running[0]].partitions(topic))
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(30) == 0
    return values


class Hand:
    """Sends single requests to a group's coordinator."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.cluster = cluster
        self.group = group

    def ask(self, key: ApiKey, request: Any, at_most: int | None = None) -> Any:
        async def work() -> Any:
            async with Client(self.cluster.bootstrap_servers) as client:
                return await client.at_coordinator(self.group, key, request, at_most=at_most)

        return asyncio.run(work())

    def beat(self, member: str, epoch: int, **said: Any) -> consumer_group_heartbeat.Response:
        said = {"topic_partitions": None, **said}
        request = consumer_group_heartbeat.Request(
            group_id=self.group, member_id=member, member_epoch=epoch, **said
        )
        answer = self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        assert isinstance(answer, consumer_group_heartbeat.Response)
        return answer

    def join(self, member: str, topic: str, **said: Any) -> consumer_group_heartbeat.Response:
        said = {"rebalance_timeout_ms": 10_000, "topic_partitions": [], **said}
        return self.beat(member, 0, subscribed_topic_names=[topic], **said)

    def commit(self, member: str, epoch: int, topic: str | uuid.UUID, offset: int) -> int:
        """Commits for partition 0 of a topic, which is given by its name or by its id."""
        request = offset_commit.Request(
            group_id=self.group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    **_called(topic),
                    partitions=[offset_commit.OffsetCommitRequestPartition(0, offset)],
                )
            ],
        )
        answer = self.ask(ApiKey.OFFSET_COMMIT, request, _version_for(topic)).topics[0]
        assert topic in (answer.name, answer.topic_id)
        code: int = answer.partitions[0].error_code
        return code

    def committed(
        self, member: str | None, epoch: int, topic: str | uuid.UUID, partition: int = 0
    ) -> tuple[int, int]:
        """The error, and the offset of a partition."""
        group = offset_fetch.OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=member,
            member_epoch=epoch,
            topics=[
                offset_fetch.OffsetFetchRequestTopics(
                    **_called(topic), partition_indexes=[partition]
                )
            ],
        )
        request = offset_fetch.Request(groups=[group])
        answer = self.ask(ApiKey.OFFSET_FETCH, request, _version_for(topic)).groups[0]
        (found,) = answer.topics
        assert topic in (found.name, found.topic_id)
        (one,) = found.partitions
        return answer.error_code or one.error_code, one.committed_offset

    def everything_by_id(self) -> dict[uuid.UUID, int]:
        """All that the group has for partitions 0, by the ids of the topics."""
        group = offset_fetch.OffsetFetchRequestGroup(group_id=self.group, topics=None)
        answer = self.ask(ApiKey.OFFSET_FETCH, offset_fetch.Request(groups=[group])).groups[0]
        return {t.topic_id: t.partitions[0].committed_offset for t in answer.topics}

    def topic_id(self, topic: str) -> uuid.UUID:
        async def work() -> uuid.UUID:
            async with Client(self.cluster.bootstrap_servers) as client:
                return (await client.refresh([topic])).topics[topic].topic_id

        return asyncio.run(work())

    def join_classic(self) -> int:
        request = join_group.Request(
            group_id=self.group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            protocol_type="consumer",
            protocols=[join_group.JoinGroupRequestProtocol("range", b"\0\0\0\0\0\0")],
        )
        code: int = self.ask(ApiKey.JOIN_GROUP, request).error_code
        return code

    def described(self) -> consumer_group_describe.DescribedGroup:
        async def work() -> consumer_group_describe.DescribedGroup:
            async with Client(self.cluster.bootstrap_servers) as client:
                return await Groups(client).describe_consumer(self.group)

        return asyncio.run(work())

    def listed(self) -> tuple[str, str]:
        async def work() -> tuple[str, str]:
            async with Client(self.cluster.bootstrap_servers) as client:
                (one,) = (g for g in await Groups(client).all() if g.group_id == self.group)
                return one.group_type, one.group_state

        return asyncio.run(work())


def _called(topic: str | uuid.UUID) -> dict[str, Any]:
    return {"name": topic} if isinstance(topic, str) else {"topic_id": topic}


def _version_for(topic: str | uuid.UUID) -> int:
    return 9 if isinstance(topic, str) else 10


def until_shared(
    hand: Hand, members: int, partitions: int
) -> consumer_group_describe.DescribedGroup:
    """Wait until so many members have so many partitions among them, and nobody more to come."""
    deadline = time.monotonic() + 60
    while True:
        group = hand.described()
        read = sum(map(partitions_of, group.members))
        if (group.group_state, len(group.members), read) == ("Stable", members, partitions):
            return group
        assert time.monotonic() < deadline, group


def partitions_of(member: consumer_group_describe.Member) -> int:
    return sum(len(topic.partitions) for topic in member.assignment.topic_partitions)


def test_members_come_and_go_and_one_falls_silent(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=6, replication_factor=3)
    seen = Seen()
    first, second, third = (
        NewProtocolMember(cluster.bootstrap_servers, name, topic, seen)
        for topic in (name, f"^{name}$", name)
    )
    hand = Hand(cluster, name)
    with running(first):
        seen.wait_for(produce(cluster, name, 0))
        silent = hand.join("silent", name)
        assert (silent.error_code, silent.member_epoch > 0) == (0, True)
        with running(second, third):
            # The silent one counts until its time is up.
            shared = until_shared(hand, 3, 6)
            assert [partitions_of(member) for member in shared.members] == [2, 2, 2]
            seen.wait_for(produce(cluster, name, 1_000))
            assert len(seen.readers) == 3
        (left,) = until_shared(hand, 1, 6).members
        assert partitions_of(left) == 6
        seen.wait_for(produce(cluster, name, 2_000))
        assert hand.listed() == ("consumer", "Stable")
    assert hand.beat("silent", silent.member_epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert hand.listed() == ("consumer", "Empty")


def test_a_topic_grows_under_its_readers(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=1, replication_factor=3)
    seen = Seen()
    members = [NewProtocolMember(cluster.bootstrap_servers, name, name, seen) for _ in range(2)]
    hand = Hand(cluster, name)
    with running(*members):
        until_shared(hand, 2, 1)
        seen.wait_for(produce(cluster, name, 0))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        grown = confluent_kafka.admin.NewPartitions(name, 4)
        admin.create_partitions([grown])[name].result(30)
        cluster.wait_for_isr(name, 3, size=3)
        until_shared(hand, 2, 4)
        seen.wait_for(produce(cluster, name, 1_000))
        assert len(seen.readers) == 2


def test_a_topic_is_made_anew_under_its_readers(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=2, replication_factor=3)
    seen = Seen()
    hand = Hand(cluster, name)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    with running(NewProtocolMember(cluster.bootstrap_servers, name, name, seen)):
        seen.wait_for(produce(cluster, name, 0))
        before = until_shared(hand, 1, 2)
        # Commits name topics, not ids: one that comes late would count for the topic made anew.
        while any(hand.committed(None, -1, name, number) != (0, 60) for number in range(2)):
            pass
        admin.delete_topics([name], operation_timeout=30)[name].result()
        cluster.wait_for_no_topic(name)
        until_shared(hand, 1, 0)
        cluster.create_topic(name, partitions=2, replication_factor=3)
        # The same names, and other partitions: what was committed for the old ones is gone.
        after = until_shared(hand, 1, 2)
        assert after.group_epoch > before.group_epoch
        seen.wait_for(produce(cluster, name, 1_000))


def test_a_coordinator_dies_while_members_read(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=4, replication_factor=3)
    seen = Seen()
    hand = Hand(cluster, name)
    members = [NewProtocolMember(cluster.bootstrap_servers, name, name, seen) for _ in range(2)]
    # A classic group goes through the same in the same cluster.
    classic = Seen()
    other = ConfluentMember(cluster.bootstrap_servers, f"{name}-classic", name, classic)
    with running(*members, other):
        before = until_shared(hand, 2, 4)
        seen.wait_for(produce(cluster, name, 0))
        shard = partition_for(name, SHARDS)
        cluster.wait_for_isr(CONSUMER_OFFSETS, shard, size=3)
        cluster.wait_for_isr(name, size=3)
        coordinator = cluster.wait_for_leader(CONSUMER_OFFSETS, shard)
        cluster.kill_broker(coordinator)
        values = produce(cluster, name, 50_000)
        seen.wait_for(values)
        classic.wait_for(values)
        after = hand.described()
        # The new coordinator read back what the old one wrote: nobody had to join again.
        assert after == before
        cluster.start_broker(coordinator)
        cluster.wait_for_isr(CONSUMER_OFFSETS, shard, size=3)
        seen.wait_for(produce(cluster, name, 60_000))


def test_a_static_member_returns_to_its_place(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=4, replication_factor=1)
    seen = Seen()
    servers = cluster.bootstrap_servers
    stays = NewProtocolMember(servers, name, name, seen, instance="stays")
    goes = NewProtocolMember(servers, name, name, seen, instance="goes")
    hand = Hand(cluster, name)
    with running(stays):
        with running(goes):
            before = until_shared(hand, 2, 4)
            seen.wait_for(produce(cluster, name, 0))
            assert len(seen.readers) == 2
        returned = NewProtocolMember(servers, name, name, seen, instance="goes")
        with running(returned):
            after = until_shared(hand, 2, 4)
            seen.wait_for(produce(cluster, name, 1_000))
        assert after.group_epoch == before.group_epoch
        assert _places(after) == _places(before)


def _places(group: consumer_group_describe.DescribedGroup) -> dict[str | None, list[int]]:
    return {m.instance_id: m.assignment.topic_partitions[0].partitions for m in group.members}


def test_commits_are_held_to_the_member_epoch(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=1, replication_factor=1)
    hand = Hand(cluster, name)
    assert hand.commit("a", 1, name, 5) == ErrorCode.GROUP_ID_NOT_FOUND
    epoch = hand.join("a", name).member_epoch
    assert hand.commit("a", epoch, name, 5) == ErrorCode.NONE
    assert hand.commit("a", epoch - 1, name, 6) == ErrorCode.STALE_MEMBER_EPOCH
    assert hand.commit("b", epoch, name, 6) == ErrorCode.UNKNOWN_MEMBER_ID
    assert hand.commit("", -1, name, 6) == ErrorCode.UNKNOWN_MEMBER_ID
    assert hand.committed("a", epoch, name) == (ErrorCode.NONE, 5)
    assert hand.committed("a", epoch + 1, name) == (ErrorCode.STALE_MEMBER_EPOCH, -1)
    assert hand.committed("b", epoch, name) == (ErrorCode.UNKNOWN_MEMBER_ID, -1)
    assert hand.committed(None, -1, name) == (ErrorCode.NONE, 5)
    assert hand.beat("a", -1).error_code == ErrorCode.NONE
    assert hand.commit("", -1, name, 6) == ErrorCode.NONE, "an empty group may be set by hand"


def test_commits_by_id_are_held_to_the_topic_they_were_meant_for(
    cluster: Cluster, name: str
) -> None:
    cluster.create_topic(name, partitions=1, replication_factor=1)
    hand = Hand(cluster, name)
    old = hand.topic_id(name)
    assert hand.commit("", -1, old, 5) == ErrorCode.NONE
    assert hand.committed(None, -1, old) == hand.committed(None, -1, name) == (ErrorCode.NONE, 5)
    assert hand.everything_by_id() == {old: 5}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([name], operation_timeout=30)[name].result()
    cluster.wait_for_no_topic(name)
    assert hand.commit("", -1, old, 6) == ErrorCode.UNKNOWN_TOPIC_ID
    cluster.create_topic(name, partitions=1, replication_factor=1)
    new = hand.topic_id(name)
    # Whoever read the old topic knows its id, and changes nothing for the new one.
    assert hand.commit("", -1, old, 7) == ErrorCode.UNKNOWN_TOPIC_ID
    assert hand.committed(None, -1, old) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert hand.committed(None, -1, new) == (ErrorCode.NONE, -1)
    assert hand.commit("", -1, new, 8) == ErrorCode.NONE
    assert hand.everything_by_id() == {new: 8}
    unknown = uuid.uuid4()
    assert hand.commit("", -1, unknown, 1) == ErrorCode.UNKNOWN_TOPIC_ID
    assert hand.committed(None, -1, unknown) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


def test_a_group_changes_its_protocol_when_it_is_empty(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=2, replication_factor=3)
    values = produce(cluster, name, 0)
    hand = Hand(cluster, name)
    seen = Seen()
    with running(ConfluentMember(cluster.bootstrap_servers, name, name, seen)):
        seen.wait_for(values)
        assert hand.listed() == ("classic", "Stable")
        assert hand.join("a", name).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert hand.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    again = Seen()
    with running(NewProtocolMember(cluster.bootstrap_servers, name, name, again)):
        again.wait_for(produce(cluster, name, 200))
        # The offsets of the classic group were kept.
        assert not any(again.times(value) for value in values - {b"119", b"118"})
        assert hand.listed() == ("consumer", "Stable")
        assert hand.join_classic() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert hand.join_classic() == ErrorCode.MEMBER_ID_REQUIRED
    assert hand.listed()[0] == "classic"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    assert admin.delete_consumer_groups([name])[name].result(30) is None


def test_a_consumer_group_is_deleted_when_it_is_empty(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=1, replication_factor=1)
    hand = Hand(cluster, name)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    epoch = hand.join("a", name).member_epoch
    assert hand.commit("a", epoch, name, 5) == ErrorCode.NONE
    with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([name])[name].result(30)
    hand.beat("a", -1)
    admin.delete_consumer_groups([name])[name].result(30)
    assert hand.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert hand.committed(None, -1, name) == (ErrorCode.NONE, -1)


@pytest.mark.klamm(brokers=1, settings={"group.coordinator.rebalance.protocols": "classic"})
async def test_an_operator_may_keep_to_the_classic_protocol(klamm_cluster: Cluster) -> None:
    async with Client(klamm_cluster.bootstrap_servers) as client:
        groups = Groups(client)
        with pytest.raises(VersionMismatch):
            await groups.describe_consumer("g")
        # What asks for both kinds makes do with one.
        with pytest.raises(NotThere, match="there is no group 'g'"):
            await look_at(groups, "g")
