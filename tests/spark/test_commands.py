"""The commands that run on Spark, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from klamm.cli.spark.spark import last_committed
from klamm.client.blocking.lookup import Lookup
from klamm.pipelines.archive.layout import sha256
from klamm.pipelines.session.session import say_plainly

from .conftest import FOREIGN, numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]
Run = Callable[..., Any]


@pytest.fixture
def klamm(spark: SparkSession, command: Run) -> Run:
    """Runs one command line on the Spark that is there."""
    return command


def test_archive_look_after_and_restore(
    klamm: Run, read: Read, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, numbered(200, 2))
    code, out, _ = klamm("archive", name, "--to", str(tmp_path), "--verify")
    assert code == 0
    assert "archived 200 records" in out
    assert "verified" in out
    code, out, _ = klamm("archive", "list", str(tmp_path), "-o", "json")
    assert [(a["topic"], a["records"]) for a in json.loads(out)] == [(name, 200)]
    code, out, _ = klamm("archive", "show", str(tmp_path))
    assert name in out
    code, out, _ = klamm("archive", "vacuum", str(tmp_path))
    assert "removed 0 files" in out
    code, out, _ = klamm("restore", str(tmp_path), "--to", f"{name}-copy", "-o", "json")
    assert code == 0
    assert json.loads(out)["records"] == 200
    columns = ("partition", "offset", "key", "value", "timestamp")
    assertDataFrameEqual(read(f"{name}-copy").select(*columns), read(name).select(*columns))


@pytest.mark.skipif(FOREIGN is not None, reason="freezing is klamm's own")
def test_frozen_topic_refuses_writes_until_it_is_unfrozen(
    klamm: Run, topic: Make, fill: Fill, bootstrap: str
) -> None:
    name = topic(1)
    code, out, _ = klamm("topics", "freeze", name, "-o", "json")
    assert (code, json.loads(out)) == (0, [{"name": name, "frozen": True}])
    faults: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(name, b"v", on_delivery=lambda fault, _message: faults.append(fault))
    producer.flush(30)
    assert [fault.code() for fault in faults] == [KafkaError.POLICY_VIOLATION]
    assert klamm("topics", "unfreeze", name)[0] == 0
    fill(name, numbered(1, 1))


@pytest.mark.skipif(FOREIGN is not None, reason="freezing is klamm's own")
def test_deletion_after_an_archive(
    klamm: Run, topic: Make, fill: Fill, lookup: Lookup, read: Read, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, numbered(50, 2))
    code, out, err = klamm("topics", "delete", name, "--archive", str(tmp_path))
    assert (code, err) == (0, "")
    assert "archived and verified 50 records" in out
    assert name not in lookup.view([name]).topics
    told = json.loads(klamm("story", name, "-o", "json")[1])
    (entry,) = [e for e in told if e["subject"] == f"archive of {name}"]
    (manifest,) = tmp_path.rglob("manifest.json")
    assert entry["after"] == str(manifest)
    assert entry["why"] == f"50 records, SHA-256 of the manifest {sha256(manifest)}"
    assert entry["topic_id"] == manifest.parent.name
    assert klamm("restore", str(tmp_path))[0] == 0
    assert read(name).count() == 50
    assert "klamm.frozen" not in lookup.configs(name)
    fill(name, numbered(1, 1))


@pytest.mark.skipif(FOREIGN is not None, reason="freezing is klamm's own")
def test_topic_that_is_still_written_to_is_not_deleted(
    klamm: Run, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    name = topic(1)
    fill(name, numbered(5, 1))
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.05):
            fill(name, numbered(1, 1))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        code, _, err = klamm("topics", "delete", name, "--archive", str(tmp_path))
    finally:
        over.set()
        writer.join()
    assert code == 2
    assert f"{name} is still written to" in err
    assert name in lookup.view([name]).topics
    fill(name, numbered(1, 1))  # and it is not frozen either


@pytest.mark.skipif(FOREIGN is not None, reason="freezing is klamm's own")
def test_topics_are_deleted_together_or_stay_as_they_were(
    klamm: Run, topic: Make, fill: Fill, lookup: Lookup, bootstrap: str, tmp_path: Path
) -> None:
    """One of two has an open transaction: the other is not left frozen."""
    names = [topic(1), topic(1)]
    for name in names:
        fill(name, numbered(5, 1))
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": names[1]})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(names[1], b"open")
    writer.flush(30)
    line = ("topics", "delete", *names, "--archive", str(tmp_path), "-o", "json")
    code, out, err = klamm(*line)
    assert (code, out) == (2, "")
    assert f"{names[1]} has an open transaction" in err
    assert [lookup.configs(name) for name in names] == [{}, {}]
    writer.commit_transaction(30)
    code, out, err = klamm(*line, "--if-exists", "no-such-topic")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["topics"] == names
    assert [(a["topic"], a["records"]) for a in said["archives"]] == [(names[0], 5), (names[1], 6)]
    assert all(Path(a["manifest"]).is_file() for a in said["archives"])
    assert klamm(*line, "--if-exists") == (0, '{"topics": [], "waiting": [], "archives": []}\n', "")


@pytest.mark.skipif(FOREIGN is not None, reason="only klamm has a ledger")
def test_audit_of_a_real_cluster(
    klamm: Run, spark: SparkSession, topic: Make, lookup: Lookup, tmp_path: Path
) -> None:
    name = topic(2)
    lookup.delete(name)
    args = ("audit", "--to", str(tmp_path), "--stuck-after", "3600", "-o", "json")
    code, out, err = klamm(*args)
    assert (code, err) == (0, ""), out
    said = json.loads(out)
    assert said["source"] == "the topic __klamm_ledger"
    assert said["findings"]["illegal"] == 0
    assert said["findings"]["epochs"] == 1
    timeline = spark.read.parquet(str(tmp_path / "tables" / "timeline"))
    assert timeline.filter(f"subject = '{name}-0' AND state = 'Online'").count() == 1
    assert (tmp_path / "audit.html").read_text().startswith("<!doctype html>")
    assert not list(tmp_path.rglob("*.partial"))


def _child(*args: str, bootstrap: str, complaints: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"KLAMM_BOOTSTRAP_SERVER": bootstrap}
    with complaints.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "klamm.cli", *args],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=out,
            start_new_session=True,
        )


def _end_when(
    child: subprocess.Popen[bytes], seen: Callable[[], bool], number: signal.Signals
) -> None:
    """Ends a command and the Spark it has started, as soon as its work is half done."""
    deadline = time.monotonic() + 200
    while not seen() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(child.pid, number)
    child.wait(60)
    # Nothing that it started stays; Java takes a moment to notice.
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(child.pid, 0)
            time.sleep(0.1)
        raise AssertionError("a process was left behind")


def test_restore_ended_by_ctrl_c_is_taken_up(
    klamm: Run,
    read: Read,
    topic: Make,
    fill: Fill,
    lookup: Lookup,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    """In a process with a Spark of its own, in the middle of its tasks."""
    name = topic(3)
    fill(name, [(i % 3, b"k%d" % i, os.urandom(800)) for i in range(30_000)])
    data, said, copy = tmp_path / "a", tmp_path / "stderr", f"{name}-copy"
    assert klamm("archive", name, "--to", str(data))[0] == 0
    args = ("restore", str(data), "--to", copy, "--no-check")
    restoring = _child(*args, "--master", "local[1]", bootstrap=bootstrap, complaints=said)

    def half_filled() -> bool:
        found = lookup.view([copy]).topics.get(copy)
        return (
            found is not None
            and all(found.leaders.values())
            and any(lookup.latest(found.partitions).values())
        )

    _end_when(restoring, half_filled, signal.SIGINT)
    # This is no failure; what Java says while it goes down is its own affair.
    assert restoring.returncode in (0, 130)
    assert "klamm:" not in said.read_text()
    code, out, err = klamm(*args)
    assert (code, err) == (0, ""), out
    columns = ("partition", "offset", "key", "value", "timestamp")
    place = [("partition", "ascending"), ("offset", "ascending")]
    found, wanted = (read(n).select(*columns).toArrow().sort_by(place) for n in (copy, name))
    assert found == wanted
    assert len(found) == 30_000


def test_offsets_of_a_checkpoint(tmp_path: Path) -> None:
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    for number in (0, 1):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    for number in (0, 1, 2):
        line = json.dumps({"orders": {"0": number * 10}})
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}')
    assert last_committed(tmp_path) == {"orders": {"0": 10}}


def test_doctor_knows_what_is_there(klamm: Run) -> None:
    code, out, _ = klamm("spark", "doctor", "-o", "json")
    assert code == 0
    assert json.loads(out)["kernels"] in ("numba", "numpy")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic no-such-topic"),
        (
            {"subscribe": "x", "startingOfsets": "earliest"},
            "unknown option startingofsets; did you mean startingOffsets?",
        ),
        (
            {"subscribe": "x", "startingOffsets": "{0"},
            """option startingOffsets: '{0' is no JSON such as {"orders":{"0":23}}""",
        ),
        (
            {"subscribe": "x", "kafka.bootstrap.servers": "127.0.0.1:1"},
            "no broker can be reached: 127.0.0.1:1: connection refused; `klamm up` starts a "
            "cluster on this machine",
        ),
    ],
)
def test_mistakes_at_the_prompt_are_one_sentence(
    read: Read,
    options: dict[str, str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the hook of `klamm spark shell` makes of Spark's pages."""
    from pyspark.errors import PySparkException

    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    say_plainly()
    with pytest.raises(PySparkException) as fault:
        read(**options).count()
    capsys.readouterr()
    sys.excepthook(fault.type, fault.value, fault.tb)
    assert capsys.readouterr().err == f"klamm: {says}\n"


def test_other_faults_at_the_prompt_keep_their_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    say_plainly()
    with pytest.raises(ZeroDivisionError) as fault:
        _ = 1 / 0
    sys.excepthook(fault.type, fault.value, fault.tb)
    assert "Traceback" in capsys.readouterr().err


def test_refused_write_names_the_reason(topic: Make, spark: SparkSession, bootstrap: str) -> None:
    """A broker's own words reach the user of a sink."""
    from pyspark.errors import PySparkException

    name = topic(1, max_message_bytes="100")
    frame = spark.range(1).selectExpr("repeat('x', 1000) AS value")
    writer = frame.write.format("klamm").mode("append").option("topic", name)
    with pytest.raises(PySparkException, match=f"writing to {name}-0: MESSAGE_TOO_LARGE"):
        writer.option("kafka.bootstrap.servers", bootstrap).save()
