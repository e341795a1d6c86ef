"""T18: a package of somebody else may keep Spark from finding any source by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .conftest import BRIEF_QUERIES

Make = Callable[..., str]
ROOT = Path(__file__).parents[2]

# What somebody types who has a broken package, and does not know it.
SESSION = """
print("columns", len(topic({name!r}).columns))
other = spark.newSession()
def found():
    try:
        other.read.format("klamm").options(**where).load()
    except Exception as fault:
        return "not found" if "DATA_SOURCE_NOT_FOUND" in str(fault) else fault
    return "found"

where = {{"kafka.bootstrap.servers": bootstrap, "subscribe": {name!r}}}
print("alone", found())
from klamm.spark import read_stream
stream = read_stream(other, bootstrap, {name!r}, checkpoint={place!r})
print("stream", stream.isStreaming, found())
"""


def test_shell_beside_a_broken_package(bootstrap: str, topic: Make, tmp_path: Path) -> None:
    """`klamm spark shell` and `read_stream` register the source; Ctrl-C ends a line, no shell."""
    name = topic(1)
    (tmp_path / "pyspark_broken.py").write_text("raise RuntimeError('broken')\n")
    (tmp_path / "spark-defaults.conf").write_text(
        "".join(f"{key} {value}\n" for key, value in BRIEF_QUERIES.items())
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    shell = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "klamm.cli",
            "spark",
            "shell",
            "-b",
            bootstrap,
            "--master",
            "local[1]",
        ],
        env=os.environ
        | {"PYTHONPATH": path, "SPARK_CONF_DIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdin
    assert shell.stdout
    try:
        assert "are ready" in shell.stdout.readline()
        shell.stdin.write("print('here')\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "here\n"
        os.killpg(shell.pid, signal.SIGINT)
        out, err = shell.communicate(SESSION.format(name=name, place=str(tmp_path)), timeout=200)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    assert out.splitlines() == [
        "columns 7",
        "alone not found",
        "stream True found",
    ]
    assert "KeyboardInterrupt" in err
    assert shell.returncode == 0
