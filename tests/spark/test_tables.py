"""Tables that follow topics: every record once, whatever happens to the process that follows.

Small rounds need no Spark, so these tests start none; one at the end has Spark's tasks do it.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from klamm.client.blocking.lookup import Lookup
from klamm.client.registry.framing import framed
from klamm.installing import install_command
from klamm.pipelines.tables.formats.iceberg_place import open_table
from klamm.pipelines.tables.formats.opening import existing, table_at
from klamm.pipelines.tables.formats.parquet import ParquetTable
from klamm.pipelines.tables.state import Conflict

from . import dying, dying_jobs
from .conftest import FOREIGN, LARGE

Make = Callable[..., str]
Fill = Callable[..., None]
Run = Callable[..., tuple[int, str, str]]
Row = dict[str, Any]
FORMATS = ["parquet", "delta", "iceberg"]
DAY_MS = 86_400_000
OLD_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _without_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of records is not worth Spark's tasks, nor compiled loops."""
    monkeypatch.setenv("KLAMM_KERNELS", "numpy")
    if "spark" not in request.fixturenames:
        monkeypatch.setattr("klamm.cli.spark.jobs._running", lambda: None)


@pytest.fixture(params=FORMATS)
def format_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows_of(place: Path, format_: str) -> list[Row]:
    """What another reader of the format finds."""
    if format_ == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(place)).to_pyarrow_table()
    elif format_ == "iceberg":
        opened = open_table(place)
        assert opened is not None
        found = opened[0].scan().to_arrow()
    else:
        paths = [path for path in place.rglob("*.parquet") if "_klamm" not in path.parts]
        schema = pa.unify_schemas([pq.read_schema(path) for path in paths])
        found = ds.dataset(paths, schema=schema).to_table()
    order = [("kafka_partition", "ascending"), ("kafka_offset", "ascending")]
    rows: list[Row] = pa.table(found).sort_by(order).to_pylist()
    return rows


def places_of(rows: list[Row]) -> list[tuple[int, int]]:
    return [(row["kafka_partition"], row["kafka_offset"]) for row in rows]


def orders(count: int, first: int = 0, **more: Any) -> list[tuple[Any, ...]]:
    return [
        (n % 2, f"k{n}".encode(), json.dumps({"id": n, "name": f"n{n}"} | more).encode())
        for n in range(first, first + count)
    ]


def follow(command: Run, topic: str, place: Path, format_: str, *more: str) -> list[Row]:
    line = ("table", "follow", topic, "--to", str(place), "--format", format_, "--once")
    code, out, err = command(*line, "-o", "json", *more)
    assert code == 0, err
    return [json.loads(text) for text in out.splitlines()]


def fails(command: Run, *line: object) -> str:
    code, out, err = command(*map(str, line))
    assert (code != 0, out, err.count("\n")) == (True, "", 1), (code, out, err)
    return err.removeprefix("klamm: ").removesuffix("\n")


def test_values_late_columns_bad_values_and_days(
    command: Run, topic: Make, fill: Fill, tmp_path: Path, format_: str
) -> None:
    name, place = topic(2), tmp_path / "t"
    fill(name, orders(6))
    fill(name, [(0, None, b"nope"), (1, b"k1", None)])
    fill(name, [(1, b"old", b'{"id":99}', OLD_MS, [("h", b"1")])])
    (done,) = follow(command, name, place, format_)
    assert (done["records"], done["bad"], done["lag"]) == (9, 1, 0)
    assert done["added"] == ["id", "name"]
    fill(name, [(0, b"", b'{"id":"x"}')])
    fill(name, [(0, b"late", b'{"id":1.5,"more":{"a":[1]},"none":null}'), (0, b"l", b'{"more":2}')])
    (done,) = follow(command, name, place, format_)
    assert (done["records"], done["bad"], done["added"]) == (3, 2, ["more"])
    rows = rows_of(place, format_)
    assert places_of(rows) == [(0, n) for n in range(7)] + [(1, n) for n in range(5)]
    bad = {row["kafka_bad_value"]: row for row in rows if row["kafka_bad_value"] is not None}
    assert set(bad) == {b"nope", b'{"id":"x"}', b'{"id":1.5,"more":{"a":[1]},"none":null}'}
    assert bad[b'{"id":"x"}']["kafka_bad_reason"] == "id: 'x' is no whole number"
    assert [row["more"] for row in rows if row["more"]] == ["2"]
    assert [row["kafka_key"] for row in rows if row["kafka_tombstone"]] == [b"k1"]
    (old,) = [row for row in rows if row["id"] == 99]
    assert old["kafka_timestamp"].timestamp() * 1000 == OLD_MS
    assert old["kafka_headers"] == [{"key": "h", "value": b"1"}]
    _, seen = existing(place)
    assert {"2023-11-14"} < {file.day for file in seen.files}
    code, out, _ = command("table", "status", str(place), "-o", "json")
    told = json.loads(out)
    assert (code, told["records"], told["bad"], told["lag"]) == (0, 12, 3, {"0": 0, "1": 0})


