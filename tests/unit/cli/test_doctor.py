"""Each check of `klamm doctor` sees the trouble it is for."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from klamm.cli import doctor
from klamm.cli.__main__ import main
from klamm.cli.doctor import Level, _disk, _parse_requirement, _ports


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
    assert spark.advice == "pip install 'klamm[spark]'"


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
