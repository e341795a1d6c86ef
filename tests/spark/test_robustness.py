"""What goes wrong under a running job: hiccups are ridden out, losses are said."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.cluster import Lookup
from klamm.pipelines.fetcher import DataLost, read_range
from klamm.pipelines.options import ConnectionOptions, parse_bootstrap, parse_read, parse_write
from klamm.pipelines.sink import write_frames
from klamm.pipelines.source import plan_batch
from klamm.pipelines.wire import Unreachable, close_idle

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


def test_connections_are_kept_for_the_next_task(bootstrap: str, topic: Make, fill: Fill) -> None:
    from klamm.pipelines import wire

    name = topic(1)
    fill(name, numbered(10, 1))
    options = _options(bootstrap, name)
    ((piece,),) = plan_batch(options)
    kept = [w for _, w in wire._idle.values()]
    assert len(kept) == 1
    assert sum(f.num_rows for f in read_range(options, piece, ("offset",))) == 10
    assert [w for _, w in wire._idle.values()] == kept


def test_an_abandoned_read_leaves_no_connection(bootstrap: str, topic: Make, fill: Fill) -> None:
    from klamm.pipelines import wire

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


def test_full_disk_is_said(bootstrap: str, topic: Make, fill: Fill) -> None:
    from klamm.pipelines.archive_files import Job, _disk_fault, _write_file

    name = topic(1)
    fill(name, numbered(10, 1))
    options = _options(bootstrap, name)
    ((piece,),) = plan_batch(options)
    job = Job(connection=options.connection, directory="", topic=name, topic_id="", ranges=[piece])
    with pytest.raises(OSError, match="No space left") as full:
        _write_file(job, piece, Path("/dev/full"), "x")
    assert _disk_fault(full.value, Path("x")).startswith("the disk is full: x was not written")


def test_offsets_in_json_must_name_every_partition(bootstrap: str, topic: Make) -> None:
    name = topic(2)
    start = json.dumps({name: {"0": 0}})
    with pytest.raises(UsageError, match=f"must name every partition: {name}-1 is missing"):
        plan_batch(_options(bootstrap, name, startingOffsets=start))
    start = json.dumps({name: {"0": 0, "1": 0, "2": 0}})
    with pytest.raises(UsageError, match=f"names {name}-2, which is not read"):
        plan_batch(_options(bootstrap, name, startingOffsets=start))
