"""A Parquet file that would take too much memory is refused before it is opened."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.pipelines.archive.files import Unreadable, read_file, read_groups
from klamm.pipelines.archive.parquet_pages import PageFault, group_costs, parse_page

MB = 1 << 20


def _write(path: Path, values: list[bytes], **options: Any) -> Path:
    table = pa.table({"offset": pa.array(range(len(values))), "value": pa.array(values)})
    pq.write_table(table, path, compression="zstd", **options)
    return path


def _bomb(path: Path) -> Path:
    """A value of a megabyte, meant 3,400 times."""
    meant = pa.DictionaryArray.from_arrays(pa.array([0] * 3400, pa.int32()), [b"\0" * MB])
    table = pa.table({"offset": pa.array(range(3400)), "value": meant})
    pq.write_table(
        table, path, compression="zstd", store_schema=False, dictionary_pagesize_limit=8 * MB
    )
    assert path.stat().st_size < 64 << 10
    return path


def _cost(path: Path) -> int:
    return max(group_costs(path, pq.read_metadata(path)))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_what_a_page_becomes_is_known_before(tmp_path: Path, version: str) -> None:
    path = _write(
        tmp_path / "f", [b"\0" * MB] * 64, use_dictionary=False, data_page_version=version
    )
    assert path.stat().st_size < MB
    assert 64 * MB <= _cost(path) < 80 * MB


def test_a_dictionary_is_charged_for_each_use(tmp_path: Path) -> None:
    assert _cost(_bomb(tmp_path / "f")) > 3400 * MB


def test_values_that_share_their_beginnings_are_charged(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "f",
        [b"\0" * MB] * 100,
        use_dictionary=False,
        column_encoding={"value": "DELTA_BYTE_ARRAY"},
    )
    assert _cost(path) > 100 * MB


def test_ordinary_rows_cost_about_what_they_are(tmp_path: Path) -> None:
    values = [b"%0100d" % n for n in range(50_000)]
    path = _write(tmp_path / "f", values, use_dictionary=["offset"], row_group_size=10_000)
    costs = group_costs(path, pq.read_metadata(path))
    assert len(costs) == 5
    assert max(costs) < 3 * MB


BOMB = """
import re, sys
from pathlib import Path
from klamm.pipelines.archive.files import Unreadable, read_file
try:
    for frame in read_file(Path(sys.argv[1])):
        raise AssertionError("it was opened")
except Unreadable as fault:
    print(fault)
# Not getrusage: what it tells of a fresh process is at least what its parent had.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def test_a_bomb_costs_no_memory(tmp_path: Path) -> None:
    path = _bomb(tmp_path / "f")
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(path)], capture_output=True, text=True, check=True
    )
    told, peak_kb = done.stdout.splitlines()
    assert "more than the" in told
    assert "--group-bytes" in told
    assert int(peak_kb) < 600 * 1024, "most of it is the imports"


def test_rows_that_the_manifest_does_not_know_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "f", [b"x"] * 10)
    assert sum(frame.num_rows for frame in read_file(path, rows=10)) == 10
    with pytest.raises(Unreadable, match="10 rows, not 9"):
        list(read_file(path, rows=9))


def test_committed_offsets_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    rows = [{"group": f"g{n % 7}", "partition": n, "metadata": ""} for n in range(2000)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert read_groups(path) == rows
    meant = pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int32()), ["x" * MB])
    bomb = pa.table({"group": meant, "metadata": pa.array([""] * 500)})
    pq.write_table(bomb, path, store_schema=False, dictionary_pagesize_limit=8 * MB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unreadable, match="bytes of text in committed offsets"):
        read_groups(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_or_none(data: bytes) -> None:
    try:
        page, length = parse_page(data)
    except (PageFault, IndexError):
        return
    assert min(page) >= 0
    assert 0 < length <= len(data)
