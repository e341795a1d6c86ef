"""A Spark cluster of its own: a master and workers, each a process, as `spark://` has them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from fire.processes import below, kill
from klamm.pipelines.session.java import use_java

_HOME = Path(pyspark.__file__).parent
_PATIENCE_S = 180
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _launch(said: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    mine = {"SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    mine |= {"SPARK_DAEMON_JAVA_OPTS": _LIGHT, "SPARK_DAEMON_MEMORY": "256m"}
    mine |= {"SPARK_WORKER_DIR": str(said.parent / "work")}
    with said.open("wb") as file:
        return subprocess.Popen(
            [_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words],
            env={k: v for k, v in os.environ.items() if k != "SPARK_CONF_DIR"} | mine,
            stdout=file,
            stderr=file,
        )


def _said(path: Path, words: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _PATIENCE_S
    while not (found := re.search(words, path.read_text(errors="replace"))):
        assert process.poll() is None, path.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, f"{path} does not say {words}"
        time.sleep(0.1)
    return found[0]


@contextlib.contextmanager
def standalone(place: Path, workers: int) -> Iterator[str]:
    """The address of a cluster whose workers have one core each."""
    use_java()
    own = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    started = [_launch(place / "master.log", "master.Master", *own)]
    try:
        address = _said(place / "master.log", r"spark://127\.0\.0\.1:\d+", started[0])
        for number in range(workers):
            said = place / f"worker-{number}.log"
            share = ("--cores", "1", "--memory", "1g", *own, address)
            started.append(_launch(said, "worker.Worker", *share))
        for number in range(workers):
            said = place / f"worker-{number}.log"
            _said(said, "Successfully registered", started[number + 1])
        yield address
    finally:
        for process in reversed(started):
            kill(*reversed(below(process.pid)), process.pid)
            process.wait()
