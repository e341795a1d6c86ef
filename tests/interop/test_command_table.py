"""Every command on one cluster: JSON that can be read, and the same end where there is no cluster.

The table has a line for each command there is; one that is forgotten fails the test. What is not
there is in `test_not_there.py`, examples in the help in `tests/unit/cli/test_every_command.py`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm import Cluster
from klamm.cli.__main__ import main
from unit.cli.test_every_command import EVERY, WITHOUT_JSON

pytestmark = pytest.mark.interop

# In this order, for some make what others need. `{dir}` is a directory of the test's own.
TABLE = {
    "version": "version",
    "doctor": "doctor",
    "topics create": "topics create orders -p 2 -r 1",
    "topics list": "topics list",
    "topics describe": "topics describe orders",
    "topics alter": "topics alter orders --partitions 3",
    "topics explain": "topics explain orders",
    "topics freeze": "topics freeze orders",
    "topics unfreeze": "topics unfreeze orders",
    "produce": "produce orders",
    "consume": "consume orders -n 1",
    "story": "story orders",
    "configs set": "configs set -t orders retention.ms=5000000",
    "configs get": "configs get -t orders",
    "configs unset": "configs unset -t orders retention.ms",
    "status": "status",
    "brokers list": "brokers list",
    "brokers describe": "brokers describe 0",
    "brokers dirs": "brokers dirs",
    "brokers drain": "brokers drain 0 --dry-run",
    "elect": "elect preferred --all",
    "reassign plan": "reassign plan orders --brokers 0,1",
    "reassign apply": "reassign apply {dir}/plan.json",
    "reassign status": "reassign status",
    "reassign unthrottle": "reassign unthrottle",
    "reassign cancel": "reassign cancel --all",
    "groups list": "groups list",
    "groups describe": "groups describe billing",
    "groups reset": "groups reset billing -t orders --to-earliest",
    "groups delete": "groups delete billing",
    "users add": "users add ada --generate",
    "users list": "users list",
    "users password": "users password ada --generate",
    "users remove": "users remove ada",
    "topics delete": "topics delete orders --wait",
    "profile create": "profile create here -b {servers}",
    "profile list": "profile list",
    "profile show": "profile show here",
    "profile use": "profile use here",
    "profile remove": "profile remove here",
    "data show": "data show --data {data}",
    "store ls": "store ls / --data {data}",
    "store get": "store get /controller_epoch --data {data}",
    "store tree": "store tree /brokers --data {data}",
    "store stat": "store stat /brokers --data {data}",
    "store backups": "store backups --data {data}",
    "spark stop": "spark stop",
}
# Commands whose JSON is looked at elsewhere, where what they need is.
ELSEWHERE = {
    "topics copy": "tests/spark", "archive": "tests/spark", "archive list": "tests/spark",
    "archive show": "tests/spark", "archive verify": "tests/spark", "archive vacuum": "tests/spark",
    "restore": "tests/spark", "audit": "tests/spark", "demo": "tests/spark",
    "spark doctor": "tests/spark", "spark status": "tests/spark",
    "repartition": "tests/spark", "repartition undo": "tests/spark",
    "archive register": "tests/spark", "table follow": "tests/spark", "table status": "tests/spark",
    "table files": "tests/spark", "table compact": "tests/spark", "table vacuum": "tests/spark",
    "topics cancel-delete": "test_operating.py", "brokers move-logs": "test_log_dirs.py",
    "acls add": "test_acls.py", "acls list": "test_acls.py", "acls remove": "test_acls.py",
    "acls check": "test_acls.py",
    "cluster status": "test_processes.py", "cluster stop": "test_processes.py",
    "cluster kill": "test_processes.py", "cluster start": "test_processes.py",
    "cluster pause": "test_processes.py", "cluster resume": "test_processes.py",
    "cluster restart": "test_processes.py", "cluster rolling-restart": "test_processes.py",
    "cluster down": "test_processes.py",
    "store watch": "test_served_store.py", "store export": "test_moved_store.py",
    "store import": "test_moved_store.py", "store protect": "test_moved_store.py",
    "store restore": "test_lost_store.py", "store repair": "test_lost_store.py",
    "data reset": "tests/unit/cli/person",
}  # fmt: skip
# Enough words for commands that are asked of a cluster and are not above.
WORDS = {
    "topics copy": "topics copy orders other",
    "topics cancel-delete": "topics cancel-delete orders",
    "brokers move-logs": "brokers move-logs 0 /somewhere orders-0",
    "acls add": "acls add ada read topic:orders",
    "acls list": "acls list",
    "acls remove": "acls remove ada read topic:orders",
    "acls check": "acls check ada read topic:orders",
    "archive": "archive orders --to {dir}/archive",
    "audit": "audit --to {dir}/audit",
}


_NOT_AT_ONCE = (
    "profile create", "spark shell", "restore", "console", "repartition", "repartition undo",
    "table follow", "table status",
)  # fmt: skip


class Input:
    """Standard input that has one line, once."""

    def __init__(self, text: bytes) -> None:
        self.buffer = io.BytesIO(text)

    @staticmethod
    def isatty() -> bool:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp("data")
    with Cluster(2, data=data, settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def test_no_command_is_forgotten() -> None:
    assert TABLE.keys() & ELSEWHERE.keys() == set()
    assert TABLE.keys() | ELSEWHERE.keys() == EVERY.keys() - WITHOUT_JSON
    assert set(asked_of_a_cluster()) <= TABLE.keys() | WORDS.keys()


def asked_of_a_cluster() -> Iterator[str]:
    """Commands that take an address and use it."""
    for name, command in EVERY.items():
        takes = any("--bootstrap-server" in param.flags for param in command.params)
        # Some need more than a cluster before they ask it, or serve without one.
        if takes and name not in _NOT_AT_ONCE:
            yield name


def committed(cluster: Cluster) -> None:
    line = "kafka-console-consumer --topic orders --group billing --from-beginning --max-messages 1"
    assert main([*line.split(), "--bootstrap-server", cluster.bootstrap_servers]) == 0


def test_json_can_be_read(
    cluster: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", Input(b"a coat\n"))
    for name, line in TABLE.items():
        if name == "groups list":
            committed(cluster)
        words = line.format(dir=tmp_path, servers=cluster.bootstrap_servers, data=cluster.data)
        capsys.readouterr()
        code = main([*words.split(), "-o", "json"])
        said = capsys.readouterr()
        assert (name, code) == (name, 0), said.err
        # Of a store that is in use, some is not in its file; that is said beside the JSON.
        assert said.err == "" or name.startswith("store ")
        # A record a line, where a program may want to read before the end.
        found = [json.loads(text) for text in said.out.splitlines()] if name == "consume" else None
        found = found or json.loads(said.out)
        if name == "reassign plan":
            (tmp_path / "plan.json").write_text(json.dumps(found))


@pytest.mark.parametrize("name", list(asked_of_a_cluster()))
def test_no_cluster(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "plan.json").write_text('{"version": 1, "partitions": []}')
    monkeypatch.setattr(sys, "stdin", Input(b"a coat\n"))
    words = (TABLE | WORDS)[name].format(dir=tmp_path)
    code = main([*words.split(), "-b", "127.0.0.1:1"])
    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    assert said.err.startswith("klamm: no broker can be reached: 127.0.0.1:1: connection refused")
