"""Archiving and restoring: proof, damage, interruptions, groups."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from klamm import Cluster
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive.archiving import archive, verify
from klamm.pipelines.archive.layout import Manifest, Part, sha256
from klamm.pipelines.archive.restoring import restore
from klamm.pipelines.archive.shelf import find_archive, vacuum
from klamm.pipelines.jobs.progress import Silent

Make = Callable[..., str]
Fill = Callable[..., None]
Read = Callable[..., DataFrame]


class Broken(Exception):
    """The process died here."""


class DiesAt(Silent):
    """A watcher under which the driver dies when a step begins."""

    def __init__(self, step: str) -> None:
        self._step = step

    def begin(self, what: str, total: int) -> None:
        if what.startswith(self._step):
            raise Broken(what)


class Cleans(Silent):
    """A watcher who wants to clean an archive at every step, and must not."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, what: str, total: int) -> None:
        with pytest.raises(KlammError, match="is being written to: try again"):
            vacuum(self._root)


@pytest.fixture
def filled(topic: Make, fill: Fill, bootstrap: str, lookup: Lookup) -> str:
    """A topic with everything in it: headers, nulls, old times, a rolled-back transaction."""
    name = topic(2, max_message_bytes="900000", retention_ms="-1")
    rows: list[tuple[Any, ...]] = [
        (i % 2, b"k%d" % i, b"v%d" % i, 1_600_000_000_000 + i, [("h", b"%d" % i), ("h", None)])
        for i in range(500)
    ]
    fill(name, [*rows, (0, None, b""), (1, b"", None)], **{"compression.type": "zstd"})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for keep in (False, True):
        producer.begin_transaction()
        producer.produce(name, b"kept" if keep else b"rolled back", partition=0)
        producer.flush(30)
        (producer.commit_transaction if keep else producer.abort_transaction)(30)
    fill(name, [(0, b"k", b"last")])
    lookup.commit(
        f"group-{name}",
        {
            TopicPartition(name, 0): Committed(255, metadata="here"),
            TopicPartition(name, 1): Committed(100),
        },
    )
    return name


def _content(read: Read, name: str) -> DataFrame:
    return read(name, includeHeaders="true", **{"kafka.isolation.level": "read_committed"}).select(
        "partition", "key", "value", "timestamp", "headers"
    )


def _same(one: Manifest, other: Manifest) -> bool:
    return one.partitions == other.partitions and [
        (f.partition, f.first, f.last, f.digests) for f in one.files
    ] == [(f.partition, f.first, f.last, f.digests) for f in other.files]


