"""Prometheus' view of a cluster that somebody operates."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from interop.process import up
from klamm import Cluster


def scrape(url: str) -> dict[str, float]:
    """The sum over brokers of each series without other labels."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.keys() == {"broker"}:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


@pytest.mark.one_process
def test_a_deletion_that_waits_for_a_dead_broker_is_seen_until_it_ends() -> None:
    with Cluster(3, klamm_metrics_port=0) as cluster:
        cluster.create_topic("t", 4, 3)
        healthy = scrape(cluster.metrics_url)
        assert healthy["klamm_controller_topics_to_delete_count"] == 0
        assert healthy["klamm_broker_under_replicated_partitions"] == 0
        dead = next(b for b in cluster.running if b != cluster.controller_id)
        cluster.kill_broker(dead)
        cluster.wait_for_isr("t", size=2)
        hurt = scrape(cluster.metrics_url)
        assert hurt["klamm_controller_active_broker_count"] == 2
        assert hurt["klamm_controller_preferred_replica_imbalance_count"] >= 1
        assert hurt["klamm_broker_under_replicated_partitions"] == 4
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_topics(["t"])["t"].result(30)
        pending = scrape(cluster.metrics_url)
        assert pending["klamm_controller_topics_to_delete_count"] == 1
        assert pending["klamm_controller_topics_ineligible_to_delete_count"] == 1
        # Four of them are the dead broker's; the others may have confirmed by now.
        assert 4 <= pending["klamm_controller_replicas_to_delete_count"] <= 12
        cluster.start_broker(dead)
        deadline = time.monotonic() + 30
        while "/brokers/topics/t" in cluster.store_paths():
            assert time.monotonic() < deadline, "the deletion did not end"
        over = scrape(cluster.metrics_url)
        assert over["klamm_controller_topics_to_delete_count"] == 0
        assert over["klamm_controller_replicas_to_delete_count"] == 0
        assert over["klamm_controller_active_controller_count"] == 1


def test_the_ready_line_names_the_address(tmp_path: Path) -> None:
    with up("--brokers", "1", "--port", "0", "--metrics-port", "0", "--ephemeral") as running:
        assert scrape(running.more["metrics"])["klamm_controller_active_controller_count"] == 1
        assert running.stop() == 0


def test_without_metrics_nothing_of_them_is_imported() -> None:
    code = "import sys, klamm.app.one_process; print([m for m in sys.modules if 'prometheus' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
