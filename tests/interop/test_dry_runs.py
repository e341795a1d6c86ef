"""Dry runs: the controller says what it would do, and does none of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.client.aio.cluster import Client
from klamm.client.aio.producer import Producer

Klamm = Callable[..., tuple[int, str, str]]
RECORD = b"x" * 5_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"auto.create.topics.enable": False, "auto.leader.rebalance.enable": False}
    with Cluster(3, settings=settings) as running:
        running.create_topic("T", 1, 1)
        asyncio.run(_produce(running.bootstrap_servers))
        yield running


async def _produce(bootstrap: str) -> None:
    async with Client(bootstrap) as client, Producer(client) as producer:
        await producer.send("T", RECORD)


@pytest.fixture
def klamm(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Klamm]:
    """Runs commands; whatever they say, the store and the brokers' metadata are the same after."""
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
    paths, seen = cluster.store_paths(), cluster.view

    def run(*args: str) -> tuple[int, str, str]:
        code = main(args)
        said = capsys.readouterr()
        return code, said.out, said.err

    yield run
    assert cluster.store_paths() == paths
    assert cluster.view == seen


def plan_of(said: tuple[int, str, str]) -> Any:
    code, out, err = said
    assert (code, err) == (0, "")
    found = json.loads(out)
    return found.get("plan", found)


def home(cluster: Cluster) -> int:
    found = cluster.partition("T")
    assert found is not None
    return int(found.leader)


def test_of_a_creation(klamm: Klamm) -> None:
    create = ("topics", "create", "N", "-p", "2", "-r", "2", "--dry-run")
    code, out, _ = klamm(*create)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "would create topic N: 2 partitions, replication factor 2"
    assert lines[1] == "  topic N: absent -> created (2 partitions)"
    assert lines[2] == "  N-0, N-1: NonExistent -> New"
    assert "  brokers told: 0, 1, 2; writes to the store: 2" in lines
    plan = plan_of(klamm(*create, "-o", "json"))
    assert (plan["copies"], plan["removals"], plan["refused"]) == ([], [], [])
    assert klamm("topics", "create", "N", "-r", "9", "--dry-run")[0] == 1


def test_of_more_partitions(klamm: Klamm) -> None:
    code, out, _ = klamm("topics", "alter", "T", "-p", "3", "--dry-run")
    assert code == 0
    assert "  topic T: created -> growing (partitions [1, 2])" in out.splitlines()
    assert klamm("topics", "alter", "T", "-p", "1", "--dry-run")[0] == 1
    code, out, _ = klamm("topics", "alter", "T", "-c", "retention.ms=5", "--dry-run")
    assert (code, out) == (0, "would alter topic T\n")


def test_of_a_deletion(klamm: Klamm, cluster: Cluster) -> None:
    plan = plan_of(klamm("topics", "delete", "T", "--dry-run", "-o", "json"))
    assert plan["moves"][0]["after"] == "queued for deletion"
    assert plan["later"][-1]["after"] == "absent"
    ((removal),) = plan["removals"]
    assert (removal["broker"], removal["bytes"] > len(RECORD)) == (home(cluster), True)
    assert plan["bytes_to_remove"] == removal["bytes"]
    code, out, _ = klamm("topics", "delete", "T", "--dry-run")
    assert code == 0
    assert out.startswith("would delete topic T\n  topic T: created -> queued for deletion\n")
    assert "once brokers have done as told:" in out
    assert klamm("topics", "delete", "nobody", "--dry-run")[0] == 1


def test_of_a_move_with_the_bytes_it_costs(klamm: Klamm, cluster: Cluster, tmp_path: Path) -> None:
    there = [b for b in range(3) if b != home(cluster)]
    file = tmp_path / "plan.json"

    def wanted(replicas: list[int]) -> str:
        entry = {"topic": "T", "partition": 0, "replicas": replicas}
        file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        return str(file)

    plan = plan_of(klamm("reassign", "apply", wanted(there), "--dry-run", "-o", "json"))
    (copy,) = plan["copies"]
    assert (copy["from"], copy["to"]) == (home(cluster), there)
    assert copy["bytes"] > len(RECORD)
    assert plan["bytes_to_copy"] == 2 * copy["bytes"]
    assert [r["broker"] for r in plan["removals"]] == [home(cluster)]
    assert plan["bytes_to_remove"] == copy["bytes"]
    code, out, _ = klamm("reassign", "apply", wanted(there), "--dry-run")
    assert code == 0
    assert out.startswith("would start 1 move\n")
    assert "  to copy in all: 9.9 KiB\n" in out
    code, _, err = klamm("reassign", "apply", wanted([7]), "--dry-run")
    assert code == 1
    assert err.startswith("klamm: T-0: Replica assignment has brokers that are not alive. ")


def test_of_an_election(klamm: Klamm) -> None:
    code, out, _ = klamm("elect", "preferred", "T-0", "U-0", "--dry-run", "-o", "json")
    plan = json.loads(out)
    assert (code, plan["moves"]) == (1, [])
    assert [(r["topic"], r["error_code"]) for r in plan["refused"]] == [("T", 84), ("U", 3)]
    code, out, _ = klamm("elect", "preferred", "--all", "--dry-run")
    assert (code, out) == (0, "  nothing would change\n")
