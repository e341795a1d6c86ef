"""Archive, restore, table and audit on HDFS: a name node and a data node of Hadoop, from Maven."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from interop_extra.toolbox import HERE, cached, tool
from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.pipelines.archive.shelf import find_archive
from klamm.pipelines.places.place import Taken, put_after, put_if_absent
from klamm.pipelines.places.remote import RemotePath
from klamm.pipelines.tables.formats.opening import table_at
from klamm.pipelines.tables.state import Conflict

HADOOP = "3.4.1"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a file system that lives as long as these tests."""
    jars = cached(
        f"hadoop-{HADOOP}",
        lambda into: [
            *(tool("mvn"), "-q", "-B", "-f", str(HERE / "java" / "hadoop.xml")),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            *(f"-Dhadoop={HADOOP}", f"-DoutputDirectory={into}"),
        ],
    )
    place = tmp_path_factory.mktemp("hdfs")
    light = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
    line = [tool("java"), *light, "-cp", f"{jars}/*", str(HERE / "java" / "Hdfs.java"), str(place)]
    with (
        (place / "said").open("wb") as said,
        subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, cwd=place
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("hdfs://"), (place / "said").read_text()[-2000:]
            yield address
        finally:
            process.kill()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, settings={"klamm.ledger.topic.enable": "true"}) as running:
        yield running


@pytest.fixture
def place(hdfs: str) -> RemotePath:
    return RemotePath(f"{hdfs}/{uuid.uuid4().hex}/things")


@pytest.fixture
def command(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
    monkeypatch.setenv("KLAMM_KERNELS", "numpy")

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def ok(command: Run, *words: object) -> str:
    code, out, err = command(*words)
    assert code == 0, err
    return out


def _write(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"k%d" % number)
    assert producer.flush(30) == 0


def test_archive_verify_restore(command: Run, cluster: Cluster, place: RemotePath) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    ok(command, "topics", "create", name, "--partitions", "2")
    for count in (20, 40):
        _write(cluster, name, [b"v%d" % n for n in range(20)])
        done = json.loads(ok(command, "archive", name, "--to", place, "--verify", "-o", "json"))
        assert done["records"] == count
    assert name in ok(command, "archive", "list", place)
    for how, copy in (("--append", f"{name}-a"), ("--exact", f"{name}-e")):
        ok(command, "restore", place, how, "--to", copy)
    assert "registered" in ok(command, "archive", "register", place, "--format", "iceberg")
    found = find_archive(place)
    data = found.path / found.files[0].path
    assert isinstance(data, RemotePath)
    whole = data.read_bytes()
    data.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    code, _, err = command("archive", "verify", place)
    assert (code, "the archive is damaged" in err) == (1, True)
    assert [path for path in place.files() if path.name.endswith(".draft")] == []


@pytest.mark.parametrize("format_", ["parquet", "iceberg"])
def test_tables(command: Run, cluster: Cluster, place: RemotePath, format_: str) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    ok(command, "topics", "create", name, "--partitions", "2")
    line = ("table", "follow", name, "--to", place, "--format", format_, "--once")
    for late in (b"", b',"late":1'):
        _write(cluster, name, [b'{"id":%d%s}' % (n, late) for n in range(6)])
        ok(command, *line)
    table, other = table_at(place, format_), table_at(place, format_)
    seen, old = table.load(), other.load()
    assert seen is not None
    assert old is not None
    assert (seen.state.records, list(seen.columns)) == (12, ["id", "late"])
    table.commit(seen, seen.state.after({}, {"bad": 1}), seen.columns, [])
    with pytest.raises(Conflict):
        other.commit(old, old.state.after({}, {"bad": 2}), old.columns, [])
    assert '"after": 1' in ok(command, "table", "compact", place, "-o", "json")
    ok(command, "table", "vacuum", place)
    told = json.loads(ok(command, "table", "status", place, "-o", "json"))
    assert (told["records"], told["files"], told["bad"]) == (12, 1, 1)


def test_audit(command: Run, place: RemotePath) -> None:
    ok(command, "audit", "--no-spark", "--to", place)
    assert b"<html" in (place / "audit.html").read_bytes()


def test_put_if_absent_and_in_the_place_of(place: RemotePath) -> None:
    path = place / "x.json"
    put_if_absent(path, b"1")
    with pytest.raises(Taken):
        put_if_absent(path, b"2")
    assert path.read_text() == "1"
    put_after(path, "3", None)
    assert path.read_text() == "3"
    assert path.stat().st_mtime > 1e9
    assert [each.name for each in place.files()] == ["x.json"]


def test_mistakes(command: Run, hdfs: str) -> None:
    ok(command, "topics", "create", "to-hdfs")
    for place, why in (
        ("hdfs://127.0.0.1:1/x", "onnection refused"),
        ("hdfs://nobody/x", "NameNode"),
        ("hdfs://host:port/x", "no port"),
    ):
        code, out, err = command("archive", "to-hdfs", "--to", place)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert why in err
    code, _, err = command(
        "table", "follow", "to-hdfs", "--to", f"{hdfs}/d", "--format", "delta", "--once"
    )
    assert (code, "not on hdfs" in err) == (2, True)
