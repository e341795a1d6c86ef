"""Disks that are full, refuse a sync or spoil records: nothing acknowledged is lost unsaid.

Faults are the kernel's own: a segment file is a link to a device that is always full, or that
cannot be synced, or lies on a file system too small for it.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.broker.replicas.partition import Role
from klamm.broker.server import Broker
from klamm.client.aio.connection import Connection
from klamm.log.paper import PaperLog
from klamm.model.errors import ErrorCode, UsageError
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import describe_log_dirs
from unit.broker.brokers import World, log_values, produce, until, world

TP = TopicPartition("t", 0)
TWO = {"log_dirs": "one,two", "min_insync_replicas": "1"}


def replace_segment(broker: Broker, device: str) -> None:
    """Let the file that takes the partition's records be this device."""
    local = broker.parts.logs.get(TP)
    assert local is not None
    if isinstance(local, PaperLog):
        local.begin()
    active = local.segments.active
    broker.parts.logs.directories[0].pool.clear()
    Path(active.path).unlink(missing_ok=True)
    os.symlink(device, active.path)


async def directory_codes(connection: Connection) -> list[int]:
    request = describe_log_dirs.Request(None)
    response = await connection.request(ApiKey.DESCRIBE_LOG_DIRS, 4, request)
    return sorted(result.error_code for result in response.results)


async def is_moved_and_told(
    w: World, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """The directory is offline, the other broker leads, and the operator has heard of it."""
    await until(lambda: w.leader().leader == 1, "the other replica leads")
    assert w.replica(0).role is Role.OFFLINE
    assert await directory_codes(connection) == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    (told,) = [r for r in caplog.records if r.message == "a log directory failed"]
    # The operating system's word, not the way through the code.
    assert (told.levelno, told.exc_info) == (logging.CRITICAL, None)
    assert vars(told)["why"]
    for broker in w.brokers.values():
        assert await broker.parts.metadata.wait_for(lambda s: 0 in s.topics["t"][0].offline, 10_000)


@pytest.mark.parametrize(
    ("device", "configs"),
    [
        ("/dev/full", {}),  # no space left
        ("/dev/null", {"flush.messages": "1"}),  # takes every write, refuses every sync
    ],
)
async def test_a_record_that_the_disk_does_not_take_is_not_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, device: str, configs: dict[str, str]
) -> None:
    async with world(tmp_path, count=2, **TWO) as w:
        await w.create("t", (0, 1), configs=configs)
        replace_segment(w.brokers[0], device)
        connection, other = await w.connect(0), await w.connect(1)
        for acks in (1, -1):
            refused = await produce(connection, b"nowhere", acks=acks)
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await is_moved_and_told(w, connection, caplog)
        assert (await produce(other, b"once more")).error_code == 0
        assert log_values(w.leader()) == [b"once more"]
        await connection.close()
        await other.close()


