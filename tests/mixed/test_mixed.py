"""What clients and operators rely on, in a cluster of brokers of both kinds.

Each is shown twice: with a controller of Kafka over brokers of klamm, and the other way round.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition

from history import check, read_replicas
from interop.by_hand import ByHand
from interop.killing import Load
from interop_extra import kafka
from klamm.broker.coordinators.journal import partition_for
from klamm.cli.__main__ import main
from klamm.client.aio.cluster import Client
from klamm.model.errors import ErrorCode as E
from klamm.model.names import TopicPartition as At
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import api_versions, incremental_alter_configs
from mixed.cluster import LAG_MS, SESSION_MS, MixedCluster
from mixed.conftest import Shown
from mixed.hosts import KAFKA, KAFKA_VERSION, KLAMM

BOTH = pytest.mark.parametrize("controller", [KAFKA, KLAMM])
# Each broker leads some, and each follows brokers of both kinds.
ALL_WAYS = [[1, 10, 11], [2, 11, 1], [10, 1, 2], [11, 2, 10], [1, 2, 10], [10, 11, 1]]
names = (f"topic-{number}" for number in itertools.count())
_TRIES = 5
_OTHER = {KAFKA: KLAMM, KLAMM: KAFKA}


def produce(
    cluster: MixedCluster, topic: str, partitions: int, count: int, *, acks: str = "all"
) -> None:
    """Write to all partitions."""
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": acks,
            "enable.idempotence": acks == "all",
        }
    )
    for number in range(count):
        producer.produce(
            topic,
            f"{topic}-{number}".encode() * 3,
            partition=number % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failed == []


def log_bytes(cluster: MixedCluster, topic: str, partition: int) -> dict[int, bytes]:
    """The segments of every replica, one after the other."""
    return {
        broker_id: b"".join(
            segment.read_bytes()
            for segment in sorted(
                (cluster.brokers[broker_id].directory / f"{topic}-{partition}").glob("*.log")
            )
        )
        for broker_id in cluster.assignment(topic)[partition]
    }


def check_equal_logs(cluster: MixedCluster, topic: str, partitions: int) -> int:
    """All replicas have the same bytes; how many."""
    size = 0
    for at in range(partitions):
        cluster.until(
            lambda at=at: len(set(log_bytes(cluster, topic, at).values())) == 1,
            f"equal logs of {topic}-{at}",
            20,
        )
        held = log_bytes(cluster, topic, at)
        assert len(held) == len(cluster.assignment(topic)[at])
        size += len(next(iter(held.values())))
    return size


@contextmanager
def frozen(cluster: MixedCluster, broker_id: int) -> Iterator[None]:
    broker = cluster.brokers[broker_id]
    broker.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.signal(signal.SIGCONT)


@BOTH
def test_topics_are_created_and_grow(cluster: MixedCluster, controller: str, shown: Shown) -> None:
    with shown("create, expand", controller) as said:
        cluster.controlled_by(controller)
        topic = next(names)
        count = cluster.create(topic, ALL_WAYS)
        cluster.grow(topic, [[11, 1, 2], [2, 10, 11]], count + 2)
        said.append(f"{count} + 2 partitions, told alike by all four brokers")
        cluster.delete(topic)
        said.append("deleted")


@BOTH
def test_records_are_replicated_both_ways(
    cluster: MixedCluster, controller: str, shown: Shown
) -> None:
    with shown("replicate both ways", controller) as said:
        cluster.controlled_by(controller)
        topic = next(names)
        count = cluster.create(topic, ALL_WAYS)
        produce(cluster, topic, count, 3000)
        size = check_equal_logs(cluster, topic, count)
        said.append(f"3000 records, {size} bytes, the same in every replica")
        cluster.delete(topic)


def _fallen_behind(cluster: MixedCluster, topic: str, follower: int) -> float | None:
    """The time a leader took to drop a frozen follower; None if a session would end before."""
    with frozen(cluster, follower):
        # Who has all there is has not fallen behind.
        produce(cluster, topic, 1, 1, acks="1")
        try:
            return cluster.until(
                lambda: follower not in cluster.state(topic, 0)["isr"],
                f"broker {follower} to leave",
                SESSION_MS / 1000 - 1,
            )
        except AssertionError:
            return None


@BOTH
@pytest.mark.parametrize("leader", [KAFKA, KLAMM])
def test_in_sync_sets_shrink_and_grow(
    cluster: MixedCluster, controller: str, leader: str, shown: Shown
) -> None:
    with shown(f"AlterPartition by a {leader} leader", controller) as said:
        now = cluster.controlled_by(controller)
        topic = next(names)
        mine = next(b for b in cluster.of(leader) if b != now) if leader == controller else None
        led_by = mine or cluster.of(leader)[0]
        follower = next(b for b in cluster.of(_OTHER[leader]) if b != now)
        cluster.create(topic, [[led_by, follower, now]] if led_by != now else [[led_by, follower]])
        # On a busy machine a leader may look at its followers too late for a session.
        tries = (_fallen_behind(cluster, topic, follower) for _ in range(_TRIES))
        took = next(filter(None, tries), None)
        assert took is not None, f"broker {follower} never left: {cluster.state(topic, 0)}"
        said.append(f"broker {follower} left after {took:.1f} s of {LAG_MS / 1000:g}")
        cluster.settle(topic, 1)
        said.append("and came back")
        cluster.delete(topic)


@BOTH
@pytest.mark.parametrize("leader", [KAFKA, KLAMM])
def test_leaders_are_elected(
    cluster: MixedCluster, controller: str, leader: str, shown: Shown
) -> None:
    with shown(f"elections, a {leader} leader killed", controller) as said:
        now = cluster.controlled_by(controller)
        topic = next(names)
        victim = next(b for b in cluster.of(leader) if b != now)
        heir = next(b for b in cluster.of(_OTHER[leader]) if b != victim)
        third = next(b for b in cluster.brokers if b not in (victim, heir))
        cluster.create(topic, [[victim, heir, third]])
        produce(cluster, topic, 1, 200)
        cluster.brokers[victim].kill()
        took = cluster.until(
            lambda: cluster.state(topic, 0)["leader"] == heir, f"broker {heir} to lead", 40
        )
        said.append(f"broker {heir} leads after {took:.1f} s")
        produce(cluster, topic, 1, 200)
        cluster.start(victim)
        cluster.settle(topic, 1)
        wanted = [TopicPartition(topic, 0)]
        cluster.admin.elect_leaders(ElectionType.PREFERRED, wanted).result(60)
        cluster.until(lambda: cluster.state(topic, 0)["leader"] == victim, "the preferred leader")
        cluster.settle(topic, 1)
        check_equal_logs(cluster, topic, 1)
        said.append(f"broker {victim} again when asked; equal logs")
        cluster.delete(topic)


@BOTH
def test_partitions_move_between_the_kinds(
    cluster: MixedCluster, controller: str, shown: Shown
) -> None:
    with shown("reassignment", controller) as said:
        cluster.controlled_by(controller)
        topic = next(names)
        cluster.create(topic, [[1, 2], [10, 11], [1, 10]])
        produce(cluster, topic, 3, 600)
        moves = {At(topic, 0): [10, 11], At(topic, 1): [2, 1], At(topic, 2): [11, 2]}
        answers = cluster.klamm_admin(lambda admin: admin.reassign(moves))
        assert {answer.error_code for answer in answers.values()} == {0}, answers
        wanted = {at.partition: replicas for at, replicas in moves.items()}
        cluster.until(lambda: cluster.assignment(topic) == wanted, "the moves to end")
        cluster.settle(topic, 3)
        check_equal_logs(cluster, topic, 3)
        cluster.until(
            lambda: len(cluster.copies(topic)) == 6, lambda: f"no more of {cluster.copies(topic)}"
        )
        said.append("klamm to Kafka, Kafka to klamm, both; nothing left behind, equal logs")
        cluster.delete(topic)


@BOTH
@pytest.mark.parametrize("dead", [KAFKA, KLAMM])
def test_a_deletion_waits_for_a_dead_broker(
    cluster: MixedCluster, controller: str, dead: str, shown: Shown
) -> None:
    with shown(f"deletion with a dead {dead} broker", controller) as said:
        now = cluster.controlled_by(controller)
        topic = next(names)
        victim = next(b for b in cluster.of(dead) if b != now)
        others = [b for b in cluster.brokers if b != victim]
        cluster.create(topic, [[victim, *others[:2]], [*others[1:], victim]])
        produce(cluster, topic, 2, 100)
        cluster.brokers[victim].kill()
        cluster.until(
            lambda: str(victim) not in cluster.children("/brokers/ids"), "its session to end", 40
        )
        cluster.delete(topic, wait=False)
        cluster.until(
            lambda: all(not (cluster.brokers[b].directory / f"{topic}-0").exists() for b in others),
            "the living to delete",
        )
        assert cluster.node(f"/admin/delete_topics/{topic}") is not None, "it waits"
        cluster.start(victim)
        took = cluster.until(lambda: cluster.node(f"/brokers/topics/{topic}") is None, "the end")
        cluster.until_gone(topic)
        said.append(f"waited, and was over {took:.1f} s after broker {victim} was back")


def read(cluster: MixedCluster, group: str, topic: str, count: int, **more: Any) -> list[bytes]:
    """The values that a group is given, committed when all are there."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **more,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        deadline = time.monotonic() + 60
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
        consumer.commit(asynchronous=False)
        assert consumer.poll(0.5) is None
    finally:
        consumer.close()
    return found


