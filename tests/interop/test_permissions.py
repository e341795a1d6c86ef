"""What a cluster leaves on the disk is for its user alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cluster import Cluster


def open_to_others(path: Path) -> dict[str, str]:
    return {
        str(found.relative_to(path)): oct(found.stat().st_mode & 0o7777)
        for found in path.rglob("*")
        if found.stat().st_mode & 0o077
    }


def loosen(path: Path) -> None:
    """As versions before have left it."""
    for found in path.rglob("*"):
        found.chmod(0o755 if found.is_dir() else 0o644)


@pytest.mark.one_process
def test_nobody_else_sees_anything_of_a_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(1, data=data) as cluster:
        cluster.create_topic("t", partitions=2)
        assert open_to_others(tmp_path) == {}, "while it runs"
        assert (data / "store.db-wal").exists()
    assert open_to_others(tmp_path) == {}
    loosen(data)
    with Cluster(1, data=data) as cluster:
        assert open_to_others(data) == {}, "an older one is closed at its next start"
        cluster.create_topic("u")
    assert open_to_others(data) == {}


def test_nor_of_one_that_serves_its_store(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(1, data=data, klamm_store_serve_port=0, zookeeper_set_acl=True):
        assert {"store.address", "store.digest"} <= {path.name for path in data.iterdir()}
        assert open_to_others(tmp_path) == {}
    assert open_to_others(tmp_path) == {}
