"""The Python that Spark's processes run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from klamm.pipelines.session.session import _python

_SHOW = (
    "import os, sys; print(os.environ['PYTHONPATH']); print(sys.executable); print(sys.argv[1:])"
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KLAMM_PYTHON", "KLAMM_PYSPARK"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_on_this_machine_archives_of_pyspark_are_left_out() -> None:
    script = _python("local[2]")
    lib = f"{os.environ['KLAMM_PYSPARK']}/python/lib"
    path = f"{lib}/pyspark.zip:{lib}/py4j-1-src.zip:/a b:/c/*:/other/python/lib/x.zip"
    ran = subprocess.run(
        [script, "-c", _SHOW, "d e", "*"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        "/a b:/c/*:/other/python/lib/x.zip",
        sys.executable,
        "['d e', '*']",
    ]


def test_elsewhere_and_with_another_spark_it_is_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _python("spark://host:7077") == sys.executable
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert _python("local[2]") == sys.executable
