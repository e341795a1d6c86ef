"""Completion in real shells, with names from a real cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm import Cluster
from klamm.cli.__main__ import main

Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("orders", partitions=2, replication_factor=1)
        yield running


@pytest.fixture
def complete(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Complete:
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")

    def ask(*words: str) -> list[str]:
        capsys.readouterr()
        assert main(["__complete", "--", *words]) == 0
        return capsys.readouterr().out.split()

    return ask


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("top",), ["topics"]),
        (("topics", "desc"), ["describe"]),
        (("topics", "describe", "ord"), ["orders"]),
        (("topics", "describe", "orders", "ord"), ["orders"]),
        (("elect", ""), ["preferred", "unclean"]),
        (("elect", "preferred", "o"), ["orders-0", "orders-1"]),
        (("elect", "preferred", "--dry-run", "o"), ["orders-0", "orders-1"]),
        (("brokers", "describe", ""), ["0"]),
        (("groups", "reset", "g", "-t", "ord"), ["orders"]),
        (("consume", "--fo"), ["--follow", "--format"]),
        (("topics", "list", "-o", ""), ["json", "text"]),
        (("no-such", "x", ""), []),
        (("kafka-topics", "--"), []),
    ],
)
def test_what_may_stand_next(complete: Complete, words: tuple[str, ...], found: list[str]) -> None:
    assert complete(*words) == found


def test_a_cluster_that_is_away_has_no_names(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert complete("topics", "describe", "") == []


SHELLS = {
    # Each asks for what the TAB key would, and prints it.
    "bash": "source ./script; COMP_WORDS=(klamm topics describe ord); COMP_CWORD=3; _klamm; "
    'printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": 'words=(klamm topics describe ord); CURRENT=4; compadd() { shift; print -l -- "$@" }; '
    "source ./script; _klamm",
    "fish": "source ./script; complete -C 'klamm topics describe ord'",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_in_a_real_shell(cluster: Cluster, tmp_path: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    environment = {
        **os.environ,
        "KLAMM_BOOTSTRAP_SERVER": cluster.bootstrap_servers,
        "XDG_CONFIG_HOME": str(tmp_path),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    command = tmp_path / "klamm"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m klamm "$@"\n')
    command.chmod(0o700)
    script = subprocess.run(
        [command, "completion", shell], env=environment, capture_output=True, check=True
    )
    (tmp_path / "script").write_bytes(script.stdout)
    said = subprocess.run(
        [program, "-c", SHELLS[shell]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["orders"]