def test_killed_at_each_step(
    bootstrap: str, topic: Make, fill: Fill, tmp_path: Path, format_: str
) -> None:
    """The steps come from a whole run. A run begins in the ruins of all those before it."""
    name, broken = topic(2), tmp_path / "broken"
    fill(name, orders(6))

    def run(place: Path, *more: str, deadly: str | None = None) -> list[str]:
        line = ("table", "follow", name, "--to", str(place), "--format", format_, "--once", *more)
        args = (*line, "-b", bootstrap, "--values", "json")
        return dying.run(dying_jobs.command_alone, tmp_path / "notes", *args, deadly=deadly)

    steps = run(tmp_path / "whole")
    kinds = [step.split(" at ")[0] for step in steps]
    assert "write_file" in kinds, kinds
    assert {"put_if_absent", "after put_if_absent", "committed", "after committed"} & set(kinds)
    made = kinds.index("write_file")  # before it, the table is made: each time in a new place
    if format_ == "iceberg" and LARGE == 1:
        steps, made = steps[made:], 0  # its first steps are in `make test-spark-full`
    for number, step in enumerate(steps):
        # With more to do each time, and another column: what was left is not what is written.
        fill(name, orders(2, first=10 * number, **{f"c{number}": number}))
        place = broken if number >= made else tmp_path / f"broken-{number}"
        run(place, deadly=step)
        if number < made:
            run(place)
            found = places_of(rows_of(place, format_))
            assert found == [(p, n) for p in (0, 1) for n in range(4 + number)]
    run(broken)
    rows = rows_of(broken, format_)
    ends = 3 + len(steps)  # of each partition
    assert places_of(rows) == [(p, n) for p in (0, 1) for n in range(ends)]
    seen = existing(broken)[1]
    assert seen.state.records == 2 * ends
    if format_ == "parquet":
        left = [path for path in broken.rglob("*.parquet") if "drafts" in str(path)]
        assert left == []


def test_two_writers_cannot_both_commit(
    command: Run, topic: Make, fill: Fill, tmp_path: Path, format_: str
) -> None:
    """The lock of a directory apart: a store has none."""
    name, place = topic(1), tmp_path / "t"
    fill(name, [(0, None, b'{"id":1}')])
    follow(command, name, place, format_)
    table, other = table_at(place, format_), table_at(place, format_)
    seen, old = table.load(), other.load()
    assert seen is not None
    assert old is not None
    done = seen.state.after({0: 5}, {"records": 4})
    assert table.commit(seen, done, seen.columns, []).state.offsets == {0: 5}
    with pytest.raises(Conflict):
        other.commit(old, old.state.after({0: 5}, {"records": 4}), old.columns, [])
    assert existing(place)[1].state == done


def test_commit_whose_answer_is_lost_counts_once(
    command: Run,
    topic: Make,
    fill: Fill,
    tmp_path: Path,
    format_: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that is asked again says that the name is taken. The files must stay then."""
    name, place = topic(2), tmp_path / "t"
    fill(name, orders(4))
    follow(command, name, place, format_)
    kind = type(table_at(place, format_))
    commits: list[str] = []

    def lost(what: str) -> Callable[..., Any]:
        done = getattr(kind, what)

        def commit(*args: Any) -> Any:
            commits.append(what)
            made = done(*args)
            if len(commits) % 2:
                raise Conflict("taken")
            return made

        return commit

    for what in ("commit", "replace"):
        monkeypatch.setattr(kind, what, lost(what))
    fill(name, orders(4, first=4))
    (done,) = follow(command, name, place, format_)
    assert (done["records"], commits) == (4, ["commit"])
    commits.clear()
    if format_ != "delta":  # whose own OPTIMIZE it is
        assert command("table", "compact", str(place))[0] == 0
        assert len(existing(place)[1].files) == 1
    rows = rows_of(place, format_)
    assert sorted(row["id"] for row in rows) == list(range(8))
    assert existing(place)[1].state.records == 8


def test_compaction_keeps_records_and_offsets(
    command: Run, topic: Make, fill: Fill, tmp_path: Path, format_: str
) -> None:
    name, place = topic(2), tmp_path / "t"
    fill(name, orders(4))
    follow(command, name, place, format_)
    fill(name, orders(4, first=4, late=1))
    follow(command, name, place, format_)
    before, state = rows_of(place, format_), existing(place)[1].state
    code, out, err = command("table", "compact", str(place), "-o", "json")
    assert code == 0, err
    counts = json.loads(out)
    assert (counts["before"], counts["after"]) == (4, 1)
    assert rows_of(place, format_) == before
    assert existing(place)[1].state == state
    fill(name, orders(1, first=8))
    assert follow(command, name, place, format_)[0]["records"] == 1


@pytest.mark.skipif(bool(FOREIGN), reason="deletes records and topics")
def test_lost_recreated_and_grown_topics(
    command: Run, topic: Make, fill: Fill, lookup: Lookup, tmp_path: Path
) -> None:
    name, place = topic(1), tmp_path / "t"
    line = ("table", "follow", name, "--to", place, "--once", "-o", "json")
    fill(name, [(0, None, b'{"id":1}')] * 3)
    follow(command, name, place, "parquet")
    assert command("topics", "alter", name, "--partitions", "2")[0] == 0
    fill(name, [(1, None, b'{"id":2}')] * 2)
    assert follow(command, name, place, "parquet")[0]["records"] == 2
    fill(name, [(0, None, b'{"id":3}')] * 4)
    assert command("kafka-delete-records", "--bootstrap-server", lookup.options.servers,
                   "--offset-json-file", str(_cut(tmp_path, name, 5)))[0] == 0  # fmt: skip
    said = fails(command, *line)
    assert "partition 0 begins at 5, and 3 was next" in said
    assert "--on-loss accept" in said
    (done,) = follow(command, name, place, "parquet", "--on-loss", "accept")
    assert (done["records"], len(done["notes"])) == (2, 1)
    assert existing(place)[1].state.lost == 2
    assert command("topics", "delete", name)[0] == 0
    assert command("topics", "create", name, "--partitions", "1")[0] == 0
    fill(name, [(0, None, b'{"id":4}')])
    assert "was deleted and created again" in fails(command, *line)
    (done,) = follow(command, name, place, "parquet", "--on-recreated", "restart")
    assert done["records"] == 1
    rows = rows_of(place, "parquet")
    assert sorted(row["id"] for row in rows) == [1, 1, 1, 2, 2, 3, 3, 4]


def _cut(directory: Path, topic: str, offset: int) -> Path:
    path = directory / "cut.json"
    wanted = [{"topic": topic, "partition": 0, "offset": offset}]
    path.write_text(json.dumps({"version": 1, "partitions": wanted}))
    return path


def test_rolled_back_records_are_not_in_the_table(
    command: Run, topic: Make, bootstrap: str, tmp_path: Path
) -> None:
    name, place = topic(1), tmp_path / "t"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{name}"})
    producer.init_transactions(30)
    for value, end in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        producer.flush(30)
        end(30)
    follow(command, name, place, "parquet", "--values", "raw")
    assert [row["value"] for row in rows_of(place, "parquet")] == [b"yes"]


def test_avro_values_with_schemas_of_a_directory(
    command: Run, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    name, place, schemas = topic(1), tmp_path / "t", tmp_path / "schemas"
    schemas.mkdir()
    fields: list[Row] = [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    first = {"type": "record", "name": "Order", "fields": fields}
    tags = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
    second = {"type": "record", "name": "Order", "fields": [*fields, tags]}
    for number, schema in ((1, first), (2, second)):
        (schemas / f"order-{number}.avsc").write_text(json.dumps(schema))

    def value(number: int, schema: Row, row: Row) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
        return framed(number, out.getvalue())

    fill(name, [(0, None, value(1, first, {"id": 1, "at": OLD_MS}))])
    avro = ("--values", "avro", "--schemas", str(schemas))
    follow(command, name, place, "delta", *avro)
    fill(name, [(0, None, value(2, second, {"id": 2, "at": 0, "tags": ["a"]})),
                (0, None, framed(9, b"")), (0, None, b"plain")])  # fmt: skip
    (done,) = follow(command, name, place, "delta", *avro)
    assert (done["added"], done["bad"]) == (["tags"], 2)
    rows = rows_of(place, "delta")
    assert [(row["id"], row["tags"]) for row in rows] == [(1, None), (2, ["a"])] + [
        (None, None)
    ] * 2
    assert rows[0]["at"].timestamp() * 1000 == OLD_MS
    assert "no schema of number 9" in rows[2]["kafka_bad_reason"]
    assert "Avro values" in fails(command, "table", "follow", name, "--to", place, "--format",
                                  "delta", "--once")  # fmt: skip


def test_longer_schema_adds_columns(
    command: Run, topic: Make, fill: Fill, tmp_path: Path, format_: str
) -> None:
    """And fields that it does not name are counted."""
    name, place = topic(1), tmp_path / "t"
    fill(name, [(0, None, b'{"id":1,"x":2}')])
    follow(command, name, place, format_, "--schema", "id bigint")
    assert existing(place)[1].state.ignored == 1
    fill(name, [(0, None, b'{"id":2,"x":3}')])
    follow(command, name, place, format_, "--schema", "id bigint, x double")
    rows = rows_of(place, format_)
    assert [(row["id"], row["x"]) for row in rows] == [(1, None), (2, 3.0)]
    assert existing(place)[1].state.records == 2


def test_damaged_and_foreign_tables_are_refused(
    command: Run, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    name, place = topic(1), tmp_path / "t"
    fill(name, [(0, None, b'{"id":1}')])
    follow(command, name, place, "parquet")
    line = ("table", "follow", name, "--to", place, "--once", "-o", "json")
    assert "format parquet, not delta" in fails(command, *line, "--format", "delta")
    assert "was made with --values json" in fails(command, *line, "--values", "raw")
    assert "not string" in fails(command, *line, "--schema", "id string")
    assert "follows" in fails(command, "table", "follow", topic(1), "--to", place, "--once")
    log = place / "_klamm/log"
    entry = max(log.iterdir())
    entry.write_text(entry.read_text().replace('"records": 1', '"records": 2'))
    assert "is not as it was written" in fails(command, "table", "status", place)
    entry.unlink()
    min(log.iterdir()).rename(log / f"{7:020d}.json")
    assert "version 6 of its log is missing" in fails(command, "table", "status", place)


def test_mistakes_get_one_sentence(
    command: Run, topic: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, place = topic(1), tmp_path / "t"
    line = ("table", "follow", name, "--to", place)
    assert "holds no table" in fails(command, "table", "status", tmp_path)
    assert "there is no topic" in fails(command, "table", "follow", "nobody", "--to", place)
    (tmp_path / "file").touch()
    assert "is a file" in fails(command, "table", "follow", name, "--to", tmp_path / "file")
    assert "Avro values need" in fails(command, *line, "--values", "avro")
    assert "name them by --schema" in fails(command, *line, "--late-columns", "ignore")
    assert "needs --values" in fails(command, *line, "--from", "latest")
    assert "'blob'" in fails(command, *line, "--schema", "id blob")
    assert "credentials belong" in fails(command, *line[:-1], "s3://key:geheim@bucket/t")
    assert "geheim" not in fails(command, *line[:-1], "s3://key:geheim@bucket/t")
    assert "no broker can be reached" in fails(command, *line, "-b", "127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    said = fails(command, *line, "--format", "delta")
    assert said.endswith(f"`{install_command('delta')}`")


@pytest.fixture
def following(bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(topic: str, place: Path, *more: str) -> subprocess.Popen[str]:
        line = ["table", "follow", topic, "--to", str(place), "-b", bootstrap, "-o", "json"]
        process = subprocess.Popen(
            [sys.executable, "-m", "klamm", *line, "--every", "0.2", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_follows_until_it_is_told_to_stop(
    following: Callable[..., subprocess.Popen[str]],
    command: Run,
    topic: Make,
    fill: Fill,
    tmp_path: Path,
) -> None:
    name, place = topic(2), tmp_path / "t"
    fill(name, orders(2))
    process = following(name, place)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["records"] == 2
    fill(name, orders(4, first=2))
    seen = 0
    while seen < 4:  # by one commit, or by two
        seen += json.loads(process.stdout.readline())["records"]
    said = fails(command, "table", "follow", name, "--to", place, "--once")
    assert said == f"{place} is being written to by another klamm"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "")
    assert len(rows_of(place, "parquet")) == 6
    fill(name, orders(1, first=6))
    assert follow(command, name, place, "parquet")[0]["records"] == 1


def test_log_has_all_files_now_and_then(tmp_path: Path, command: Run, topic: Make) -> None:
    """Reading a table must not take all of its history."""
    name = topic(1)
    table = ParquetTable(tmp_path / "t")
    follow(command, name, tmp_path / "t", "parquet", "--values", "raw")
    seen = table.load()
    assert seen is not None
    for _ in range(55):
        seen = table.commit(seen, seen.state, seen.columns, [])
    assert table.load() == seen
    for version in range(50):
        (tmp_path / f"t/_klamm/log/{version:020d}.json").write_text("{}")
    assert table.load() == seen


def test_on_spark(
    spark: SparkSession, command: Run, topic: Make, fill: Fill, tmp_path: Path
) -> None:
    """The same by Spark's tasks, where a session runs."""
    name, place = topic(2), tmp_path / "t"
    count = 20 * LARGE**2
    fill(name, orders(count, at=time.time()))
    assert sum(done["records"] for done in follow(command, name, place, "parquet")) == count
    found = spark.read.parquet(str(place))
    assert found.count() == found.select("id").distinct().count() == count
