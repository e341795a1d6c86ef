"""Records that somebody has taken away while a broker was down: told, and not led over."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from klamm.broker.replicas.partition import Role
from klamm.model.names import NO_LEADER, TopicPartition
from unit.broker.brokers import World, log_values, produce, until, world

REMEMBER = {"klamm.election.remember.disk": "true"}
VALUES = [b"record %d" % number for number in range(8)]
T0 = TopicPartition("t", 0)


async def write(w: World, broker: int = 0) -> None:
    connection = await w.connect(broker)
    for value in VALUES:
        assert (await produce(connection, value)).error_code == 0
    await connection.close()


async def stop(w: World, *brokers: int) -> None:
    """Stop brokers in order, and all at once as far as anybody can tell."""
    for broker in brokers:
        await w.brokers[broker].parts.controller.stop(resign=False)
    for broker in brokers:
        await w.brokers.pop(broker).stop(hand_over=False)


def cut(home: Path) -> None:
    """Let the log end in the middle of its records."""
    path = home / "t-0" / f"{0:020d}.log"
    os.truncate(path, path.read_bytes().index(VALUES[4]))


async def unled(w: World) -> None:
    """Wait until the controller has heard that broker 0 cannot lead."""

    def holds() -> bool:
        shown = w.brokers[0].parts.metadata.snapshot.partition(T0)
        return shown is not None and shown.leader == NO_LEADER

    await until(holds, "nobody leads")
    hosted = w.brokers[0].parts.replicas.partition(T0)
    assert hosted is None or not hosted.is_leader


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records]


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_replica_that_was_cut_at_rest_follows_one_that_has_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_whole: bool
) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0, 1))
        await write(w)
        await stop(w, 1, 0)
        home = tmp_path / "broker-0"
        shutil.rmtree(home / "t-0") if is_whole else cut(home)
        # It comes first, was in sync, and is the preferred leader: still it must not lead.
        await w.start(0)
        told = "a log is gone" if is_whole else "a log was cut at rest"
        assert told in messages(caplog)
        await unled(w)
        # Not after another restart either.
        await stop(w, 0)
        await w.start(0)
        await unled(w)
        await w.start(1)
        await until(lambda: w.leader().leader == 1, "the other one leads")
        await until(lambda: set(w.leader().isr.committed) == {0, 1}, "in sync again")
        assert log_values(w.replica(0)) == log_values(w.replica(1)) == VALUES
        assert w.brokers[0].parts.logs.missed_end(T0) is None


async def test_a_follower_that_was_cut_at_rest_leaves_the_in_sync_set_first(tmp_path: Path) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0, 1))
        await write(w)
        await stop(w, 1, 0)
        cut(tmp_path / "broker-1")
        await w.start(0)
        await w.start(1)
        await until(lambda: w.replica(1).role is Role.FOLLOWER, "it follows")
        await until(lambda: set(w.leader().isr.committed) == {0, 1}, "in sync again")
        assert log_values(w.replica(1)) == VALUES


async def test_the_only_replica_goes_on_with_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        await write(w)
        await stop(w, 0)
        cut(tmp_path / "broker-0")
        await w.start(0)
        (told,) = [r for r in caplog.records if r.message == "a log was cut at rest"]
        assert vars(told)["missing"] == 4
        await until(lambda: w.leader().leader == 0, "it leads")
        assert log_values(w.leader()) == VALUES[:4]


# After a crash nobody knows how many records there were.
@pytest.mark.parametrize(
    ("lost", "is_clean"),
    [("records", True), ("log", True), ("log", False), ("disk", True), ("disk", False)],
)
async def test_with_a_memory_the_only_replica_waits_for_its_disk(
    tmp_path: Path, lost: str, is_clean: bool
) -> None:
    async with world(tmp_path, count=1, **REMEMBER) as w:
        await w.create("t", (0,))
        await write(w)
        assert w.leader().leader_epoch == 0
        await (stop(w, 0) if is_clean else w.kill(0))
        home = tmp_path / "broker-0"
        kept = tmp_path / "kept"
        shutil.copytree(home, kept)
        if lost == "records":
            cut(home)
        else:
            shutil.rmtree(home / "t-0" if lost == "log" else home)
        await w.start(0)
        await unled(w)
        await w.kill(0)
        shutil.rmtree(home)
        kept.rename(home)
        await w.start(0)
        await until(lambda: log_values(w.leader()) == VALUES, "it leads with what it had")
