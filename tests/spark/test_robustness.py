"""What goes wrong under a running job: hiccups are ridden out, losses are said."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Never

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.wire import close_idle
from klamm.client.errors import Unreachable
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.archiving import archive, verify
from klamm.pipelines.archive.files import ArchiveJob, archive_window
from klamm.pipelines.archive.restoring import restore
from klamm.pipelines.archive.shelf import find_archive
from klamm.pipelines.jobs.progress import Silent
from klamm.pipelines.jobs.writing import write_whole
from klamm.pipelines.source.fetcher import read_range
from klamm.pipelines.source.options import parse_read, parse_write
from klamm.pipelines.source.planning import plan_batch
from klamm.pipelines.source.ranges import DataLost
from klamm.pipelines.source.sink import write_frames
from klamm.pipelines.source.stream import Stream

from .conftest import FOREIGN, numbered

Make = Callable[..., str]
Fill = Callable[..., None]


class Doorman:
    """Lets the first callers stand in the rain, and the rest through to a broker."""

    def __init__(self, broker: tuple[str, int], refused: int) -> None:
        self._broker = broker
        self._refused = refused
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._server.getsockname())
        self._open: list[socket.socket] = [self._server]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            if self._refused > 0:
                self._refused -= 1
                caller.close()
                continue
            broker = socket.create_connection(self._broker)
            self._open += [caller, broker]
            for one, other in ((caller, broker), (broker, caller)):
                threading.Thread(target=self._pipe, args=(one, other), daemon=True).start()

    def _pipe(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        for sock in self._open:
            sock.close()


class Stale(Doorman):
    """A broker that has not heard of a topic yet: it is asked for one with another name."""

    def __init__(self, broker: tuple[str, int], topic: str) -> None:
        self._names = topic.encode(), b"-" * len(topic)
        super().__init__(broker, refused=0)

    def _pipe(self, one: socket.socket, other: socket.socket) -> None:
        known, unknown = self._names
        with suppress(OSError):
            while data := one.recv(1 << 16):
                is_question = known in data
                names = (known, unknown) if is_question else (unknown, known)
                other.sendall(data.replace(*names))


@pytest.fixture(autouse=True)
def _no_idle_connections() -> Iterator[None]:
    close_idle()
    yield
    close_idle()


def test_look_ups_are_tried_again(bootstrap: str, topic: Make) -> None:
    """T6: an exception in planning ends a query, and Spark does not try again."""
    name = topic(1)
    doorman = Doorman(parse_bootstrap(bootstrap)[0], refused=2)
    try:
        patient = ConnectionOptions(bootstrap=parse_bootstrap(doorman.address))
        assert name in Lookup(patient, retries=3, retry_interval_ms=1).view([name]).topics
        close_idle()
        doorman._refused = 5
        with pytest.raises(Unreachable, match=r"hung up|was lost"):
            Lookup(patient, retries=1, retry_interval_ms=1).view([name])
    finally:
        doorman.close()


def test_topic_that_a_broker_has_not_heard_of_is_known_to_the_controller(
    bootstrap: str, topic: Make
) -> None:
    name = topic(3)
    stale = Stale(parse_bootstrap(bootstrap)[0], name)
    try:
        lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(stale.address)))
        assert len(lookup.view([name]).topics[name].leaders) == 3
        assert lookup.view(["no-such-topic"]).topics == {}
    finally:
        stale.close()


def _options(bootstrap: str, topic: str, **more: str) -> Any:
    base = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return parse_read(base | more, streaming=False)


def test_topic_deleted_under_a_running_read(
    bootstrap: str, topic: Make, fill: Fill, lookup: Lookup
) -> None:
    name = topic(1)
    fill(name, numbered(2000, 1), **{"batch.size": "1000", "linger.ms": "0"})
    options = _options(bootstrap, name, **{"kafka.max.partition.fetch.bytes": "2000"})
    ((piece,),) = plan_batch(options)
    frames = read_range(options, piece, ("offset",))
    assert next(frames).num_rows
    lookup.delete(name)
    with pytest.raises(DataLost, match=f"topic {name} was deleted while it was read"):
        list(frames)


def test_a_deleted_topic_can_be_created_again_at_once(lookup: Lookup, topic: Make) -> None:
    name = topic(1)
    for _ in range(8):
        lookup.delete(name)
        lookup.create(name, 1, configs={})


def test_connections_are_kept_for_the_next_task(bootstrap: str, topic: Make, fill: Fill) -> None:
    from klamm.client.blocking import wire

    name = topic(1)
    fill(name, numbered(10, 1))
    options = _options(bootstrap, name)
    ((piece,),) = plan_batch(options)
    kept = [w for _, w in wire._idle.values()]
    assert len(kept) == 1
    assert sum(f.num_rows for f in read_range(options, piece, ("offset",))) == 10
    assert [w for _, w in wire._idle.values()] == kept


def test_an_abandoned_read_leaves_no_connection(bootstrap: str, topic: Make, fill: Fill) -> None:
    from klamm.client.blocking import wire

    name = topic(1)
    fill(name, numbered(2000, 1), **{"batch.size": "1000", "linger.ms": "0"})
    options = _options(bootstrap, name, **{"kafka.max.partition.fetch.bytes": "2000"})
    ((piece,),) = plan_batch(options)
    frames = read_range(options, piece, ("offset",))
    next(frames)
    frames.close()  # type: ignore[attr-defined]
    assert not wire._idle


@pytest.mark.skipif(FOREIGN is not None, reason="needs brokers that can be stopped")
def test_reads_and_writes_survive_a_leader_that_stops() -> None:
    from klamm import Cluster

    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        cluster.wait_for_isr("t", size=2)
        values = [f"{i}" for i in range(40)]
        moved = threading.Event()

        def frames() -> Iterator[pa.RecordBatch]:
            for at in range(0, 40, 10):
                if at == 20:
                    leader = cluster.partition("t")
                    assert leader is not None
                    cluster.stop_broker(leader.leader)
                    moved.set()
                yield pa.RecordBatch.from_pydict({"value": values[at : at + 10]})

        # One batch a frame: some go to the old leader, some to the new one.
        small = parse_write(
            {
                "kafka.bootstrap.servers": cluster.bootstrap_servers,
                "topic": "t",
                "kafka.batch.size": "60",
            }
        )
        written = write_frames(small, frames(), task=0)
        assert moved.is_set()
        assert written.records == 40
        options = _options(cluster.bootstrap_servers, "t")
        ((piece,),) = plan_batch(options)
        stale = piece.__class__(
            **{f: getattr(piece, f) for f in piece.__slots__} | {"leader_epoch": 0}
        )
        found = [
            bytes(v).decode()
            for frame in read_range(options, stale, ("value",))
            for v in frame.column("value").to_pylist()
        ]
        assert found == values
        assert written.partitions[TopicPartition("t", 0)].last_offset == 39


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few pages, where one may mount such a thing."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, check=False).returncode:
        pytest.skip("this needs the right to mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _window(bootstrap: str, name: str, directory: Path) -> Any:
    options = _options(bootstrap, name)
    ((piece,),) = plan_batch(options)
    return archive_window(
        ArchiveJob(
            connection=options.connection,
            directory=str(directory),
            topic=name,
            topic_id="an id",
            ranges=[piece],
        ),
        piece,
    )


def test_full_disk_is_said(bootstrap: str, topic: Make, fill: Fill, full_disk: Path) -> None:
    name = topic(1)
    fill(name, [(0, None, os.urandom(1000)) for _ in range(100)])
    with pytest.raises(KlammError, match=r"the disk is full: .*\.parquet was not written"):
        _window(bootstrap, name, full_disk)
    # What a stream remembers of its start, a restore of its way, an audit of what it found.
    with pytest.raises(KlammError, match="the disk is full"):
        write_whole(full_disk / "state.json", "x" * 100_000)
    assert not [path for path in full_disk.rglob("*") if path.is_file()]


def test_two_attempts_at_a_window_share_a_file_only_if_it_is_the_same(
    bootstrap: str, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    """T23: Spark numbers attempts within a stage only, and a stage may run again."""
    name, other = topic(1), topic(1)
    fill(name, numbered(10, 1))
    fill(other, numbered(10, 1, first=1))
    first, again, different = (
        _window(bootstrap, each, tmp_path).path for each in (name, name, other)
    )
    assert first == again != different
    assert first.split(".")[0] == different.split(".")[0]
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


def test_stream_that_cannot_remember_its_start_says_so(
    bootstrap: str, topic: Make, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    wrong = str(tmp_path / "file" / "first.json")
    options = parse_read(
        {"kafka.bootstrap.servers": bootstrap, "subscribe": topic(1), "initialOffsetsPath": wrong},
        streaming=True,
    )
    with pytest.raises(KlammError, match=f"cannot write {wrong}"):
        Stream(options).first()


def test_topic_deleted_under_a_task_of_an_archive(
    bootstrap: str, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    name = topic(1)
    fill(name, numbered(10, 1))
    options = _options(bootstrap, name)
    ((piece,),) = plan_batch(options)
    lookup.delete(name)
    job = ArchiveJob(
        connection=options.connection,
        directory=str(tmp_path),
        topic=name,
        topic_id="an id",
        ranges=[piece],
    )
    files: list[Path] = []

    def read_on() -> Never:
        """Until the leader stops: it may answer for a moment after the deletion was accepted."""
        while True:
            archive_window(job, piece)
            files[:] = [path for path in tmp_path.rglob("*") if path.is_file()]

    with pytest.raises(DataLost, match=f"topic {name} was deleted while it was read"):
        read_on()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == files


@pytest.mark.parametrize("again", [False, True])
def test_topic_deleted_under_a_write(
    bootstrap: str, topic: Make, lookup: Lookup, again: bool
) -> None:
    name = topic(1)
    given = {"kafka.bootstrap.servers": bootstrap, "topic": name, "kafka.batch.size": "60"}

    def frames() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["x" * 100] * 3})
        lookup.delete(name)
        if again:
            # No request fails: what is written goes to a topic that knows nothing of the first.
            lookup.create(name, 1, configs={})
        yield pa.RecordBatch.from_pydict({"value": ["x" * 100] * 3})

    says = (
        f"topic {name} was deleted{' and created again' if again else ''} while it was written to"
    )
    with pytest.raises(KlammError, match=says):
        write_frames(parse_write(given), frames(), task=0)


class DeletesAt(Silent):
    """A watcher who deletes a topic when a step begins."""

    def __init__(self, lookup: Lookup, topic: str, step: str) -> None:
        self._lookup, self._topic, self._step = lookup, topic, step

    def begin(self, what: str, total: int) -> None:
        if what.startswith(self._step):
            self._lookup.delete(self._topic)
            while self._topic in self._lookup.view([self._topic]).topics:
                pass


def test_topic_deleted_under_a_whole_job(
    spark: SparkSession, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, numbered(20, 2))
    reach, copy = lookup.options, f"{name}-copy"
    manifest = archive(spark, reach, name, tmp_path / "whole").manifest
    for step in ("restoring", "proving"):
        watcher = DeletesAt(lookup, copy, step)
        with pytest.raises(DataLost, match=f"^topic {copy} was deleted while it was restored$"):
            restore(spark, reach, manifest, to=copy, check=False, progress=watcher)
    assert restore(spark, reach, manifest, to=copy, check=False).records == 20
    watcher = DeletesAt(lookup, name, "archiving")
    with pytest.raises(DataLost, match=f"^topic {name} was deleted while it was archived$"):
        archive(spark, reach, name, tmp_path / "half", progress=watcher)
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(tmp_path / "half")


def test_full_disk_under_a_whole_job(
    spark: SparkSession,
    command: Callable[..., tuple[int, str, str]],
    topic: Make,
    fill: Fill,
    full_disk: Path,
    tmp_path: Path,
) -> None:
    name = topic(1)
    fill(name, [(0, None, os.urandom(1000)) for _ in range(100)])
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"controller_epoch": 1, "sequence": 1, "time_ms": 1, "subject": "x"}\n')
    jobs = (
        ("archive", name, "--to", str(full_disk)),
        ("audit", "--ledger", str(ledger), "--to", str(full_disk)),
    )
    (full_disk / "filler").write_bytes(bytes(4096))
    for line in jobs:
        code, out, err = command(*line)
        assert (code, out) == (1, "")
        assert err.startswith("klamm: the disk is full: ")
        assert err.endswith("free some room and run again\n")
        assert err.count("\n") == 1
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(full_disk)
    assert not (full_disk / "tables").exists()
    subprocess.run(["mount", "-o", "remount,size=9m", str(full_disk)], check=True)
    for line in jobs:
        assert command(*line)[0] == 0
    assert find_archive(full_disk).records == 100
    assert verify(spark, find_archive(full_disk)) == []


def test_offsets_in_json_must_name_every_partition(bootstrap: str, topic: Make) -> None:
    name = topic(2)
    start = json.dumps({name: {"0": 0}})
    with pytest.raises(UsageError, match=f"must name every partition: {name}-1 is missing"):
        plan_batch(_options(bootstrap, name, startingOffsets=start))
    start = json.dumps({name: {"0": 0, "1": 0, "2": 0}})
    with pytest.raises(UsageError, match=f"names {name}-2, which is not read"):
        plan_batch(_options(bootstrap, name, startingOffsets=start))
