"""What somebody meets who has just installed klamm: no activated virtualenv, six records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.spark import jobs
from klamm.client.blocking.lookup import Lookup
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.pipelines.session import lazily

from .conftest import FOREIGN, numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Run = Callable[..., tuple[int, str, str]]

# A session of one's own, and one of klamm's.
SNIPPET = """
import sys
from pyspark.sql import SparkSession
from klamm.spark import register, start
spark = SparkSession.builder.master("local[1]").getOrCreate() if sys.argv[3] == "own" else start()
register(spark)
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
print(spark.read.format("klamm").options(**options).load().count())
"""


@pytest.mark.parametrize("whose", ["own", "klamm's"])
def test_virtualenv_that_is_not_activated(
    bootstrap: str, topic: Make, fill: Fill, tmp_path: Path, whose: str
) -> None:
    """The first `python3` on the path is another one, without klamm."""
    name = topic(1)
    fill(name, numbered(6, 1))
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho 'ModuleNotFoundError: no klamm here' >&2\nexit 1\n")
    other.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    path = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    ran = subprocess.run(
        [sys.executable, "-c", SNIPPET, bootstrap, name, whose],
        env=environment | {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "6\n"), ran.stderr[-3000:]
    assert whose == "own" or ran.stderr == ""  # no warning of Java's, either


@pytest.fixture
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_words: Any, **_more: Any) -> Any:
        raise KlammError("Spark is started")

    monkeypatch.setattr(jobs, "_running", lambda: None)
    monkeypatch.setattr(jobs, "_started", start)


@pytest.mark.usefixtures("_no_spark")
def test_small_jobs_do_without_spark(
    command: Run, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, numbered(6))
    assert command("archive", name, "--to", str(tmp_path), "--verify")[0] == 0
    assert command("archive", "verify", str(tmp_path))[1] == f"all 6 records of {name} are intact\n"
    code, _, err = command("restore", str(tmp_path), "--to", f"{name}-2")
    assert code == 0, err
    ends = lookup.latest([TopicPartition(f"{name}-2", p) for p in range(2)])
    assert list(ends.values()) == [3, 3]


@pytest.mark.usefixtures("_no_spark")
def test_larger_jobs_start_it(
    command: Run, topic: Make, fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(1)
    fill(name, numbered(6, 1))
    monkeypatch.setattr(lazily, "SMALL_RECORDS", 5)
    assert command("archive", name, "--to", str(tmp_path)) == (1, "", "klamm: Spark is started\n")


@pytest.mark.skipif(FOREIGN is not None, reason="only klamm has a ledger")
def test_audit_without_spark(command: Run, topic: Make, lookup: Lookup, tmp_path: Path) -> None:
    lookup.delete(topic(2))
    line = ("audit", "--stuck-after", "3600", "-o", "json", "--to")
    code, out, err = command(*line, str(tmp_path), "--no-spark", "--master", "nowhere")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["clean"] is True
    assert found["source"] == "the topic __klamm_ledger"
    assert found["events"] > 5
    assert (tmp_path / "audit.html").read_text().startswith("<!doctype html>")
    assert len(list((tmp_path / "tables").iterdir())) == 10