def coordinator(cluster: MixedCluster, group: str) -> int:
    found = cluster.admin.describe_consumer_groups([group])[group].result(30)
    return int(found.coordinator.id)


@BOTH
def test_groups_are_coordinated_by_either_kind(
    cluster: MixedCluster, controller: str, shown: Shown
) -> None:
    with shown("groups", controller) as said:
        cluster.controlled_by(controller)
        topic = next(names)
        cluster.create(topic, ALL_WAYS)
        produce(cluster, topic, len(ALL_WAYS), 600)
        met: dict[str, int] = {KAFKA: 0, KLAMM: 0}
        for number in itertools.count():
            group = f"{topic}-group-{number}"
            assert len(read(cluster, group, topic, 600 + 60 * number)) == 600 + 60 * number
            met[cluster.kind(coordinator(cluster, group))] += 1
            produce(cluster, topic, len(ALL_WAYS), 60)
            # It goes on where it committed.
            assert len(read(cluster, group, topic, 60)) == 60
            if min(met.values()) or number > 16:
                break
        assert min(met.values()), met
        said.append(f"{met[KAFKA]} with a coordinator of Kafka, {met[KLAMM]} of klamm")
        cluster.delete(topic)


@BOTH
def test_transactions_end_and_none_hangs(
    cluster: MixedCluster, controller: str, shown: Shown
) -> None:
    """Every pair of a coordinator's and a leader's kind, and both ages of producers."""
    with shown("transactions, none hanging", controller) as said:
        cluster.controlled_by(controller)
        topic = next(names)
        cluster.create(topic, [[1, 10, 2], [10, 1, 11]])
        partitions = [At(topic, 0), At(topic, 1)]
        met: set[str] = set()

        async def one(name: str) -> None:
            async with Client(cluster.bootstrap) as client:
                for version, told in ((9, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)):
                    producer = ByHand(client, f"{name}-{version}", partitions)
                    await producer.begin()
                    for commit in (True, False):
                        await producer.add(*partitions)
                        codes = [await producer.write(at, version=version) for at in partitions]
                        assert codes == [0, 0], codes
                        await producer.end(commit=commit)
                        while await producer.open_in():
                            pass  # until the markers are there
                        late = [await producer.write(at, version=version) for at in partitions]
                        assert late == [told, told], (name, version, commit, late)
                    assert await producer.open_in() == []

        for number in itertools.count():
            name = f"{topic}-{number}"
            asyncio.run(one(name))
            state = cluster.state("__transaction_state", partition_for(f"{name}-9", 8))
            met.add(cluster.kind(state["leader"]))
            if met == {KAFKA, KLAMM} or number > 16:
                break
        assert met == {KAFKA, KLAMM}
        listed = kafka.shell(
            KAFKA_VERSION,
            "kafka-transactions",
            *("--bootstrap-server", cluster.bootstrap, "find-hanging", "--topic", topic),
        )
        assert [line for line in listed.splitlines() if topic in line] == []
        said.append(
            "coordinators and leaders of both kinds; late batches refused; find-hanging: none"
        )
        cluster.delete(topic)


