"""What is lost, doubled, changed or out of order is found, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from klamm.model.errors import KlammError
from klamm.pipelines.repartition.chunks import SealedBatch, packed, unpacked
from klamm.pipelines.repartition.maps import Origins, origins_of, run_directory, translated
from klamm.pipelines.repartition.proof import faults_of, sums_of_source, sums_of_target
from klamm.pipelines.repartition.writing import MAP

Row = tuple[int, bytes | None, bytes | None]


def frame(rows: list[Row]) -> Any:
    """Records: offset, key and value."""
    headers = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([offset for offset, _, _ in rows], pa.int64()),
            pa.array([1000] * len(rows), pa.int64()),
            pa.array([key for _, key, _ in rows], pa.binary()),
            pa.array([value for _, _, value in rows], pa.binary()),
            pa.array([[] for _ in rows], headers),
        ],
        ["offset", "timestamp_ms", "key", "value", "headers"],
    )


OLD: list[Row] = [(0, b"a", b"1"), (1, None, b"2"), (4, b"a", b"3"), (5, b"b", None), (6, b"", b"")]
ORIGINS = Origins(np.zeros(5, np.int32), np.array([0, 1, 4, 5, 6]))


def told(new: list[Row], origins: Origins = ORIGINS, base: int = 0) -> list[str]:
    old = sums_of_source([frame(OLD[:2]), frame(OLD[2:])], 0, 1)
    placed = [(base + n, key, value) for n, (_, key, value) in enumerate(new)]
    found = sums_of_target([frame(placed)] if placed else [], 0, 1, origins, base)
    return faults_of(old, found, [len(origins)])


def test_the_same_records_are_the_same() -> None:
    assert told(OLD) == told(OLD, base=70) == []


def test_a_loss_a_double_and_a_change_are_named() -> None:
    lost = told(OLD[:4])
    assert lost[0] == "5 records were to be copied, the map has 5 and the copy 4"
    assert lost[1].endswith("the records differ")
    assert told([*OLD, OLD[0]])[0].endswith("and the copy 6")
    (changed,) = told([*OLD[:1], (1, None, b"x"), *OLD[2:]])
    assert changed == "records without a key: the records differ"


def test_a_misorder_is_counted() -> None:
    """The records are exchanged, and the map says so, or does not."""
    new = [OLD[2], OLD[1], OLD[0], *OLD[3:]]
    (planted,) = told(new, Origins(ORIGINS.source, np.array([4, 1, 0, 5, 6])))
    assert planted == "1 records come after a later one of their key"
    (hidden,) = told(new)
    assert hidden.endswith("records are not where the offset map says")


def test_a_key_in_the_wrong_partition_is_counted() -> None:
    placed = [(n, key, value) for n, (_, key, value) in enumerate(OLD)]
    wrong = [sums_of_target([frame(placed)], target, 2, ORIGINS, 0).strange for target in range(2)]
    assert sum(wrong) == 4
    assert sums_of_source([frame(OLD)], 0, 2).strange in (wrong[0], 4 - wrong[1])


def write_map(root: Path, run: int, rows: list[dict[str, Any]]) -> None:
    place = run_directory(root, run)
    place.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, MAP), place / "target-00000.parquet")


def test_maps_are_read_in_the_order_of_runs(tmp_path: Path) -> None:
    row = {"source": 0, "first": 4, "last": 6, "target": 0, "new_first": 0, "count": 3}
    write_map(tmp_path, 0, [row | {"source_offsets": None}])
    later = row | {"source": 2, "first": 1, "last": 9, "new_first": 3, "count": 2}
    write_map(tmp_path, 2, [later | {"source_offsets": [1, 9]}])
    found = origins_of(tmp_path, range(3), 0)
    assert found.source.tolist() == [0, 0, 0, 2, 2]
    assert found.offset.tolist() == [4, 5, 6, 1, 9]
    assert origins_of(tmp_path, range(2, 3), 0, 3).offset.tolist() == [1, 9]
    with pytest.raises(KlammError, match="does not join"):
        origins_of(tmp_path, range(2, 3), 0)


def test_groups_lose_nothing_and_are_told_what_comes_again() -> None:
    origins = Origins(np.array([0, 1, 0, 1, 0]), np.array([10, 5, 11, 6, 12]))
    assert translated(origins, {0: 12, 1: 6}, 2) == (3, 0)
    assert translated(origins, {0: 11, 1: 7}, 2) == (2, 1)
    assert translated(origins, {0: 13, 1: 7}, 2) == (5, 0)
    assert translated(origins, {0: 13}, 2) == (1, 2)  # nothing committed is nothing read
    assert translated(Origins(np.zeros(0, np.int32), np.zeros(0)), {0: 5}, 1) == (0, 0)


def test_batches_travel_in_rows() -> None:
    one = bytes(8) + (5).to_bytes(4, "big") + b"abcde"
    batches = [SealedBatch(3, one), SealedBatch(1, one)]
    assert unpacked(*packed(batches)) == batches
    assert unpacked(*packed([])) == []
