"""A command that is printed works where it is read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from klamm.cli.invocation import this_command


def test_the_command_that_runs_this_klamm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = tmp_path / ".venv" / "bin" / "klamm"
    command.parent.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(command.with_name("python")))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    assert this_command() == f"{sys.executable} -m klamm"
    command.write_text("")
    command.chmod(0o700)
    assert this_command() == ".venv/bin/klamm"
    monkeypatch.chdir(command.parent)
    assert this_command() == str(command)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert this_command() == str(command)
    monkeypatch.setenv("PATH", str(command.parent))
    assert this_command() == "klamm"