@BOTH
def test_a_move_is_handed_over_in_its_middle(
    cluster: MixedCluster, controller: str, shown: Shown
) -> None:
    with shown(f"hand-over to {_OTHER[controller]} amid moves", controller) as said:
        now = cluster.controlled_by(controller)
        topic = next(names)
        cluster.create(topic, [[1, 10]] * 6)
        produce(cluster, topic, 6, 600)
        target = next(b for b in (2, 11) if b != now)
        with frozen(cluster, target):
            # What cannot be reached cannot finish.
            moves = {At(topic, at): [target, 10] for at in range(6)}
            cluster.klamm_admin(lambda admin: admin.reassign(moves))
            cluster.until(
                lambda: bool(
                    (cluster.node(f"/brokers/topics/{topic}") or {}).get("adding_replicas")
                ),
                "the moves to begin",
                5,
            )
            cluster.unseat()
        other = cluster.controlled_by(_OTHER[controller])
        wanted = {at: [target, 10] for at in range(6)}
        cluster.until(lambda: cluster.assignment(topic) == wanted, "the moves to end")
        cluster.settle(topic, 6)
        check_equal_logs(cluster, topic, 6)
        said.append(f"begun under broker {now}, ended under {other}")
        cluster.delete(topic)


@BOTH
def test_a_deletion_is_handed_over_in_its_middle(
    cluster: MixedCluster, controller: str, shown: Shown
) -> None:
    with shown(f"hand-over to {_OTHER[controller]} amid a deletion", controller) as said:
        now = cluster.controlled_by(controller)
        topic = next(names)
        victim = next(b for b in cluster.brokers if b != now)
        others = [b for b in cluster.brokers if b != victim]
        cluster.create(topic, [[victim, *others]] * 3)
        cluster.brokers[victim].kill()
        cluster.until(
            lambda: str(victim) not in cluster.children("/brokers/ids"), "its session to end", 40
        )
        cluster.delete(topic, wait=False)
        cluster.until(
            lambda: all(not (cluster.brokers[b].directory / f"{topic}-0").exists() for b in others),
            "the living to delete",
        )
        other = cluster.controlled_by(_OTHER[controller])
        assert cluster.node(f"/admin/delete_topics/{topic}") is not None, "it waits"
        cluster.start(victim)
        cluster.until_gone(topic)
        said.append(f"begun under broker {now}, ended under {other}")


