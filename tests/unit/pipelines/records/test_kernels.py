"""Which loops a process gets, and that it gets some wherever klamm lies."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import klamm

pytest.importorskip("numba")

SOURCE = Path(klamm.__file__).parents[1]
KEEPING = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
GATHER = """
import numpy as np
from klamm.pipelines.records.kernels import kernels
print(kernels().NAME, kernels.__wrapped__.__code__.co_filename)
print(bytes(kernels().gather(np.arange(9, dtype=np.uint8), np.array([0, 5]), np.array([2, 3]))[1]))
"""


@pytest.fixture
def zipped(tmp_path: Path) -> Path:
    """klamm as it travels to an executor."""
    path = tmp_path / "klamm.zip"
    with zipfile.ZipFile(path, "w") as file:
        for module in SOURCE.glob("klamm/**/*.py"):
            file.write(module, module.relative_to(SOURCE))
    return path


@pytest.mark.parametrize("is_zip", [True, False])
def test_compiled_loops_run_where_nothing_can_be_kept(zipped: Path, is_zip: bool) -> None:
    """Without a home, and in a zip, or among files that numba is told to keep nothing of."""
    place = zipped if is_zip else SOURCE
    no_home = {"HOME": "/proc", "PYTHONPATH": str(place)}
    if not is_zip:
        no_home["NUMBA_CACHE_LOCATOR_CLASSES"] = "ZipCacheLocator"
    ran = subprocess.run(
        [sys.executable, "-c", GATHER],
        env={k: v for k, v in os.environ.items() if k not in KEEPING} | no_home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (
        ran.stdout
        == f"numba {place}/klamm/pipelines/records/kernels.py\n{bytes([0, 1, 5, 6, 7])!r}\n"
    )
