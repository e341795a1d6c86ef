"""Tables that follow for weeks: what is old goes, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from klamm.pipelines.tables.formats import iceberg_history, parquet
from klamm.pipelines.tables.formats.iceberg_place import open_table
from klamm.pipelines.tables.formats.opening import table_at
from klamm.pipelines.tables.state import Conflict, DataFile, Follow, Snapshot, Table, schema_of
from klamm.pipelines.tables.task import write_file

COLUMNS = {"value": pa.binary()}
DAYS_AGO = time.time() - 5 * 86400
STATE = Follow(
    topic="t",
    topic_id="i",
    cluster="c",
    values="raw",
    adding=False,
    by_day=False,
    offsets={0: 0},
)


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(parquet, "_WHOLE_EVERY", 2)
    monkeypatch.setattr(parquet, "_KEPT", 2)
    monkeypatch.setattr(iceberg_history, "METADATA_KEPT", 2)
    return table_at(tmp_path / "t", request.param)


def _rows(first: int, count: int) -> Any:
    schema = schema_of(COLUMNS)
    known = {"kafka_offset": range(first, first + count), "kafka_partition": [0] * count}
    return pa.Table.from_pylist(
        [{name: values[at] for name, values in known.items()} for at in range(count)], schema
    )


def _file(table: Table, name: str, rows: Any) -> DataFile:
    draft = f"data/{name}" if table.drafts is None else f"{table.drafts}/{name}"
    return write_file(table.place, f"data/{name}", rows, None, draft=draft)


def _commit(table: Table, seen: Snapshot, offset: int) -> Snapshot:
    file = _file(table, f"0-{offset}-{offset + 1}.{offset:08x}.parquet", _rows(offset, 1))
    after = seen.state.after({0: offset + 1}, {"records": 1})
    return table.commit(seen, after, COLUMNS, [file])


def _compact(table: Table, seen: Snapshot) -> Snapshot:
    made = (
        [] if table.format == "delta" else [_file(table, "compacted.00000000.parquet", _rows(0, 4))]
    )
    return table.replace(seen, seen.files, made)


def _offsets(table: Table) -> list[int]:
    place = Path(str(table.place))
    if table.format == "delta":
        from deltalake import DeltaTable

        found: Any = DeltaTable(str(place)).to_pyarrow_table()
    elif table.format == "iceberg":
        opened = open_table(place)
        assert opened is not None
        found = opened[0].scan().to_arrow()
    else:
        found = pa.parquet.read_table(place / "data", schema=schema_of(COLUMNS))
    return sorted(found.column("kafka_offset").to_pylist())


def _data(place: Path) -> set[Path]:
    found = place.rglob("*.parquet")
    return {path for path in found if not path.relative_to(place).parts[0].startswith("_")}


def test_old_versions_go_and_the_table_stays(table: Table) -> None:
    seen = first = table.create(STATE, COLUMNS)
    for offset in range(4):
        seen = _commit(table, seen, offset)
    sleeper = seen
    seen = _commit(table, _compact(table, seen), 4)
    place = Path(str(table.place))
    foreign, left = place / "data/mine.parquet", place / "data/0-9-10.0000000a.parquet"
    if table.drafts is None:  # a Parquet table's drafts are looked after at the start
        for path in (foreign, left):
            path.write_bytes(b"")
            os.utime(path, (DAYS_AGO, DAYS_AGO))
    young = _data(place) - {left}
    table.forget(86400)
    assert _data(place) == young
    assert _offsets(table) == [0, 1, 2, 3, 4]
    assert table.load() is not None
    assert table.forget(0) > 0
    assert _offsets(table) == [0, 1, 2, 3, 4]
    now = table.load()
    assert now is not None
    assert (now.state, len(now.files)) == (seen.state, 2)
    others = {foreign} if table.drafts is None else set()
    assert _data(place) == {place / file.path for file in now.files} | others
    for old in (sleeper, first):
        with pytest.raises(Conflict):
            _commit(table, old, 7)
    assert _offsets(table) == [0, 1, 2, 3, 4]
    assert _commit(table, now, 5).state.offsets == {0: 6}
    assert _offsets(table) == [0, 1, 2, 3, 4, 5]
