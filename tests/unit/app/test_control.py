"""Whoever operates a cluster is told when nobody answers."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from klamm.app import control
from klamm.app.control import ControlServer
from klamm.model.errors import KlammError, UsageError


async def test_a_cluster_whose_process_is_stopped_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_HEARD_WITHIN_S", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(tmp_path / control.SOCKET_NAME))
        door.listen()  # and accepts nobody, as a process that was stopped
        with pytest.raises(KlammError, match="does not answer: it may be stopped"):
            await control.ask(tmp_path, "status")


async def test_a_directory_without_a_cluster_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"no cluster runs on {tmp_path}"):
        await control.ask(tmp_path, "status")


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["running", "killed"], r"after 5 s \(broker 1 is killed\): bring it back with `klamm"),
        (["running", "running"], "after 5 s: wait for longer with --timeout"),
    ],
)
async def test_who_waits_for_full_in_sync_sets_is_told_who_is_missing(
    states: list[str], said: str
) -> None:
    cluster: Any = mock.create_autospec(control.Operated, instance=True)
    cluster.ids = range(len(states))
    cluster.state.side_effect = states.__getitem__
    cluster.wait_until.side_effect = TimeoutError("a predicate did not hold")
    with pytest.raises(TimeoutError, match=f"not all replicas are in sync {said}"):
        await ControlServer(cluster)._serve("in-sync", {"timeout_s": 5})
