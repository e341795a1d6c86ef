"""Records that a cluster does not take at the moment: the reason comes at once, and in the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from klamm import Cluster
from klamm.client.aio.cluster import Client
from klamm.client.aio.producer import Producer, Trouble
from klamm.client.errors import DeadlineExceeded

pytestmark = pytest.mark.interop


def test_produce_says_why_it_waits() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", replication_factor=2, configs={"min.insync.replicas": "2"})
        cluster.stop_broker(1 if cluster.controller_id == 0 else 0)
        cluster.wait_for_isr("orders", size=1)
        asyncio.run(_give_up(cluster.bootstrap_servers))
        with subprocess.Popen(
            [sys.executable, "-m", "klamm", "produce", "orders", "-b", cluster.bootstrap_servers],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write("a coat\n")
            process.stdin.flush()
            said = process.stderr.readline()
            process.kill()
        assert said.startswith("klamm: orders-0 takes no records: ")
        assert "in sync" in said
        assert "klamm status" in said


async def _give_up(servers: str) -> None:
    """A producer tells of the trouble while it tries, and names it when it gives up."""
    heard: list[Trouble] = []
    lost = pytest.raises(DeadlineExceeded, match=r"orders-0 took no record in 1 s: .*in sync|REPL")
    with lost:
        async with (
            Client(servers) as client,
            Producer(client, timeout_s=1, on_trouble=heard.append) as producer,
        ):
            await producer.send("orders", b"a coat")
            await producer.flush()
    assert heard[0].tp == ("orders", 0)
    assert heard[-1].lasting_s > 0
