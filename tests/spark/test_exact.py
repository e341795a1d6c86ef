"""Exact restore: offsets, gaps, batches, producers, epochs and groups as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.importing import ImportLink
from klamm.client.blocking.lookup import Lookup
from klamm.client.requests import Committed
from klamm.client.settings import ConnectionOptions
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.pipelines.archive import exact_partition
from klamm.pipelines.archive.archiving import archive, range_of
from klamm.pipelines.archive.exact import check_exact, restore_exactly
from klamm.pipelines.archive.exact_partition import ExactJob, import_partition, prove_file
from klamm.pipelines.archive.files import window_frames
from klamm.pipelines.archive.layout import Manifest, Window
from klamm.pipelines.records import exact
from klamm.pipelines.records.exact import BATCH_COLUMNS
from spark.conftest import FOREIGN, LARGE
from spark.test_archive import Broken, DiesAt

pytestmark = pytest.mark.skipif(FOREIGN is not None, reason="only klamm takes offsets as given")

EPOCH = {"klamm.import.leader.epoch": "99"}


@pytest.fixture(scope="module")
def trio() -> Iterator[Cluster]:
    """Three brokers, so that leaders can change and followers have something to do."""
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def reach(trio: Cluster) -> Lookup:
    return Lookup(ConnectionOptions(bootstrap=parse_bootstrap(trio.bootstrap_servers)))


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession, trio: Cluster, reach: Lookup, tmp_path_factory: pytest.TempPathFactory
) -> Manifest:
    """A topic with gaps, codecs, a rolled-back transaction, several leader epochs, cut in front."""
    name = "lived"
    reach.create(name, 2, replicas=2, configs={"cleanup.policy": "delete"})
    for codec in ("none", "zstd"):
        producer = Producer(
            {"bootstrap.servers": trio.bootstrap_servers, "compression.type": codec}
        )
        for i in range(300 * LARGE):
            key = None if i % 7 == 0 else b"k%d" % i
            producer.produce(name, b"v%d" % i, key, partition=i % 2, headers=[("h", b"%d" % i)])
            if i % (50 * LARGE) == 49:
                producer.flush(30)
        producer.flush(30)
        led = trio.partition(name)
        assert led is not None
        trio.stop_broker(led.leader)
        trio.wait_for_leader(name, other_than=led.leader)
        trio.start_broker(led.leader)
        trio.wait_for_isr(name)
    changing = Producer({"bootstrap.servers": trio.bootstrap_servers, "transactional.id": name})
    changing.init_transactions(60)
    for keep in (False, True):
        changing.begin_transaction()
        changing.produce(name, b"kept" if keep else b"rolled back", partition=0)
        changing.flush(30)
        (changing.commit_transaction if keep else changing.abort_transaction)(60)
    admin = AdminClient({"bootstrap.servers": trio.bootstrap_servers})
    for cut in admin.delete_records([Place(name, 0, 17)]).values():
        cut.result(30)
    reach.commit(
        "readers",
        {
            TopicPartition(name, 0): Committed(200, metadata="here"),
            TopicPartition(name, 1): Committed(3),
        },
    )
    done = archive(spark, reach.options, name, tmp_path_factory.mktemp("a"), window=100 * LARGE)
    return done.manifest


def rows(lookup: Lookup, manifest: Manifest, name: str) -> list[Any]:
    """Everything that an archive would know of a topic."""
    view = lookup.view([name])
    return [
        frame.to_pylist()
        for partition, entry in sorted(manifest.partitions.items())
        for frame in window_frames(
            lookup.options, range_of(view, name, Window(int(partition), entry.log_start, entry.end))
        )
    ]


def test_everything_is_as_it_was(
    spark: SparkSession, reach: Lookup, trio: Cluster, archived: Manifest
) -> None:
    done = restore_exactly(spark, reach.options, archived, to="again")
    assert rows(reach, archived, "again") == rows(reach, archived, "lived")
    assert done.digests == {p: entry.digest for p, entry in archived.partitions.items()}
    assert archived.partitions["0"].log_start == 17
    committed = reach.committed("readers")
    for partition in (0, 1):
        before = committed[TopicPartition("lived", partition)]
        assert committed[TopicPartition("again", partition)] == before
    assert not {"klamm.importing", "klamm.import.leader.epoch"} & reach.configs("again").keys()
    # It serves: what comes next gets the next offset, in an epoch above all that it took over.
    producer = Producer({"bootstrap.servers": trio.bootstrap_servers})
    told: list[int] = []
    producer.produce(
        "again", b"next", partition=0, on_delivery=lambda _, m: told.append(m.offset())
    )
    assert producer.flush(30) == 0
    assert told == [archived.partitions["0"].end]


class Dies(ImportLink):
    """A link whose process dies before its nth request."""

    left = 0

    def send(self, batches: Sequence[bytes]) -> None:
        if batches:
            Dies.left -= 1
            if Dies.left < 0:
                self.flush()
                raise Broken
        super().send(batches)


def test_broken_off_anywhere_it_goes_on(
    spark: SparkSession,
    reach: Lookup,
    trio: Cluster,
    archived: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "broken-off"
    for step in ("verifying", "restoring"):
        with pytest.raises(Broken):
            restore_exactly(spark, reach.options, archived, to=name, progress=DiesAt(step))
    # A task dies after each of its requests, and the leader changes in the middle.
    job = ExactJob(
        connection=reach.options,
        directory=str(archived.path),
        topic=name,
        topic_id=reach.view([name]).topics[name].id,
        partitions={0: (archived.partitions["0"], archived.files_of(0))},
    )
    monkeypatch.setattr(exact_partition, "_CHUNK_BYTES", 500)
    monkeypatch.setattr(exact_partition, "ImportLink", Dies)
    for count in (1, 2, 3):
        Dies.left = count
        with pytest.raises(Broken):
            import_partition(job, 0)
        led = trio.wait_for_leader(name)
        if count == 2:
            trio.stop_broker(led)
            trio.wait_for_leader(name, other_than=led)
            trio.start_broker(led)
    producer = Producer({"bootstrap.servers": trio.bootstrap_servers, "message.timeout.ms": 1500})
    producer.produce(name, b"too early", partition=0)
    producer.flush(5)
    with pytest.raises(Broken):
        restore_exactly(spark, reach.options, archived, to=name, progress=DiesAt("proving"))
    done = restore_exactly(spark, reach.options, archived, to=name)
    assert done.resumed == sum(e.end - e.log_start for e in archived.partitions.values())
    assert rows(reach, archived, name) == rows(reach, archived, "lived")
    with pytest.raises(UsageError, match="there is a topic broken-off already"):
        check_exact(reach, archived, name)


def test_what_differs_is_named(
    spark: SparkSession, reach: Lookup, archived: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another producer id is no other record, and yet not what it was."""
    reach.create("false", 2, replicas=1, configs={"klamm.importing": "true"} | EPOCH)
    job = ExactJob(
        connection=reach.options,
        directory=str(archived.path),
        topic="false",
        topic_id=reach.view(["false"]).topics["false"].id,
        partitions={1: (archived.partitions["1"], archived.files_of(1))},
    )
    place = BATCH_COLUMNS.index("producer_epoch")
    seal = exact._Open.seal

    def other(self: Any) -> Any:
        self.shared = (*self.shared[:place], 7, *self.shared[place + 1 :])
        return seal(self)

    monkeypatch.setattr(exact._Open, "seal", other)
    import_partition(job, 1)
    first = archived.files_of(1)[0]
    wanted = range_of(reach.view(["false"]), "false", Window(1, first.first, first.last + 1))
    faults, _ = prove_file(job, first, wanted)
    assert faults == [f"partition 1, offsets 0 to {first.last}: producer_epoch differs"]


def test_command(
    trio: Cluster, archived: Manifest, reach: Lookup, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["restore", str(archived.path), "--exact", "-b", trio.bootstrap_servers]
    assert main([*line, "--to", "commanded", "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["digests"] == {p: entry.digest for p, entry in archived.partitions.items()}
    assert told["groups"] == {"readers": 2}
    assert main([*line, "--as-of", "2026-01-01T00:00"]) == 2
    assert "--exact restores all of an archive" in capsys.readouterr().err


def test_on_another_kafka_it_says_what_to_do(
    reach: Lookup, archived: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lookup, "serves", lambda *_: False)
    with pytest.raises(UsageError, match="leave out --exact"):
        check_exact(reach, archived, "elsewhere")
