"""The bytes of every file, as Kafka reads them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.log.disk import checkpoints, names
from klamm.log.disk.files import FilePool
from klamm.log.partition import PartitionLog
from klamm.log.producers.tracking import ProducerStates
from klamm.log.segments.index import OffsetIndex, TimeIndex
from klamm.log.segments.transactions import Aborted, TransactionIndex
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.protocol.batch import ControlKind, encode_control_batch
from unit.log.helpers import T0, append, try_append

MakeLog = Callable[..., PartitionLog]


def test_offset_index(tmp_path: Path, pool: FilePool) -> None:
    index = OffsetIndex(str(tmp_path / "x.index"), 1000, pool)
    index.append(1005, 0x1234)
    index.append(1010, 0x10000)
    index.release()
    assert (tmp_path / "x.index").read_bytes().hex() == "00000005000012340000000a00010000"


def test_time_index(tmp_path: Path, pool: FilePool) -> None:
    index = TimeIndex(str(tmp_path / "x.timeindex"), 1000, pool)
    index.append(0x18BCFE56800, 1005)
    index.append(0x18BCFE56800, 1007)  # not a new maximum: no entry
    index.append(0x18BCFE56801, 1010)
    index.release()
    assert (tmp_path / "x.timeindex").read_bytes().hex() == (
        "0000018bcfe5680000000005" + "0000018bcfe568010000000a"
    )


def test_transaction_index(tmp_path: Path, pool: FilePool) -> None:
    index = TransactionIndex(str(tmp_path / "x.txnindex"), pool)
    index.append(Aborted(7, 100, 110, 105))
    assert (tmp_path / "x.txnindex").read_bytes().hex() == (
        "000000000000000000070000000000000064000000000000006e0000000000000069"
    )


def test_producer_snapshot() -> None:
    states = ProducerStates()
    states.wrote(5, 2, 10, 40, 3, 0x18BCFE56800, True)
    content = states.encode()
    assert content[:2].hex() == "0001"
    assert content[6:].hex() == (
        "00000001"
        "0000000000000005"  # producer id
        "0002"  # epoch
        "0000000d"  # last sequence
        "000000000000002b"  # last offset
        "00000003"  # offset delta
        "0000018bcfe56800"  # timestamp
        "ffffffff"  # coordinator epoch
        "0000000000000028"  # first offset of the open transaction
    )
    assert content[2:6].hex() == "c3355681"
    assert ProducerStates.decode(content).by_id == states.by_id  # type: ignore[union-attr]


def test_offset_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / names.HIGH_WATERMARKS)
    offsets = {TopicPartition("a-b", 0): 17, TopicPartition("c", 12): 0}
    checkpoints.write_offsets(path, offsets)
    assert Path(path).read_text() == "0\n2\na-b 0 17\nc 12 0\n"
    assert checkpoints.read_offsets(path) == offsets
    assert checkpoints.read_offsets(str(tmp_path / "none")) == {}


@pytest.mark.parametrize(
    "text", ["1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n", "\x00\n0\n"]
)
def test_a_checkpoint_that_lies_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / names.HIGH_WATERMARKS
    path.write_text(text)
    with pytest.raises(checkpoints.CheckpointCorrupt):
        checkpoints.read_offsets(str(path))


def test_epoch_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / names.EPOCHS)
    checkpoints.write_epochs(path, [(0, 0), (4, 129)])
    assert Path(path).read_text() == "0\n2\n0 0\n4 129\n"
    assert checkpoints.read_epochs(path) == [(0, 0), (4, 129)]
    Path(path).write_text("0\n2\n4 0\n3 9\n")
    with pytest.raises(checkpoints.CheckpointCorrupt):
        checkpoints.read_epochs(path)


def test_partition_metadata(tmp_path: Path) -> None:
    path = str(tmp_path / names.PARTITION_METADATA)
    topic_id = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    checkpoints.write_topic_id(path, topic_id)
    assert Path(path).read_text() == "version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert checkpoints.read_topic_id(path) == topic_id
    Path(path).write_text("")
    assert checkpoints.read_topic_id(path) is None


def test_meta_properties_of_kafka_are_understood(tmp_path: Path) -> None:
    path = tmp_path / names.META_PROPERTIES
    path.write_text("#\n#Sun Nov 15\ncluster.id=xyz\nversion=0\nbroker.id=3\n")
    assert checkpoints.read_identity(str(path)) == checkpoints.DirectoryIdentity(3, "xyz", "")
    for damaged in (b"version=0\n", b"broker.id=x\ncluster.id=xyz\n", b"\x00\xff\xfe"):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match="put the file back as it was"):
            checkpoints.read_identity(str(path))


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-3", TopicPartition("orders", 3)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("orders-3.0123456789abcdef0123456789abcdef-delete", None),
        ("orders-3.0123456789abcdef0123456789abcdef-future", None),
        ("orders-03", None),
        ("ledger", None),
        ("-1", None),
    ],
)
def test_directory_names(name: str, partition: TopicPartition | None) -> None:
    assert names.parse_partition(name) == partition


def test_the_sparse_rule_of_the_indexes(make_log: MakeLog) -> None:
    log = make_log(index_interval_bytes=200)
    sizes = [
        append(log, b"x" * 60, timestamp=T0 + 10 * n).base_offset * 0 + log.size_bytes
        for n in range(7)
    ]
    step = sizes[0]
    assert 100 < step < 200, "two batches stay within the interval, three do not"
    log.close(clean=True)
    index = Path(log.segments.active.path).with_suffix(".index").read_bytes()
    entries = [
        (int.from_bytes(index[at : at + 4]), int.from_bytes(index[at + 4 : at + 8]))
        for at in range(0, len(index), 8)
    ]
    # Two batches are more than 200 bytes, so every second one after the first gets an entry.
    assert entries == [(2, 2 * step), (4, 4 * step), (6, 6 * step)]
    times = Path(log.segments.active.path).with_suffix(".timeindex").read_bytes()
    assert [int.from_bytes(times[at : at + 8]) - T0 for at in range(0, len(times), 12)] == [
        20,
        40,
        60,
    ]


def test_markers_reach_the_transaction_index(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = encode_control_batch(
        ControlKind.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=T0
    )
    try_append(log, memoryview(bytearray(marker)), from_client=False)
    content = Path(log.segments.active.path).with_suffix(".txnindex").read_bytes()
    assert content.hex() == "0000" + "%016x" * 4 % (1, 0, 1, 2)
