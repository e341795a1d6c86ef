"""More connections than the process has descriptors, and a cluster without a broker left."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import select
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.process import Up, data_args, up
from klamm import Cluster
from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.aio.producer import Producer
from klamm.model.errors import KlammError
from klamm.protocol.messages.create_topics import CreatableTopic

FILES = 300
LIMITED = (
    sys.executable,
    "-c",
    "import os, resource, sys; "
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); "
    "os.execv(sys.argv[1], sys.argv[1:])",
)


def addresses(running: Up) -> list[tuple[str, int]]:
    found = (each.rpartition(":") for each in running.bootstrap.split(","))
    return [(host, int(port)) for host, _, port in found]


@contextlib.contextmanager
def crowd(running: Up, each: int) -> Iterator[list[socket.socket]]:
    """So many connections to each broker, of people who say nothing."""
    sockets: list[socket.socket] = []
    try:
        for address in addresses(running):
            for _ in range(each):
                sockets.append(socket.socket())
                sockets[-1].setblocking(False)
                sockets[-1].connect_ex(address)
        yield sockets
    finally:
        for each_socket in sockets:
            each_socket.close()


async def test_a_flood_of_connections_harms_neither_disks_nor_replication(tmp_path: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    each = min(400, (soft - 100) // 3)
    flags = ("-X", "replica.high.watermark.checkpoint.interval.ms=50")
    with up(*data_args(tmp_path), *flags, launcher=LIMITED) as running:

        async def work() -> None:
            async with Client(running.bootstrap) as client:
                await Admin(client).create_topics([CreatableTopic("t", 1, 3)])
                async with Producer(client) as producer:
                    await producer.send("t", b"before")
                    with crowd(running, each) as sockets:
                        turned_away = await asyncio.to_thread(_closed, sockets)
                        assert turned_away > each, "most are closed"
                        # New segments, checkpoints, and followers that have to be in sync.
                        for number in range(50):
                            await producer.send("t", b"%d" % number)

        await asyncio.wait_for(work(), 60)

        async def after() -> None:
            async with Client(running.bootstrap) as client:
                (result,) = await Admin(client).create_topics([CreatableTopic("u", 3, 3)])
                assert result.error_code == 0, "new clients are served again"

        await asyncio.wait_for(after(), 60)
        assert running.stop() == 0
        assert running.process.stderr is not None
        lines = running.process.stderr.read().splitlines()
        assert len(lines) <= 6, lines
        assert any("too many connections" in line or "not accepted" in line for line in lines)
        assert not [line for line in lines if "Traceback" in line or "disk" in line], lines


def _closed(sockets: list[socket.socket]) -> int:
    """How many of these the brokers have closed, once no more are."""
    left, closed, quiet_since = set(sockets), 0, time.monotonic()
    while time.monotonic() - quiet_since < 0.8:
        for start in range(0, len(sockets), 500):
            some = [s for s in sockets[start : start + 500] if s in left]
            poll = select.poll()
            by_number = {s.fileno(): s for s in some}
            for number in by_number:
                poll.register(number, select.POLLIN | select.POLLHUP)
            for number, _ in poll.poll(50):
                left.discard(by_number[number])
                closed, quiet_since = closed + 1, time.monotonic()
    return closed


def spoil(directory: Path) -> None:
    """Put a file where a disk was."""
    directory.rename(directory.with_name("gone"))
    directory.write_text("not a directory")


def test_a_process_without_a_living_broker_ends_and_says_so(tmp_path: Path) -> None:
    flags = ("-X", "replica.high.watermark.checkpoint.interval.ms=50")
    with up(*data_args(tmp_path, brokers=1), *flags) as running:
        spoil(tmp_path / "broker-0")
        assert running.process.wait(timeout=30) == 3
        assert running.process.stderr is not None
        assert "klamm: no broker is left" in running.process.stderr.read()


@pytest.mark.one_process
def test_a_cluster_in_a_program_notices_too(tmp_path: Path) -> None:
    quick = {"replica.high.watermark.checkpoint.interval.ms": "50"}
    with Cluster(brokers=1, data=tmp_path, settings=quick) as cluster:
        spoil(tmp_path / "broker-0")
        with pytest.raises(KlammError, match="no broker is left: 0 stopped"):
            cluster.wait_until(lambda _: False)
        with pytest.raises(KlammError, match="no broker is left"):
            cluster.create_topic("t")
        assert cluster.running == []


def test_an_address_that_others_reach_is_warned_of_in_one_line(tmp_path: Path) -> None:
    with up("--host", "0.0.0.0", *data_args(tmp_path, brokers=1)) as running:
        assert running.stop() == 0
        assert running.process.stderr is not None
        (line,) = running.process.stderr.read().splitlines()
        assert "listen on 0.0.0.0 without encryption" in line
        assert "--host 127.0.0.1" in line
