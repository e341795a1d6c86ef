"""`klamm store ls|get|tree|stat|watch` on a file, and on a store that is served."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.__main__ import main
from klamm.cli.options import Output
from klamm.cli.store.place import NamedStore
from klamm.cli.store.watching import _Watcher
from klamm.datadir import STORE_NAME, DataDirectory
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, Delete, SetData
from unit.store.contract import WAIT_S
from unit.store.serving.served import served

pytest.importorskip("klamm.store.zookeeper", exc_type=Exception)

TOPIC = b'{"version":3,"topic_id":"x","partitions":{"0":[1]},"new":1}'
NASTY = b"\x1b[2Jcleared\nforged line"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a stopped cluster."""

    async def fill() -> None:
        store = EmbeddedStore.open(tmp_path / STORE_NAME, fsync=False)
        session = await store.connect()
        await session.multis([Create(path)] for path in layout.with_parents(layout.ROOTS))
        await session.multi([Create("/brokers/topics/t", TOPIC), Create("/nasty", NASTY)])
        await session.multi([Create("/raw", b"\xff\x00"), Create("/config/users/u", b'{"a":1}')])
        await store.close()

    asyncio.run(fill())
    return tmp_path


@pytest.fixture
def run(data: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    def command(*args: str, code: int = 0) -> str:
        assert main(["store", *args, "--data", str(data)]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return command


def test_names_and_kinds_are_listed(run: Any) -> None:
    lines = run("ls", "/brokers").splitlines()
    assert lines[0].split() == ["NAME", "KIND", "VERSION", "CHILDREN", "BYTES"]
    assert [line.split()[0] for line in lines[1:]] == ["ids", "seqid", "topics"]
    (topic,) = json.loads(run("ls", "/brokers/topics", "-o", "json"))
    assert topic == {
        "name": "t",
        "kind": "topic",
        "version": 0,
        "children": 0,
        "bytes": len(TOPIC),
        "ephemeral": False,
    }


def test_a_node_is_printed_and_its_fields_explained(run: Any) -> None:
    said = run("get", "/brokers/topics/t")
    assert "topic: its id, and which brokers hold each partition" in said
    assert '  "topic_id": "x"' in said
    assert "the brokers of each partition, the preferred leader first" in said
    assert "adding_replicas" not in said, "a field that is not there needs no explanation"
    told = json.loads(run("get", "/brokers/topics/t", "-o", "json"))
    assert told["data"] == json.loads(TOPIC)
    assert told["kind"] == "topic"
    assert told["stat"]["version"] == 0


def test_what_could_steer_a_terminal_is_escaped(run: Any) -> None:
    for args in (("get", "/nasty"), ("tree", "/nasty"), ("get", "/nasty", "-o", "json")):
        said = run(*args)
        assert "\x1b" not in said
        assert not any(line.startswith("forged") for line in said.splitlines()), said
    assert "ff00" in run("get", "/raw")


def test_credentials_are_shown_on_request_only(run: Any) -> None:
    assert "[hidden]" in run("get", "/config/users/u")
    assert '"a": 1' in run("get", "/config/users/u", "--secrets")
    assert "[hidden]" in run("tree", "/config/users")


def test_a_tree_goes_as_deep_as_is_asked_for(run: Any) -> None:
    whole = json.loads(run("tree", "/", "-o", "json"))
    assert "/brokers/topics/t" in whole
    assert list(whole) == sorted(whole, key=lambda path: path.split("/"))
    shallow = json.loads(run("tree", "/", "--depth", "1", "-o", "json"))
    assert "/brokers" in shallow
    assert not any(path.count("/") > 1 for path in shallow)
    assert run("tree", "/brokers").splitlines()[:2] == ["/brokers", "  ids"]


def test_versions_times_and_grants_are_told(run: Any) -> None:
    said = run("stat", "/brokers/topics/t")
    assert "how often its data was set" in said
    assert "world:anyone" in said
    told = json.loads(run("stat", "/brokers/topics/t", "-o", "json"))
    assert told["acl"] == [
        {"who": "world:anyone", "may": ["read", "write", "create", "delete", "admin"]}
    ]
    assert told["stat"]["data_length"] == len(TOPIC)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("get", "/none"), "there is no node /none"),
        (("ls", "/none"), "there is no node /none"),
        (("tree", "/none"), "there is no node /none"),
        (("get", "none"), "is no path of a node"),
        (("get", "/a/../b"), "is no path of a node"),
        (("ls", "/", "--zookeeper", "h:1"), "name two stores"),
        (("watch", "/"), "nothing will change there"),
    ],
)
def test_what_cannot_be_is_one_sentence(run: Any, args: tuple[str, ...], said: str) -> None:
    assert said in run(*args, code=2)


