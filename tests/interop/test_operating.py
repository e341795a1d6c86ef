"""What an operator does about topics that hang: look, help along, wait, call off."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.client.aio.admin import UNCLEAN_ELECTION, Admin
from klamm.client.aio.cluster import Client
from klamm.client.aio.consumer import Consumer
from klamm.client.aio.producer import Producer
from klamm.controller.states.judging import judge
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST
from klamm.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from klamm.protocol.private import PrivateKey
from klamm.view import ClusterView


class Said(NamedTuple):
    """How one command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)


Klamm = Callable[..., Said]
T = TypeVar("T")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {
        "auto.create.topics.enable": False,
        "auto.leader.rebalance.enable": False,
        "log.segment.delete.delay.ms": 0,
        "klamm.delete.topic.cancel.enable": True,
        "klamm.placement.strict.assignment": False,
    }
    with Cluster(3, settings=settings, data=tmp_path) as running:
        yield running


@pytest.fixture
def klamm(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Klamm:
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", cluster.bootstrap_servers)

    def run(*args: str) -> Said:
        code = main(args)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run


def hosts(data: Path, partition: str) -> set[int]:
    """The brokers with a log of this partition."""
    return {int(path.parent.name.removeprefix("broker-")) for path in data.glob(f"*/{partition}")}


def eventually(holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """For what no broker announces."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def other_than_controller(cluster: Cluster) -> int:
    return (cluster.wait_for_controller() + 1) % 3


def test_a_deletion_with_a_stopped_broker_is_explained_and_completed_without_it(
    cluster: Cluster, klamm: Klamm, tmp_path: Path
) -> None:
    cluster.create_topic("orders", 2, 3)
    cluster.wait_for_isr("orders")
    absent = other_than_controller(cluster)
    cluster.stop_broker(absent)
    cluster.wait_for_isr("orders", size=2)

    late = klamm("topics", "delete", "orders", "--wait", "--timeout", "0.5")
    assert late.code == 1
    assert f"deletion of partitions 0, 1 on broker {absent}: broker is down" in late.err
    assert f"until broker {absent} is back, or its copy is given up" in late.err

    found = klamm("topics", "explain", "orders", "-o", "json").json()
    assert found["deleting_since_ms"] is not None
    assert {(w["partition"], w["broker"], w["why"]) for w in found["waiting"]} == {
        (0, absent, "broker is down"),
        (1, absent, "broker is down"),
    }
    assert all(w["since_ms"] >= found["deleting_since_ms"] > 0 for w in found["waiting"])
    told = klamm("topics", "explain", "orders").out
    assert re.match(r"orders is being deleted, since \d\d:\d\d:\d\d \(\d+ s\)\n", told)

    alive = cluster.wait_for_controller()
    refused = klamm("topics", "delete", "orders", "--forget-broker", str(alive))
    assert (refused.code, refused.err) == (1, f"klamm: broker {alive} is alive\n")

    done = klamm("topics", "delete", "orders", "--forget-broker", str(absent), "--wait")
    assert done == Said(
        0,
        f"broker {absent} will drop its copy of orders when it is back\ndeleted topic orders\n",
        "",
    )
    assert not any("orders" in path for path in cluster.store_paths())
    assert hosts(tmp_path, "orders-0") == {absent}
    assert klamm("topics", "explain", "orders").code == 1

    cluster.start_broker(absent)
    eventually(lambda: f"/klamm/forgotten/{absent}" not in cluster.store_paths())
    assert hosts(tmp_path, "orders-0") == set()


def test_a_copy_on_a_broker_that_never_was_there_is_given_up_and_the_ledger_says_so(
    cluster: Cluster, klamm: Klamm
) -> None:
    here = cluster.wait_for_controller()
    assert klamm("topics", "create", "x", "--assignment", f"{here}:7").code == 0
    assert klamm("topics", "freeze", "x").code == 0
    late = klamm("topics", "delete", "x", "--wait", "--timeout", "0.5")
    assert (late.code, "on broker 7: broker is down" in late.err) == (1, True)
    assert klamm("topics", "explain", "x", "-o", "json").json()["state"] == "halted"
    cluster.restart_broker(here)
    assert cluster.wait_for_controller() != here
    eventually(lambda: klamm("topics", "explain", "x", "-o", "json").json()["state"] == "halted")
    assert klamm("topics", "delete", "x", "--forget-broker", "7", "--wait").code == 0

    asked = _with_admin(cluster, lambda admin: admin.ask_brokers(PrivateKey.STORY, {}))
    answers = cluster._run(asked)
    ledger = [entry for answer in answers.values() for entry in answer["entries"]]
    assert judge(ledger).faults() == []
    assert sum(entry.get("edition") == 2 for entry in ledger) >= 2
    life = [e for e in ledger if e["subject"] == "topic x"]
    life.sort(key=lambda e: (e["controller_epoch"], e["sequence"]))
    assert [(e["before"], e["after"]) for e in life] == [
        ("absent", "created"),
        ("created", "frozen"),
        ("frozen", "queued for deletion"),
        ("queued for deletion", "halted"),
        ("found", "queued for deletion"),  # by another controller
        ("queued for deletion", "halted"),
        ("halted", "deleting"),
        ("deleting", "absent"),
    ]
    why = "every replica has confirmed, but for the copies on broker 7: given up"
    assert life[-1]["why"] == why
    told = klamm("story", "x").out
    assert "x-0 on broker 7: DeletionIneligible -> DeletionSuccessful (given up by hand)" in told
    assert told.endswith(f"topic x: deleting -> absent ({why})\n")


def test_a_deletion_that_waits_for_a_broker_is_called_off(cluster: Cluster, klamm: Klamm) -> None:
    cluster.create_topic("kept", 1, 3)
    cluster.wait_for_isr("kept")
    before = cluster.store_paths()
    absent = other_than_controller(cluster)
    cluster.stop_broker(absent)
    assert klamm("topics", "delete", "kept", "--wait", "--timeout", "0.2").code == 1
    assert klamm("topics", "cancel-delete", "kept") == Said(
        0, "deletion cancelled: topic kept stays\n", ""
    )
    cluster.wait_for_topic("kept", partitions=1)
    again = klamm("topics", "cancel-delete", "kept")
    assert (again.code, again.err) == (1, "klamm: topic kept is not being deleted\n")
    cluster.start_broker(absent)
    cluster.wait_for_isr("kept", size=3)
    assert cluster.store_paths() == before
    assert klamm("topics", "explain", "kept").out == "kept is healthy\n"


def test_a_topic_is_waited_for_until_nothing_is_left(
    cluster: Cluster, klamm: Klamm, tmp_path: Path
) -> None:
    before = cluster.store_paths()
    cluster.create_topic("gone", 2, 3)
    said = klamm("topics", "delete", "gone", "nobody", "--if-exists", "--wait", "-o", "json")
    assert said.json() == {"topics": ["gone"], "waiting": []}
    assert cluster.store_paths() == before
    assert hosts(tmp_path, "gone-0") == set()
    assert klamm("topics", "delete", "gone", "--wait").code == 1


def test_a_broker_out_of_the_controllers_reach_loses_its_leaderships() -> None:
    settings = {"klamm.fence.unreachable.ms": 1_500, "auto.leader.rebalance.enable": False}
    with Cluster(3, settings=settings) as cluster:
        cluster.create_topic("T", 3, 3)
        cluster.wait_for_isr("T")
        deaf = other_than_controller(cluster)
        (led,) = [p for p in range(3) if cluster.wait_for_leader("T", p) == deaf]
        # It is registered and runs, but nobody can connect to it any more.
        broker = cluster._app.brokers[deaf]
        cluster._run(broker.listeners.stop())
        cluster._run(_nudge(cluster))

        def is_led_elsewhere(view: ClusterView) -> bool:
            seen = view.partition("T", led)
            return seen is not None and seen.leader not in (deaf, -1)

        view = cluster.wait_until(is_led_elsewhere)
        assert deaf not in view.brokers[view.controller_id].live
        assert f"/brokers/ids/{deaf}" in cluster.store_paths()
        cluster.kill_broker(deaf)
        cluster.start_broker(deaf)
        cluster.wait_for_isr("T", size=3)


async def _nudge(cluster: Cluster) -> None:
    """Give the controller something to tell every broker."""
    async with Client(cluster.bootstrap_servers) as client:
        await Admin(client).create_topics([CreatableTopic("nudge", 1, 1)], timeout_s=10)


def test_an_empty_disk_does_not_lead(tmp_path: Path) -> None:
    settings = {"klamm.election.remember.disk": True, "auto.leader.rebalance.enable": False}
    with Cluster(3, settings=settings, data=tmp_path) as cluster:
        controller = cluster.wait_for_controller()
        last, other = (b for b in range(3) if b != controller)
        topic = CreatableTopic("T", -1, -1, [CreatableReplicaAssignment(0, [last, other])])
        cluster._run(_with_admin(cluster, lambda admin: admin.create_topics([topic])))
        cluster.wait_for_isr("T", size=2)
        cluster._run(_produce(cluster))
        cluster.stop_broker(other)
        cluster.wait_for_isr("T", size=1)
        cluster.kill_broker(last)
        shutil.rmtree(tmp_path / f"broker-{last}" / "T-0")
        cluster.start_broker(last)

        def why() -> set[str]:
            body = {"topic": "T"}
            asked = _with_admin(cluster, lambda a: a.ask_controller(PrivateKey.EXPLAIN, body))
            return {reason["why"] for reason in cluster._run(asked)["waiting"]}

        eventually(lambda: "the last in-sync replica has lost its log" in why())
        cluster.start_broker(other)
        assert "the last in-sync replica has lost its log" in why()
        wanted = [TopicPartition("T", 0)]
        elect = _with_admin(cluster, lambda a: a.elect_leaders(UNCLEAN_ELECTION, wanted))
        (result,) = cluster._run(elect).values()
        assert result.error_code == 0
        assert cluster.wait_for_leader("T") == other
        assert cluster._run(_consume(cluster)) == [b"precious"]
        cluster.wait_for_isr("T", size=2)


async def _with_admin(cluster: Cluster, work: Callable[[Admin], Awaitable[T]]) -> T:
    async with Client(cluster.bootstrap_servers) as client:
        return await work(Admin(client))


async def _produce(cluster: Cluster) -> None:
    async with Client(cluster.bootstrap_servers) as client, Producer(client) as producer:
        await producer.send("T", b"precious")


async def _consume(cluster: Cluster) -> list[bytes | None]:
    begin = {TopicPartition("T", 0): EARLIEST}
    async with Client(cluster.bootstrap_servers) as client, Consumer(client, begin) as consumer:
        return [record.value for record in await consumer.poll(timeout_s=10)]


def test_status_says_what_is_wrong_and_nothing_else(klamm: Klamm, cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=2, replication_factor=3)
    cluster.create_topic("safe", partitions=1, replication_factor=3)
    assert klamm("configs", "set", "-t", "safe", "min.insync.replicas=3").code == 0
    well = klamm("status")
    assert (well.code, well.out.splitlines()[0]) == (0, "healthy")
    absent = next(id for id in range(3) if id != cluster.controller_id)
    cluster.kill_broker(absent)
    cluster.wait_until(
        lambda view: all(
            absent not in info.isr
            for topic in ("orders", "safe")
            for broker in view.brokers.values()
            for info in broker.partitions(topic).values()
        )
    )
    ill = klamm("status")
    assert (ill.code, ill.out.splitlines()[0]) == (1, "not healthy")
    assert f"broker {absent} is down" in ill.out
    assert "below min.insync.replicas: safe-0" in ill.out
    assert "under-replicated: orders-0, orders-1, safe-0" in ill.out
    said = klamm("topics", "delete", "orders")
    assert "topic orders is marked for deletion, and the deletion waits:" in said.out
    assert f"klamm topics delete orders --forget-broker {absent}" in said.out
    assert "deleted topic" not in said.out
    assert f"orders  halted  broker {absent}" in klamm("topics", "list", "--deleting").out
    assert "orders is being deleted" in klamm("topics", "explain", "--all").out
    found = klamm("status", "-o", "json")
    assert found.code == 1
    told = json.loads(found.out)
    assert (told["healthy"], told["complete"]) == (False, True)
    assert told["deletions"]["items"][0]["waits_for"] == [absent]
    rows = klamm("brokers", "list", "-o", "json").json()
    assert [row["id"] for row in rows if row["state"] == "down"] == [absent]


def test_a_move_is_throttled_and_the_limit_lifted(cluster: Cluster, klamm: Klamm) -> None:
    assert klamm("topics", "create", "slow", "--assignment", "0,1").code == 0
    cluster.wait_for_topic("slow", partitions=2)
    plan = cluster.data / "plan.json"
    plan.write_text(klamm("reassign", "plan", "slow", "--brokers", "2").out)
    said = klamm("reassign", "apply", str(plan), "--throttle", "1000000")
    assert "klamm reassign unthrottle lifts the limit" in said.out
    rate = klamm("configs", "get", "--broker", "2", "-o", "json").json()
    assert rate["follower.replication.throttled.rate"]["value"] == "1000000"
    lists = klamm("configs", "get", "-t", "slow", "-o", "json").json()
    assert lists["leader.replication.throttled.replicas"]["value"] == "0:0,1:1"
    assert lists["follower.replication.throttled.replicas"]["value"] == "0:2,1:2"
    lifted = klamm("reassign", "unthrottle", "-o", "json").json()
    assert lifted == {"brokers": [0, 1, 2], "topics": ["slow"]}
    assert klamm("reassign", "unthrottle").out == "nothing was throttled\n"


def test_a_broker_of_three_is_drained_although_the_ledger_is_everywhere(
    cluster: Cluster, klamm: Klamm
) -> None:
    cluster.create_topic("orders", partitions=2, replication_factor=2)
    said = klamm("brokers", "drain", "0")
    assert (said.code, said.err) == (0, "")
    cluster.wait_until(
        lambda view: all(
            0 not in info.replicas
            for broker in view.brokers.values()
            for topic in broker.topics
            for info in broker.partitions(topic).values()
        )
    )