async def test_a_follower_whose_disk_fails_leaves_the_set(tmp_path: Path) -> None:
    async with world(tmp_path, count=2, log_dirs="one,two", min_insync_replicas="1") as w:
        await w.create("t", (1, 0))
        replace_segment(w.brokers[0], "/dev/full")
        connection = await w.connect(1)
        assert (await produce(connection, b"kept", timeout_ms=20_000)).error_code == 0
        assert w.leader().isr.committed == (1,), "who cannot write does not count"
        await connection.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for two megabytes."""
    path = tmp_path / "broker-0" / "one"
    path.mkdir(parents=True)
    options = ("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path))
    if os.getuid() != 0 or subprocess.run(["mount", *options], check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


async def test_a_disk_that_fills_up_keeps_what_was_acknowledged(
    tmp_path: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, count=2, **TWO) as w:
        await w.create("t", (0, 1))
        local = w.replica(0).log
        assert local is not None
        assert local.directory.startswith(str(small_disk)), "the emptiest directory, in order"
        connection, other = await w.connect(0), await w.connect(1)
        kept: list[bytes] = []
        for number in range(40):
            value = b"%02d" % number * 50_000
            result = await produce(connection, value)
            if result.error_code:
                break
            kept.append(value)
        assert 10 < len(kept) < 25
        assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await is_moved_and_told(w, connection, caplog)
        assert (await produce(other, b"once more")).error_code == 0
        assert log_values(w.leader()) == [*kept, b"once more"]
        await connection.close()
        await other.close()


def spoil(path: Path, value: bytes, *, with_tail: bool) -> None:
    """Flip a bit of a record; or let the write of it be torn."""
    content = bytearray(path.read_bytes())
    at = content.index(value)
    content[at] ^= 1
    path.write_bytes(content if with_tail else content[: at + 1])


@pytest.mark.parametrize("with_tail", [True, False])
async def test_what_a_disk_spoils_comes_back_from_another_replica(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, with_tail: bool
) -> None:
    async with world(tmp_path, count=2) as w:
        await w.create("t", (0, 1))
        connection = await w.connect(0)
        values = [b"record %d" % number for number in range(8)]
        for value in values:
            assert (await produce(connection, value)).error_code == 0
        await connection.close()
        await w.kill(0)
        await until(lambda: w.leader().leader == 1, "the other replica leads")
        home = tmp_path / "broker-0" / "t-0"
        spoil(home / f"{0:020d}.log", values[4], with_tail=with_tail)
        await w.start(0)
        await until(lambda: set(w.leader().isr.committed) == {0, 1}, "in sync again")
        assert log_values(w.replica(0)) == log_values(w.replica(1)) == values
        (told,) = [r for r in caplog.records if r.message == "recovery cut a log"]
        assert vars(told)["log_end"] == 4


async def test_records_that_only_one_disk_had_are_not_lost_unsaid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        connection = await w.connect(0)
        for number in range(8):
            assert (await produce(connection, b"record %d" % number)).error_code == 0
        await connection.close()
        directory = w.brokers[0].parts.logs.directories[0]
        directory.checkpoint_high_watermarks()
        await w.kill(0)
        home = tmp_path / "broker-0" / "t-0"
        spoil(home / f"{0:020d}.log", b"record 5", with_tail=True)
        await w.start(0)
        (told,) = [r for r in caplog.records if r.message == "recovery cut a log"]
        assert told.levelno == logging.ERROR
        assert vars(told)["missing"] == 3


async def test_a_spoilt_record_is_not_replicated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, count=2, min_insync_replicas="1") as w:
        await w.create("t", (0, 1))
        await w.kill(1)
        await until(lambda: w.leader().isr.committed == (0,), "broker 1 is out")
        connection = await w.connect(0)
        for number in range(3):
            assert (await produce(connection, b"record %d" % number)).error_code == 0
        await connection.close()
        spoil(tmp_path / "broker-0" / "t-0" / f"{0:020d}.log", b"record 1", with_tail=True)
        await w.start(1)
        await until(
            lambda: any(r.message == "a fetch is refused" for r in caplog.records),
            "the follower refuses it, and says so",
        )
        assert log_values(w.replica(1)) in ([], [b"record 0"])
        assert w.leader().isr.committed == (0,)


async def test_a_broker_starts_with_the_disks_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, count=2, **TWO) as w:
        await w.create("t", (0, 1), (0, 1))
        broker = w.brokers[0]
        (lost,) = (log.topic_partition for log in broker.parts.logs.directories[0])
        (kept,) = (log.topic_partition for log in broker.parts.logs.directories[1])
        await w.kill(0)
        one = tmp_path / "broker-0" / "one"
        one.rename(tmp_path / "elsewhere")
        one.write_text("a file where a directory was")
        await w.start(0)
        await until(lambda: w.replica(0, *kept).role is Role.FOLLOWER, "the other log is fine")
        await until(lambda: w.replica(0, *lost).role is Role.OFFLINE, "and this one is not")
        assert w.leader(*lost).leader == 1
        assert "a log directory failed" in [record.message for record in caplog.records]
        await w.kill(0)
        (tmp_path / "broker-0" / "two").rename(tmp_path / "also")
        (tmp_path / "broker-0" / "two").write_text("a file, too")
        with pytest.raises(UsageError, match="cannot be used"):
            await w.start(0)
        w.brokers.pop(0, None)
