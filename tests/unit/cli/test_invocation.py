"""A command that is printed works where it is read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from klamm.cli.__main__ import main
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


@pytest.mark.parametrize(("is_on_path", "is_person", "lines"), [(0, 1, 2), (1, 1, 1), (0, 0, 1)])
def test_a_hint_can_be_typed_where_it_is_read(
    is_on_path: bool,
    is_person: bool,
    lines: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = str(Path(sys.executable).parent) if is_on_path else "/usr/bin"
    monkeypatch.setenv("PATH", place)
    monkeypatch.setattr("klamm.cli.output.Hints.were_given", False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_person)
    assert main(["status", "-b", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert "`klamm up` starts a cluster" in said[0]
    assert len(said) == lines
    if lines == 2:
        assert said[1].startswith("(klamm is not on the path of this shell: type ")
        assert said[1].endswith("/klamm)")