def test_looking_changes_nothing(run: Any, data: Path) -> None:
    before = {path.name: path.read_bytes() for path in data.iterdir() if path.name.startswith("st")}
    run("tree", "/")
    after = {path.name: path.read_bytes() for path in data.iterdir() if path.name.startswith("st")}
    assert after == before


def test_a_running_store_that_is_not_served_is_read_from_its_file(
    run: Any, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DataDirectory.claim(data):
        assert main(["store", "ls", "/brokers", "--data", str(data)]) == 0
        said = capsys.readouterr()
        assert "seqid" in said.out
        assert "does not serve its store" in said.err
        assert "stop them, and export then" in run("export", str(data / "x"), code=2)


def test_a_running_store_that_is_served_is_asked(data: Path) -> None:
    """With all that is in memory alone, such as nodes that go with a session."""

    async def scenario() -> str:
        async with served(data / STORE_NAME) as (store, server):
            session = await store.connect()
            await session.multi([Create("/controller", b"{}", ephemeral=True)])
            with DataDirectory.claim(data) as directory:
                directory.tell_address(server.address)
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "klamm.cli", "store", "tree", "--data", str(data)),
                    stdout=asyncio.subprocess.PIPE,
                )
                out, _ = await process.communicate()
                assert process.returncode == 0
                return out.decode()

    assert "controller (ephemeral)  {}" in asyncio.run(scenario())


async def test_changes_are_told_as_they_happen(capsys: pytest.CaptureFixture[str]) -> None:
    async with served() as (store, server):
        session = await store.connect()
        await session.multi([Create("/a", b"0"), Create("/a/b"), Create("/other")])
        watcher = _Watcher("/a", secrets=False, output=Output.JSON)
        watching = asyncio.ensure_future(watcher.run(NamedStore.of(None, server.address, None)))
        try:
            said = capsys.readouterr
            await _until(lambda: "watching 2 nodes" in said().err)
            await session.multi([SetData("/a", b"1"), Create("/a/c", b"x"), SetData("/other", b"")])
            await session.multi([Delete("/a/b")])
            lines: list[str] = []
            await _until(lambda: len(lines.extend(said().out.splitlines()) or lines) >= 3)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        told = [json.loads(line) for line in lines]
        assert sorted((t["what"], t["path"], t["version"], t["data"]) for t in told) == [
            ("changed", "/a", 1, "1"),
            ("created", "/a/c", 0, "x"),
            ("deleted", "/a/b", None, None),
        ]


async def test_changes_of_a_file_are_told_too(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DataDirectory.claim(data) as directory:
        store = EmbeddedStore.open(directory.store, fsync=False)
        session = await store.connect()
        watcher = _Watcher("/", secrets=False, output=Output.TEXT)
        watching = asyncio.ensure_future(watcher.run(NamedStore.of(data, None, None)))
        try:
            await _until(lambda: "watching" in capsys.readouterr().err)
            await session.multi([Create("/new", b"x")])
            lines: list[str] = []
            await _until(
                lambda: len(lines.extend(capsys.readouterr().out.splitlines()) or lines) > 0
            )
            assert lines[0].endswith("created  /new  version 0  x")
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await store.close()


async def _until(holds: Any) -> None:
    """Look again until it holds: of what is printed nobody is told."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