def test_acknowledged_records_outlive_controllers(cluster: MixedCluster, shown: Shown) -> None:
    with shown("controllers killed in turn, under load", "both") as said:
        topic = next(names)
        count = cluster.create(topic, ALL_WAYS)
        loads = [Load(cluster.bootstrap, topic, count, f"p{n}") for n in range(2)]
        for load in loads:
            load.start()
        killed: list[str] = []
        try:
            for kind in (KAFKA, KLAMM) * 2:
                victim = cluster.controlled_by(kind)
                loads[0].wait_for_more(50)
                cluster.brokers[victim].kill()
                killed.append(kind)
                cluster.until(
                    lambda victim=victim: cluster.controller() not in (None, victim),
                    "another controller",
                    40,
                )
                loads[0].wait_for_more(50, timeout_s=90)
                cluster.start(victim)
                cluster.settle(topic, count)
        finally:
            for load in loads:
                load.halt()
        cluster.settle(topic, count)
        check_equal_logs(cluster, topic, count)
        acked = [record for load in loads for record in load.acked]
        assert [fault for load in loads for fault in load.failed] == []
        logs = read_replicas(cluster.data, topic, range(count), cluster.brokers)
        assert check(acked, logs) == []
        said.append(
            f"{len(acked)} records acknowledged over {len(killed)} kills; none lost, doubled or "
            "out of order"
        )
        cluster.delete(topic)


