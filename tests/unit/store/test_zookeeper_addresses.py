"""Connect strings that cannot work are refused before anybody is asked."""

from __future__ import annotations

import socket

import pytest

from klamm.model.errors import StoreUnavailable, UsageError

zookeeper = pytest.importorskip("klamm.store.zookeeper", exc_type=ImportError)


@pytest.mark.parametrize(
    ("connect", "why"),
    [
        ("", "names no ZooKeeper"),
        ("/kafka", "names no ZooKeeper"),
        ("zk1:2181,,zk2", "is not the address"),
        ("zk1:0", "is not the address"),
        ("zk1:99999", "is not the address"),
        ("zk1:two", "is not the address"),
        ("zk 1:2181", "is not the address"),
        ("http://zk1:2181", "is not the address"),
        ("zk1:2181\x1b[2J", "is not the address"),
        ("zk1:2181/kafka,zk2:2181/kafka", "the path comes once"),
        ("zk1:2181//kafka", "is no path"),
        ("zk1:2181/a//b", "is no path"),
        ("zk1:2181/../kafka", "is no path"),
        ("zk1:2181/./kafka", "is no path"),
        ("zk1:2181/ka fka", "is no path"),
        ("zk1:2181/ka\0fka", "is no path"),
    ],
)
def test_what_cannot_be_parsed_is_refused_at_once(connect: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        zookeeper.ZooKeeperStore(connect)


@pytest.mark.parametrize(
    ("connect", "addresses", "chroot"),
    [
        ("zk1", [("zk1", 2181)], ""),
        ("zk1:1,zk-2.x_y:65535/", [("zk1", 1), ("zk-2.x_y", 65535)], ""),
        ("[::1]:2181,[fe80::1]/kafka/a", [("::1", 2181), ("fe80::1", 2181)], "/kafka/a"),
    ],
)
def test_servers_and_path(connect: str, addresses: list[tuple[str, int]], chroot: str) -> None:
    store = zookeeper.ZooKeeperStore(connect)
    assert (store.addresses, store.chroot) == (addresses, chroot)


async def test_nobody_there_is_told_with_address_and_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        store = zookeeper.ZooKeeperStore(f"127.0.0.1:{port}", connection_timeout_ms=100)
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}: Connection refused"):
            await store.reach()
        await store.close()
