"""Brokers whose disk is full, or that vanish in the middle of a job.

One sentence tells what is wrong; nothing that is half done passes for whole; and when the broker is
well again the same command goes on to the end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from klamm import Cluster
from klamm.cli.asking import run
from klamm.cli.options import Output
from klamm.cli.topics.archiving import archived
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.wire import close_idle
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import KLAMM_LEDGER, TopicPartition
from klamm.pipelines.archive.archiving import archive
from klamm.pipelines.archive.layout import Manifest
from klamm.pipelines.archive.restore_topic import FROZEN
from klamm.pipelines.archive.restoring import restore
from klamm.pipelines.archive.shelf import find_archive
from klamm.pipelines.audit import judging as audit
from klamm.pipelines.audit.gathering import gather, not_in_the_topic
from klamm.pipelines.jobs.progress import Silent
from klamm.pipelines.session.session import plainly
from klamm.pipelines.source.fetcher import read_range
from klamm.pipelines.source.options import parse_read, parse_write
from klamm.pipelines.source.planning import plan_batch
from klamm.pipelines.source.sink import write_frames
from klamm.pipelines.source.stream import Stream

from .conftest import FOREIGN
from .disks import Disk, small_disk

pytestmark = pytest.mark.skipif(FOREIGN is not None, reason="needs brokers that can be stopped")

Run = Callable[..., tuple[int, str, str]]
RECORDS = 40
ROOM = 25  # for so many of them
SIZE = 50_000


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    data = tmp_path_factory.mktemp("cluster")
    with small_disk(data / "broker-0" / "logs", "16m") as made:
        yield made


@pytest.fixture(scope="module")
def small(disk: Disk) -> Iterator[Cluster]:
    """One broker, with little room on one of its two disks."""
    settings = {"log.dirs": "logs,other", "offsets.topic.num.partitions": "1"}
    more = {"klamm.ledger.topic.enable": "true"}
    with Cluster(1, settings=settings | more, data=disk.path.parents[1]) as running:
        yield running


@pytest.fixture
def reach(small: Cluster) -> Iterator[ConnectionOptions]:
    """An impatient way to that broker, which is well when a test begins."""
    if not small.running:
        _start(small)
    yield ConnectionOptions(bootstrap=parse_bootstrap(small.bootstrap_servers), patience_ms=500)
    close_idle()


def _start(cluster: Cluster) -> None:
    """Starts the broker; returns when all of its partitions are led."""
    cluster.start_broker(0)
    for name in {path.name.rpartition("-")[0] for path in cluster.data.glob("broker-0/*/*-[0-9]")}:
        cluster.wait_for_topic(name)


def _filled(reach: ConnectionOptions, name: str) -> list[bytes]:
    values = [os.urandom(SIZE) for _ in range(RECORDS)]
    Lookup(reach).create(name, 1, configs={})
    _write(reach, name, values)
    return values


def _write(reach: ConnectionOptions, name: str, values: list[bytes]) -> int:
    host, port = reach.bootstrap[0]
    options = {
        "kafka.bootstrap.servers": f"{host}:{port}",
        "topic": name,
        "kafka.delivery.timeout.ms": str(reach.patience_ms),
        "kafka.batch.size": str(SIZE),
    }
    frames = (pa.RecordBatch.from_pydict({"value": [value]}) for value in values)
    return write_frames(parse_write(options), frames, task=0).records


def _options(reach: ConnectionOptions, name: str, *, streaming: bool = False, **more: str) -> Any:
    host, port = reach.bootstrap[0]
    base = {"kafka.bootstrap.servers": f"{host}:{port}", "subscribe": name}
    return parse_read(base | more, streaming=streaming)


def _values(reach: ConnectionOptions, name: str) -> list[bytes]:
    options = _options(reach, name)
    return [
        value
        for split in plan_batch(options)
        for piece in split
        for frame in read_range(options, piece, ("value",))
        for value in frame.column("value").to_pylist()
    ]


@contextmanager
def _said(pattern: str) -> Iterator[None]:
    """One sentence, and this one."""
    with pytest.raises(KlammError) as fault, plainly():
        yield
    assert re.fullmatch(pattern, str(fault.value)), str(fault.value)


FULL = r"KAFKA_STORAGE_ERROR \(the disk of its broker is full, or failed\); gave up after 500 ms.*"


def _fill(disk: Disk, reach: ConnectionOptions) -> None:
    """Lets the next partition be where there is too little room."""

    def logs(name: str) -> int:
        return len(list((disk.path.parent / name).glob("*-[0-9]*")))

    while logs("logs") > logs("other"):
        Lookup(reach).create(f"ballast-{logs('other')}", 1, configs={})
    disk.fill(but=ROOM * SIZE)


def _make_room(disk: Disk, small: Cluster) -> None:
    disk.free()
    small.kill_broker(0)  # whose log directory is offline until a restart
    _start(small)


def test_write_to_a_full_disk(disk: Disk, small: Cluster, reach: ConnectionOptions) -> None:
    name = "written"
    _fill(disk, reach)
    Lookup(reach).create(name, 1, configs={})
    values = [os.urandom(SIZE) for _ in range(RECORDS)]
    with _said(f"writing to {name}-0: {FULL}"):
        _write(reach, name, values)
    _make_room(disk, small)
    kept = _values(reach, name)
    assert kept == values[: len(kept)]
    assert 0 < len(kept) < RECORDS
    assert _write(reach, name, values) == RECORDS
    assert _values(reach, name) == [*kept, *values]


@pytest.fixture(scope="module")
def kept(
    spark: SparkSession, small: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Manifest, list[bytes]]:
    """An archive, and what is in it."""
    reach = ConnectionOptions(bootstrap=parse_bootstrap(small.bootstrap_servers))
    values = _filled(reach, "kept")
    Lookup(reach).commit("readers", {TopicPartition("kept", 0): Committed(9)})
    root = tmp_path_factory.mktemp("archive")
    return archive(spark, reach, "kept", root).manifest, values


def test_restore_to_a_full_disk(
    spark: SparkSession,
    command: Run,
    disk: Disk,
    small: Cluster,
    reach: ConnectionOptions,
    kept: tuple[Manifest, list[bytes]],
) -> None:
    manifest, values = kept
    servers = small.bootstrap_servers
    line = ("restore", str(manifest.path), "--to", "copy", "-b", servers, "--patience", "0.5")
    _fill(disk, reach)
    code, out, err = command(*line)
    assert (code, out) == (1, "")
    assert re.fullmatch(f"klamm: writing to copy-0: {FULL}\n", err), err
    _make_room(disk, small)
    code, out, err = command(*line, "-o", "json")
    assert (code, err) == (0, "")
    assert 0 < json.loads(out)["resumed"] < RECORDS
    assert _values(reach, "copy") == values


class Ends(Silent):
    """A watcher who ends the broker when a step begins for the n-th time."""

    def __init__(self, cluster: Cluster, step: str, times: int = 1) -> None:
        self._cluster, self._step, self._left = cluster, step, times

    def begin(self, what: str, total: int) -> None:
        if what.startswith(self._step):
            self._left -= 1
            if self._left == 0:
                self._cluster.kill_broker(0)


GONE = r"(no broker can be reached:|no broker answers at|the broker at) 127\.0\.0\.1:\d+.*"


def test_reads_and_writes_when_a_broker_vanishes(small: Cluster, reach: ConnectionOptions) -> None:
    name = "read"
    values = _filled(reach, name)
    options = _options(
        reach,
        name,
        **{"kafkaConsumer.pollTimeoutMs": "500", "kafka.max.partition.fetch.bytes": "60000"},
    )
    ((piece,),) = plan_batch(options)
    frames = read_range(options, piece, ("value",))
    next(frames)
    stream = Stream(_options(reach, name, streaming=True, startingOffsets="earliest"))
    first = stream.first()
    small.kill_broker(0)
    with _said(rf"{GONE}; gave up after 500 ms"):
        list(frames)
    with _said(GONE):
        stream.latest(first, None)
    close_idle()
    _start(small)
    assert [v for f in read_range(options, piece, ("value",)) for v in f[0].to_pylist()] == values
    assert sum(stream.latest(first, None).offsets.values()) == RECORDS

    def sent() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": values[:1]})
        small.kill_broker(0)
        yield pa.RecordBatch.from_pydict({"value": values[1:]})

    host, port = reach.bootstrap[0]
    given = {
        "kafka.bootstrap.servers": f"{host}:{port}",
        "topic": name,
        "kafka.delivery.timeout.ms": "500",
        "kafka.batch.size": str(SIZE),
    }
    with _said(rf"{GONE}; gave up after 500 ms.*"):
        write_frames(parse_write(given), sent(), task=0)


def test_archive_and_restore_when_a_broker_vanishes(
    spark: SparkSession,
    small: Cluster,
    reach: ConnectionOptions,
    kept: tuple[Manifest, list[bytes]],
    tmp_path: Path,
) -> None:
    with _said(GONE):
        archive(spark, reach, "kept", tmp_path, progress=Ends(small, "archiving"))
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(tmp_path)
    _start(small)
    again = archive(spark, reach, "kept", tmp_path).manifest
    assert again.partitions == kept[0].partitions
    with _said(GONE):
        restore(spark, reach, again, to="back", check=False, progress=Ends(small, "proving"))
    _start(small)
    done = restore(spark, reach, again, to="back", check=False)
    assert (done.records, done.resumed, done.groups) == (RECORDS, RECORDS, {"readers": 1})
    assert _values(reach, "back") == kept[1]


def test_deletion_after_an_archive_when_a_broker_vanishes(
    spark: SparkSession,
    small: Cluster,
    reach: ConnectionOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "doomed"
    _filled(reach, name)
    ends = Ends(small, "archiving", times=2)  # by then it is frozen
    monkeypatch.setattr("klamm.cli.topics.archiving.watcher", lambda _output: ends)
    given = ([name], tmp_path, Output.JSON, False, "local[1]", small.bootstrap_servers)
    frozen = f"still frozen: run this again, or `klamm topics unfreeze {name}`"
    with _said(f"{GONE}; {frozen}"), archived(*given, patience_s=0.5):
        pass
    _start(small)
    assert Lookup(reach).configs(name)[FROZEN] == "true"
    with archived(*given) as kept:
        assert [(k["topic"], k["records"]) for k in kept] == [(name, RECORDS)]
    assert find_archive(tmp_path).records == RECORDS


def test_audit_when_a_broker_vanishes(
    spark: SparkSession, small: Cluster, reach: ConnectionOptions, tmp_path: Path
) -> None:
    def evidence() -> audit.LedgerEvidence:
        waiting = run(small.bootstrap_servers, not_in_the_topic)
        return gather(spark, reach, waiting, now_ms=1)

    found = evidence()
    small.kill_broker(0)
    with _said(GONE):
        audit.run(spark, found, tmp_path / "tables", now_ms=1)
    _start(small)
    # Planned before the topic goes, read afterwards.
    found = evidence()
    events = found.ledger.count()
    Lookup(reach).delete(KLAMM_LEDGER)
    with _said(f"topic {KLAMM_LEDGER} was deleted (and created again )?while it was read"):
        audit.run(spark, found, tmp_path / "tables", now_ms=1)
    assert not (tmp_path / "tables").exists()
    # The brokers have it all in their files, and bring it again.
    assert evidence().ledger.count() >= events
