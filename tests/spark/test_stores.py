"""Archive, restore, table and audit on a store that speaks S3: moto's server, over a real socket.

Two runs at once and a lost answer are a store's own business; what klamm does is to ask for it:
every commit is a conditional PUT, which this server refuses like Amazon's.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from klamm.client.blocking.lookup import Lookup
from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive.shelf import find_archive, publish
from klamm.pipelines.places.place import (
    Taken,
    check_writable,
    put_after,
    put_if_absent,
    version_of,
)
from klamm.pipelines.places.remote import RemotePath, StoreFault, file_system, place_of
from klamm.pipelines.tables.following import TableFollower
from klamm.pipelines.tables.formats.opening import existing, table_at
from klamm.pipelines.tables.state import Conflict

from .conftest import numbered

Make = Callable[..., str]
Fill = Callable[..., None]
Run = Callable[..., tuple[int, str, str]]
SECRET = "very-secret-key"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")):
                break
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
    yield url
    process.kill()
    process.wait()


@pytest.fixture
def place(server: str, monkeypatch: pytest.MonkeyPatch) -> RemotePath:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "klamm-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("KLAMM_KERNELS", "numpy")
    monkeypatch.setattr("klamm.cli.spark.jobs._running", lambda: None)  # small: without Spark
    return RemotePath(f"s3://bucket/{uuid.uuid4().hex}")


def ok(command: Run, *line: object) -> str:
    code, out, err = command(*map(str, line))
    assert (code, SECRET in out + err) == (0, False), err
    return out


def test_archive_verify_restore(
    command: Run, topic: Make, fill: Fill, lookup: Lookup, place: RemotePath
) -> None:
    name = topic(2)
    fill(name, numbered(40, 2))
    for count in (40, 44):
        done = json.loads(ok(command, "archive", name, "--to", place, "--verify", "-o", "json"))
        assert done["records"] == count
        fill(name, numbered(4, 2))
    assert name in ok(command, "archive", "list", place)
    assert "removed 0 files" in ok(command, "archive", "vacuum", place)  # they are not old
    for format_ in ("delta", "iceberg"):
        done = ok(command, "archive", "register", place, "--format", format_, "-o", "json")
        assert json.loads(done)["added"] == 2
    for how, copy in (("--append", f"{name}-a"), ("--exact", f"{name}-e")):
        ok(command, "restore", place, how, "--to", copy)
        ends = lookup.latest(lookup.view([copy]).topics[copy].partitions)
        assert sum(ends.values()) == 44
    text = "".join(path.read_bytes().decode("latin1") for path in place.files())
    assert SECRET not in text
    found = find_archive(place)
    data = place / found.path.relative_to(place) / found.files[0].path  # type: ignore[arg-type]
    whole = data.read_bytes()
    data.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    code, _, err = command("archive", "verify", str(place))
    assert (code, "the archive is damaged" in err) == (1, True)


def test_manifest_of_another_run_is_not_overwritten(
    command: Run, topic: Make, fill: Fill, place: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(1)
    fill(name, numbered(4, 1))
    ok(command, "archive", name, "--to", place)
    manifest = find_archive(place)
    path = manifest.path / "manifest.json"
    assert isinstance(path, RemotePath)
    before = version_of(path)
    monkeypatch.setattr("klamm.pipelines.archive.shelf.version_of", lambda _: before)
    publish(manifest)  # the same mark: it may
    path.write_text(path.read_text() + " ")
    with pytest.raises(KlammError, match="another run"):
        publish(manifest)


@pytest.mark.parametrize("format_", ["parquet", "delta", "iceberg"])
def test_tables(command: Run, topic: Make, fill: Fill, place: RemotePath, format_: str) -> None:
    name = topic(2)
    fill(name, [(n % 2, None, b'{"id":%d}' % n) for n in range(6)])
    line = ("table", "follow", name, "--to", place, "--format", format_, "--once")
    ok(command, *line)
    fill(name, [(0, None, b'{"id":6,"late":1}')])
    ok(command, *line)
    table, other = table_at(place, format_), table_at(place, format_)
    seen, old = table.load(), other.load()
    assert seen is not None
    assert old is not None
    assert (seen.state.records, list(seen.columns)) == (7, ["id", "late"])
    table.commit(seen, seen.state.after({1: 3}, {}), seen.columns, [])
    with pytest.raises(Conflict):
        other.commit(old, old.state.after({1: 3}, {}), old.columns, [])
    assert '"after": 1' in ok(command, "table", "compact", place, "-o", "json")
    ok(command, "table", "vacuum", place)
    told = json.loads(ok(command, "table", "status", place, "-o", "json"))
    assert (told["records"], told["files"], told["lag"]) == (7, 1, {"0": 0, "1": 0})
    ok(command, *line)
    assert existing(place)[1].state.records == 7


def test_table_waits_for_a_store_that_is_away(
    command: Run, topic: Make, fill: Fill, place: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops between a commit and the places of its files; the files are found all the same."""
    name = topic(1)
    fill(name, [(0, None, b'{"id":%d}' % n) for n in range(3)])
    line = ("table", "follow", name, "--to", place, "--every", "0.1")
    ok(command, *line, "--once")
    fill(name, [(0, None, b'{"id":%d}' % n) for n in range(3, 6)])
    rename, begun, away = RemotePath.rename, TableFollower.begin, [2]

    def fails(path: RemotePath, target: RemotePath) -> RemotePath:
        if away[0] and path.exists():
            away[0] -= 1
            raise StoreFault("away")
        return rename(path, target)

    def begins(follower: TableFollower) -> object:
        seen = begun(follower)
        if not away[0]:
            fill(name, [(0, None, b'{"id":6}')])
        return seen

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RemotePath, "rename", fails)
        patch.setattr(TableFollower, "begin", begins)
        patch.setattr("klamm.cli.spark.table._tell", ends)
        code, _, err = command(*map(str, line))
    assert (code, err.count("away; trying again")) == (130, 2), err
    ok(command, "table", "vacuum", place)
    listed = [path for path in place.files() if "_klamm" not in str(path)]
    rows = [row for path in listed for row in pq.read_table(path.native()).to_pylist()]
    assert sorted(row["id"] for row in rows) == list(range(7))