def test_archive_restore_round_trip(
    spark: SparkSession, read: Read, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    done = archive(spark, lookup.options, filled, tmp_path, window=100)
    entry = done.manifest.partitions["0"]
    # 250 + 1 records, the rolled-back one and its marker, the kept one and its marker, the last.
    assert (entry.end, entry.rows, entry.records) == (256, 256, 253)
    assert len(done.manifest.files) == 6
    assert verify(spark, done.manifest) == []
    table = spark.read.parquet(str(done.manifest_path.parent / "data"))
    assert table.filter("NOT is_control AND NOT is_aborted").count() == done.manifest.records

    copy = f"{filled}-copy"
    result = restore(spark, lookup.options, find_archive(tmp_path), to=copy)
    assert result.records == done.manifest.records == 504
    assertDataFrameEqual(_content(read, copy), _content(read, filled))
    configs = lookup.configs(copy)
    assert configs["max.message.bytes"] == "900000"
    assert configs["retention.ms"] == "-1"
    assert "message.timestamp.type" not in configs
    # Offset 255 of partition 0 is the last record: three rows before it are hidden from readers.
    moved = lookup.committed(f"group-{filled}")
    assert moved[TopicPartition(copy, 0)] == Committed(252, metadata="here")
    assert moved[TopicPartition(copy, 1)].offset == 100
    positions = read(copy).filter("partition = 0 AND offset = 252").collect()
    assert bytes(positions[0].value) == b"last"


def test_interrupted_archive_is_taken_up(
    spark: SparkSession, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    whole = archive(spark, lookup.options, filled, tmp_path / "whole", window=100).manifest
    root = tmp_path / "broken"
    with pytest.raises(Broken):
        archive(spark, lookup.options, filled, root, window=100, progress=DiesAt("archiving"))
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(root)

    first = archive(spark, lookup.options, filled, root, window=100)
    # It died after the data and before the manifest; one file is half-written, one is lost.
    first.manifest_path.unlink()
    files = sorted((first.manifest_path.parent / "data").rglob("*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-9])
    files[2].with_name(".half.parquet.draft").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="holds no archive"):
        find_archive(root)
    again = archive(spark, lookup.options, filled, root, window=100)
    assert again.reused == 4
    assert _same(again.manifest, whole)
    assert verify(spark, again.manifest) == []
    # What was half-written, and the first run's settings and groups; what was cut short is whole.
    assert vacuum(root)[0] == 3
    assert verify(spark, again.manifest) == []


def test_flipped_byte_is_named_by_window(
    spark: SparkSession, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    manifest = archive(spark, lookup.options, filled, tmp_path, window=100).manifest
    file = manifest.files_of(1)[1]
    path = manifest.path / file.path
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x40
    path.write_bytes(bytes(data))
    faults = verify(spark, manifest)
    assert faults
    assert all(file.path in fault or "partition 1, offsets 0" in fault for fault in faults)
    with pytest.raises(KlammError, match="the archive is damaged"):
        restore(spark, lookup.options, manifest, to=f"{filled}-copy")
    assert f"{filled}-copy" not in lookup.view(None).topics
    path.unlink()
    assert verify(spark, manifest) == [f"{file.path} is missing"]
    path.write_bytes(bytes(data))
    mended = archive(spark, lookup.options, filled, tmp_path, window=100)
    assert mended.reused == len(manifest.files) - 1
    assert verify(spark, mended.manifest) == []


def test_foreign_records_in_a_half_filled_topic_are_noticed(
    spark: SparkSession, fill: Fill, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    manifest = archive(spark, lookup.options, filled, tmp_path, window=100).manifest
    copy = f"{filled}-copy"
    with pytest.raises(Broken):
        restore(spark, lookup.options, manifest, to=copy, check=False, progress=DiesAt("restoring"))
    fill(copy, [(1, b"a", b"stranger")])
    with pytest.raises(KlammError, match="is not what was archived: partition 1, offsets 0 to"):
        restore(spark, lookup.options, manifest, to=copy, check=False)


def test_restore_as_of_a_time(
    spark: SparkSession, read: Read, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    manifest = archive(spark, lookup.options, filled, tmp_path).manifest
    as_of = 1_600_000_000_099
    copy = f"{filled}-then"
    result = restore(
        spark, lookup.options, manifest, to=copy, as_of_ms=as_of, progress=Cleans(tmp_path)
    )
    assert result.records == 100
    assert read(copy).count() == 100
    assert lookup.committed(f"group-{filled}")[TopicPartition(copy, 0)].offset == 50


def test_growing_topic_is_archived_again_by_its_tail(
    spark: SparkSession, fill: Fill, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    archive(spark, lookup.options, filled, tmp_path, window=100)
    fill(filled, [(1, b"k", b"more")])
    again = archive(spark, lookup.options, filled, tmp_path, window=100)
    assert again.reused == 5
    assert again.manifest.records == 505
    assert vacuum(tmp_path)[0] == 3  # the window that has grown, settings, groups


def test_wrong_places_are_one_clear_sentence(
    spark: SparkSession, filled: str, lookup: Lookup, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UsageError, match=r"cannot write to .*: Not a directory"):
        archive(spark, lookup.options, filled, blocked)
    with pytest.raises(UsageError, match="there is no topic no-such-topic"):
        archive(spark, lookup.options, "no-such-topic", tmp_path)


def test_old_records_do_not_expire_while_they_are_restored(
    spark: SparkSession, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    name = topic(1, retention_ms="3600000", message_timestamp_type="LogAppendTime")
    fill(name, [(0, b"k", b"v")])
    manifest = archive(spark, lookup.options, name, tmp_path).manifest
    result = restore(spark, lookup.options, manifest, to=f"{name}-copy")
    assert result.notes == []
    configs = lookup.configs(f"{name}-copy")
    assert configs["retention.ms"] == "3600000"
    assert configs["message.timestamp.type"] == "LogAppendTime"
    old = topic(1, retention_ms="3600000")
    fill(old, [(0, b"k", b"v", int(time.time() * 1000) - 7_200_000)])
    manifest = archive(spark, lookup.options, old, tmp_path).manifest
    result = restore(spark, lookup.options, manifest, to=f"{old}-copy")
    assert "stays -1" in result.notes[0]
    assert lookup.configs(f"{old}-copy")["retention.ms"] == "-1"


def test_restored_topic_has_as_many_replicas_as_it_had(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=2)
        lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(cluster.bootstrap_servers)))
        kept = archive(spark, lookup.options, "t", tmp_path).manifest
        for alive, note in (
            (2, []),
            (1, ["t-1 has 1 replicas instead of 2: there are 1 brokers"]),
        ):
            while len(cluster.running) > alive:
                cluster.stop_broker(max(cluster.running))
            done = restore(spark, lookup.options, kept, to=f"t-{alive}", check=False)
            (leader,) = lookup.view([done.topic]).topics[done.topic].leaders.values()
            assert leader is not None
            assert (len(leader.replicas), done.notes) == (alive, note)


def test_limits_of_a_topic_do_not_stand_in_the_way_of_its_records(
    spark: SparkSession, read: Read, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    """They were set when the records were there already, or the records have grown old since."""
    name, copy = topic(1), "t-limited-copy"
    old = int(time.time() * 1000) - 7_200_000
    # Each with a key of its own: the copy may be compacted before it is read.
    fill(name, [(0, b"%d" % i, b"%03d" % i * 400, old) for i in range(100)])
    limits = {
        "max.message.bytes": "1000",
        "segment.bytes": "20000",
        "message.timestamp.before.max.ms": "3600000",
        "min.insync.replicas": "3",
        "retention.ms": "3600000",
        "cleanup.policy": "compact",
    }
    lookup.alter(name, limits)
    manifest = archive(spark, lookup.options, name, tmp_path).manifest
    # Taken up by somebody who has fewer brokers.
    settings = json.loads((manifest.path / manifest.settings.path).read_text())
    settings["assignments"] = {"0": [1, 2, 3]}
    path = manifest.path / "topic.ffffffff.json"
    path.write_text(json.dumps(settings))
    manifest = replace(manifest, settings=Part(path.name, sha256(path)))
    result = restore(spark, lookup.options, manifest, to=copy, before={0: 90})
    assert result.records == 90
    assert [bytes(row.value[:3]) for row in read(copy).orderBy("offset").collect()] == [
        b"%03d" % i for i in range(90)
    ]
    assert lookup.configs(copy) == limits
    # What is compacted does not expire.
    assert result.notes == [f"{copy} has 1 replicas instead of 3: there are 1 brokers"]
