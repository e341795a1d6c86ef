"""Over Spark Connect, the same example and jobs: no Java on this side, klamm on the server's.

The server is the one that commands share, found by its address or by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from klamm.cli.__main__ import main
from klamm.model.errors import UsageError
from klamm.pipelines.archive.shelf import find_archive
from klamm.pipelines.session.shared import SharedSpark, served_spark, serving

from .conftest import numbered
from .test_examples import EXAMPLES, ORDERS, ROOT, _is_right

Make = Callable[..., str]
Fill = Callable[..., None]
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


class Guest:
    """The Spark that is there, which is warm: its Java got its token before it was known."""

    def __init__(self, spark: SparkSession) -> None:
        self.sparkContext = spark.sparkContext
        conf = spark.sparkContext._jsc.sc().conf()
        conf.set("spark.connect.authenticate.token", os.environ[TOKEN])

    def stop(self) -> None:
        jvm = self.sparkContext._jvm
        assert jvm is not None
        service = jvm.org.apache.spark.sql.connect.service
        service = getattr(getattr(service, "SparkConnectService$"), "MODULE$")
        service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty())


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}


@pytest.fixture(scope="module")
def shared(spark: SparkSession, state: dict[str, str]) -> Iterator[SharedSpark]:
    """What `klamm spark serve` does."""
    pytest.importorskip("grpc", reason="Spark Connect needs `pip install klamm[connect]`")
    begin: Any = lambda: Guest(spark)  # noqa: E731
    with serving("local[2]", begin, state) as (found, _):
        yield found


@pytest.fixture(scope="module")
def connect(shared: SharedSpark) -> str:
    return f"sc://localhost:{shared.port}/;token={shared.token}"


def _run(*line: str, **environment: str) -> str:
    """What a program prints that must do without Java."""
    ran = _ran(*line, **environment)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def _ran(*line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])
    nowhere = dict.fromkeys(("JAVA_HOME", "SPARK_HOME", "PATH"), "/nowhere")
    hidden = nowhere | {"PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *line],
        env={k: v for k, v in os.environ.items() if k != TOKEN} | hidden | environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_revenue_report_over_spark_connect(
    spark: SparkSession, connect: str, topic: Make, fill: Fill, bootstrap: str, tmp_path: Path
) -> None:
    name, target = topic(2), tmp_path / "x"
    fill(name, ORDERS)
    said = _run(str(EXAMPLES / "revenue_report.py"), bootstrap, name, str(target), connect)
    _is_right(spark, said, target)


def test_archive_over_spark_connect(
    connect: str, topic: Make, fill: Fill, bootstrap: str, tmp_path: Path
) -> None:
    name = topic(2)
    fill(name, numbered(100, 2))
    line = ("-m", "klamm.cli", "archive", name, "--to", str(tmp_path), "--verify", "-b", bootstrap)
    said = _run(*line, KLAMM_SPARK_MASTER=connect)
    assert f"archived 100 records of {name}" in said
    assert "verified" in said
    assert find_archive(tmp_path).records == 100


def test_commands_find_the_shared_spark(
    shared: SharedSpark,
    state: dict[str, str],
    topic: Make,
    fill: Fill,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    """No address, no Java, and more records than a command works on without Spark."""
    name = topic(2)
    fill(name, numbered(20_100, 2))
    line = ("-m", "klamm.cli", "archive", name, "--to", str(tmp_path), "-b", bootstrap)
    assert "archived 20,100 records" in _run(*line, **state)
    away = _ran(*line, XDG_STATE_HOME=str(tmp_path))  # nobody shares one: it wants a Java
    assert (away.returncode, "Spark needs Java" in away.stderr) == (2, True), away.stderr


def test_status_tells_all_but_the_token(
    shared: SharedSpark,
    state: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", state["XDG_STATE_HOME"])
    assert main(["spark", "status", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["port"], told["is_used"]) == (shared.port, True)
    assert "token" not in told
    assert main(["spark", "serve"]) == 2
    assert "a Spark is served already" in capsys.readouterr().err


def test_who_has_no_token_is_refused(shared: SharedSpark) -> None:
    for address in (f"localhost:{shared.port}", f"localhost:{shared.port}/;token=guessed"):
        code = f"from klamm.spark import start; start('sc://{address}').range(3).count()"
        ran = _ran("-c", code)
        assert ran.returncode == 1
        assert "UNAUTHENTICATED" in ran.stderr, ran.stderr[-1000:]


def test_a_file_that_others_can_read_is_not_believed(
    shared: SharedSpark, state: dict[str, str]
) -> None:
    assert served_spark(state) == shared
    place = Path(state["XDG_STATE_HOME"]) / "klamm"
    for path, mode in ((place / "spark.json", 0o644), (place, 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(UsageError, match="is open to other users"):
            served_spark(state)
        path.chmod(before)