def test_audit(command: Run, topic: Make, place: RemotePath) -> None:
    topic(1)
    told = json.loads(ok(command, "audit", "--no-spark", "--to", place, "-o", "json"))
    assert told["report"] == f"{place}/audit.html"
    assert b"<html" in (place / "audit.html").read_bytes()


def test_put_if_absent_and_put_after(place: RemotePath) -> None:
    path = place / "x.json"
    put_if_absent(path, b"1")
    with pytest.raises(Taken):
        put_if_absent(path, b"2")
    mark = version_of(path)
    put_after(path, "3", mark)
    with pytest.raises(Taken):
        put_after(path, "4", mark)
    assert path.read_text() == "3"


def test_stores_that_refuse_or_are_not_there(
    place: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="cannot write to s3://nobody/x") as told:
        check_writable(RemotePath("s3://nobody/x"))
    assert SECRET not in str(told.value)
    with pytest.raises(UsageError, match="is not a place that klamm knows"):
        place_of("gopher://host/path")
    with pytest.raises(UsageError, match="environment"):
        place_of("s3://bucket/x?endpoint_override=evil")
    assert isinstance(place_of(Path("s3:/bucket/x")), RemotePath)
    for nothing in ("s3://", Path("s3://"), "s3:"):
        with pytest.raises(UsageError, match=r"s3.* is no"):
            place_of(nothing)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    file_system.cache_clear()
    with pytest.raises(KlammError, match=r"^s3://bucket/.* cannot be read: .*127.0.0.1"):
        existing(place)
    file_system.cache_clear()
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UsageError, match="needs obstore"):
        check_writable(place)


def test_environment_is_the_only_place_of_secrets() -> None:
    for text in ("s3://key:geheim@bucket/x", "s3://geheim@bucket/x"):
        with pytest.raises(UsageError) as told:
            place_of(text)
        assert "geheim" not in str(told.value)
    assert "geheim" not in os.environ.get("AWS_SECRET_ACCESS_KEY", "")