@BOTH
def test_tools_of_both_kinds_go_on_working(
    cluster: MixedCluster, controller: str, shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown("kafka-configs, klamm story, group protocols", controller) as said:
        cluster.controlled_by(controller)
        topic = next(names)
        cluster.create(topic, [[1, 10]])
        ours, theirs = cluster.brokers[10], cluster.brokers[1]
        name = "klamm.leader.rebalance.batch"
        config = incremental_alter_configs.AlterableConfig(name, 0, "7")
        resource = incremental_alter_configs.AlterConfigsResource(4, "", [config])
        answer = cluster.request(
            ours, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, incremental_alter_configs.Request([resource])
        )
        assert answer.responses[0].error_code == 0, answer
        for broker in (theirs, ours):
            words = ("--bootstrap-server", broker.address, "--entity-type", "brokers")
            default = (*words, "--entity-default")
            change = ("--alter", "--add-config", "log.cleaner.io.buffer.load.factor=0.8")
            kafka.shell(KAFKA_VERSION, "kafka-configs", *default, *change)
            listed = kafka.shell(KAFKA_VERSION, "kafka-configs", *default, "--describe")
            assert "log.cleaner.io.buffer.load.factor=0.8" in listed
        assert cluster.node("/klamm/config/brokers")["config"] == {name: "7"}
        said.append("kafka-configs reads and changes the defaults of all brokers")

        code = main(["story", topic, "-b", ours.address])
        told = capsys.readouterr()
        assert code == 0, told
        assert "no story from broker 1, 2, not klamm's" in told.err
        if controller == KLAMM:
            assert "the topic was created" in told.out
        said.append("a story says whose decisions are missing")

        versions = cluster.request(ours, ApiKey.API_VERSIONS, 3, api_versions.Request("x", "1"))
        offered = {api.api_key for api in versions.api_keys}
        assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in offered
        said.append("KIP-848 is not offered")
        cluster.delete(topic)


@BOTH
def test_an_emptied_disk_does_not_lead(
    cluster: MixedCluster, controller: str, shown: Shown
) -> None:
    with shown("klamm.election.remember.disk", controller) as said:
        cluster.controlled_by(controller)
        topic = next(names)
        own = cluster.add(KLAMM, 12, klamm_election_remember_disk="true")
        try:
            cluster.start(12)
            cluster.create(topic, [[12]], min_insync_replicas="1")
            produce(cluster, topic, 1, 50)
            own.kill()
            cluster.until(
                lambda: "12" not in cluster.children("/brokers/ids"), "its session to end", 40
            )
            own.directory.rename(own.directory.with_name("kept"))
            cluster.controlled_by(controller)
            cluster.start(12)
            cluster.until(lambda: cluster.state(topic, 0)["leader"] == -1, "nobody to lead", 20)
            said.append("nobody leads from an empty disk")
            own.kill()
            shutil.rmtree(own.directory)
            own.directory.with_name("kept").rename(own.directory)
            cluster.until(
                lambda: "12" not in cluster.children("/brokers/ids"), "its session to end", 40
            )
            cluster.start(12)
            cluster.settle(topic, 1)
            assert len(read(cluster, f"{topic}-group", topic, 50)) == 50
            said.append("with the disk it had, all records are back")
            cluster.delete(topic)
        finally:
            own.stop()
            del cluster.brokers[12]
            cluster.wait_for_all()


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A disk that fills up; skips where none can be mounted."""
    place.mkdir(parents=True)
    mount = shutil.which("mount")
    size = f"size={megabytes}m"
    done = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=False, capture_output=True
    )
    if not done or done.returncode != 0:
        pytest.skip("a small disk can only be mounted by root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("failing", [KAFKA, KLAMM])
def test_a_disk_that_fails_under_the_other_kinds_controller(
    cluster: MixedCluster, failing: str, shown: Shown
) -> None:
    controller = _OTHER[failing]
    with shown(f"a disk of {failing}'s broker fails", controller) as said:
        broker_id = 3 if failing == KAFKA else 12
        with small_disk(cluster.data / f"small-{broker_id}", 24) as disk:
            own = cluster.add(failing, broker_id, log_segment_bytes=str(1024 * 1024))
            own.directory = disk / "logs"
            try:
                cluster.start(broker_id)
                cluster.controlled_by(controller)
                topic = next(names)
                heirs = [1, 10]
                cluster.create(topic, [[broker_id, *heirs]])
                # Somebody else takes what was left of the disk; writing goes on until it fails.
                (disk / "ballast").write_bytes(bytes(disk_left(disk) - 512 * 1024))
                produce(cluster, topic, 1, 60_000)
                cluster.until(
                    lambda: cluster.state(topic, 0)["leader"] in heirs, "another to lead", 60
                )
                said.append("another leads, and nothing acknowledged is lost")
                assert len(read(cluster, f"{topic}-group", topic, 60_000)) == 60_000
            finally:
                own.kill()
                del cluster.brokers[broker_id]
                cluster.wait_for_all()
                cluster.delete(topic, wait=False)


def disk_left(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize
