"""Leaders die under acks=all load: every promise is kept, on every replica, in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from history import check, read_replicas
from interop.killing import Load, kill_leaders
from klamm import Cluster

TIMES = int(os.environ.get("KLAMM_LEADER_KILLS", "3"))
PARTITIONS = 3


@pytest.mark.timeout(60 + 20 * TIMES)
def test_acknowledged_records_survive_the_death_of_their_leaders(tmp_path: Path) -> None:
    settings = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "2000"}
    with Cluster(3, data=tmp_path, settings=settings) as cluster:
        cluster.create_topic("t", PARTITIONS, 3)
        loads = [Load(cluster.bootstrap_servers, "t", PARTITIONS, f"p{n}") for n in range(2)]
        for load in loads:
            load.start()
        try:
            kill_leaders(cluster, "t", PARTITIONS, TIMES, loads[0])
        finally:
            for load in loads:
                load.halt()
        cluster.wait_for_isr("t", size=3)
    acked = [record for load in loads for record in load.acked]
    assert [fault for load in loads for fault in load.failed] == []
    logs = read_replicas(tmp_path, "t", range(PARTITIONS), range(3))
    assert {at: sorted(replicas) for at, replicas in logs.items()} == {
        ("t", number): [0, 1, 2] for number in range(PARTITIONS)
    }
    assert check(acked, logs) == []
    assert len(acked) >= 40 * TIMES
