"""A ZooKeeper of our own: what it needs, what it refuses, and that it outlives nobody."""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from klamm import ensemble
from klamm.ensemble import Ensemble
from klamm.installing import install_command
from klamm.model.errors import UsageError
from klamm.pipelines.session import java

needs_zookeeper = pytest.mark.skipif(ensemble.why_not() is not None, reason=str(ensemble.why_not()))


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(java, "_packaged_java", lambda: None)
    said = ensemble.why_not()
    assert said is not None
    assert "install Java 17" in said
    assert "leave --zookeeper out" in said


@needs_zookeeper
def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else found(name)
    )
    assert f"{install_command('spark')}" in str(ensemble.why_not())


@pytest.mark.parametrize("nodes", [0, 2, 4, 9, -1])
def test_a_number_of_nodes_that_adds_no_safety_is_refused(tmp_path: Path, nodes: int) -> None:
    with pytest.raises(UsageError, match=rf"1, 3, 5 or 7 nodes, not {nodes}"):
        Ensemble(tmp_path, nodes=nodes)


@needs_zookeeper
def test_another_number_of_nodes_than_before_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("3")
    with pytest.raises(UsageError, match="start it with --zookeeper-nodes 3"):
        Ensemble(tmp_path).launch()


@needs_zookeeper
def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}.*--zookeeper-port"):
            Ensemble(tmp_path, port=port).launch()


@needs_zookeeper
@pytest.mark.zookeeper
def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    wrong = Ensemble(tmp_path, config={"tickTime": "soon"})
    with pytest.raises(UsageError, match=r"(?s)did not start: .*soon"):
        wrong.start()
    assert [server.pid for server in wrong.servers] == [None]


PARENT = """
import sys
from pathlib import Path
from klamm.ensemble import Ensemble
own = Ensemble(Path(sys.argv[1]))
own.start()
print(own.servers[0].pid, flush=True)
sys.stdin.read()
"""


@needs_zookeeper
@pytest.mark.zookeeper
def test_it_ends_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "own")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            assert parent.stdout is not None
            server = os.pidfd_open(int(parent.stdout.readline()))
        finally:
            parent.kill()
    try:
        ended, _, _ = select.select([server], [], [], 30)
        assert ended, "the ZooKeeper outlived its parent"
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(server, signal.SIGKILL)
        os.close(server)
    open_to_others = [path for path in (tmp_path / "own").rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == []
