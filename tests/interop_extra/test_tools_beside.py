"""Drop-ins beside the Java tools of 3.9: the same command line, exit code and lines."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.test_kafka_tools import write
from interop_extra.kafka import java, main_class
from interop_extra.toolbox import RUN_TIMEOUT
from klamm import Cluster
from klamm.cli.__main__ import main

VERSION = "3.9.1"
ZERO = {"topic": "full", "partition": 0}
FILES: dict[str, object] = {
    "good": {"partitions": [{**ZERO, "replicas": [0]}], "version": 1},
    "good-twice": {"partitions": [{**ZERO, "replicas": [0]}] * 2, "version": 1},
    "twice": {"partitions": [{**ZERO, "replicas": [0, 0]}]},
    "away": {"partitions": [{**ZERO, "replicas": [9]}]},
    "both": {"partitions": [{**ZERO, "replicas": [0]}, {**ZERO, "partition": 1, "replicas": [0]}]},
    "no-replicas": {"partitions": [{**ZERO, "replicas": []}]},
    "nowhere": {"partitions": [{"topic": "nope", "partition": 0, "replicas": [0]}]},
    "partition-nine": {"partitions": [{"topic": "full", "partition": 9, "replicas": [0]}]},
    "dirs-short": {"partitions": [{**ZERO, "replicas": [0], "log_dirs": []}]},
    "here": {"partitions": [{**ZERO, "replicas": [0], "log_dirs": ["HERE"]}]},
    "there": {"partitions": [{**ZERO, "replicas": [0], "log_dirs": ["/there"]}]},
    "topics": {"topics": [{"topic": "full"}], "version": 1},
    "topics-twice": {"topics": [{"topic": "full"}] * 2, "version": 1},
    "topics-nope": {"topics": [{"topic": "nope"}], "version": 1},
    "elect": {"partitions": [ZERO]},
    "elect-twice": {"partitions": [ZERO] * 2},
    "empty": {"partitions": []},
    "nothing": {},
    "cut": {"partitions": [{**ZERO, "offset": 2}], "version": 1},
    "cut-twice": {"partitions": [{**ZERO, "offset": 2}] * 2},
    "no-version": {"partitions": [{**ZERO, "offset": 2}]},
    "no-topic": {"partitions": [{"partition": 0, "offset": 2}]},
    "no-offset": {"partitions": [ZERO]},
    "text-offset": {"partitions": [{**ZERO, "offset": "two"}]},
    "beyond": {"partitions": [{**ZERO, "offset": 99}]},
    "below": {"partitions": [{**ZERO, "offset": 1}]},
    "all": {"partitions": [{"topic": "empty", "partition": 0, "offset": -1}]},
    "new": {"version": 2, "partitions": []},
}
TEXTS = {
    "not-json": "{",
    "offsets": '"full",0,3\n',
    "offsets-bad": "what is this\n",
}
LINES = [
    line
    for line in Path(__file__).with_name("tool_lines.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("full", partitions=2, replication_factor=1)
        write(running, "full", *[f"value {at}" for at in range(10)])
        reset = ["--reset-offsets", "--to-offset", "4", "--execute"]
        where = ["--bootstrap-server", running.bootstrap_servers]
        of = ["--group", "shell", "--topic", "full"]
        assert main(["kafka-consumer-groups", *where, *reset, *of]) == 0
        running.create_topic("empty", partitions=1, replication_factor=1)
        of = ["--group", "second", "--topic", "full", "--topic", "empty"]
        assert main(["kafka-consumer-groups", *where, *reset, *of]) == 0
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Path:
    place = tmp_path_factory.mktemp("files")
    texts = TEXTS | {name: json.dumps(content) for name, content in FILES.items()}
    for name, text in texts.items():
        (place / name).write_text(text.replace("HERE", str(cluster.data / "broker-0")))
    return place


@pytest.mark.parametrize("line", LINES)
def test_the_same_line(
    cluster: Cluster, files: Path, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    name, *words = line.replace("FILES", str(files)).split()
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    theirs = subprocess.run(
        java(VERSION, main_class(VERSION, f"kafka-{name}"), *where, *words),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=RUN_TIMEOUT,
    )
    capfd.readouterr()
    with pytest.MonkeyPatch.context() as patch, Path("/dev/null").open() as nothing:
        patch.setattr("sys.stdin", nothing)
        code = main([f"kafka-{name}", *where, *words])
    ours = capfd.readouterr()
    assert (code, said(ours.out)) == (theirs.returncode, said(theirs.stdout)), theirs.stderr


def said(text: str) -> list[str]:
    """What a tool said, without the order, the traces and the exceptions of Java."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    kept = (line for line in lines if line and not re.match(r"at |Caused by: |\.\.\. ", line))
    return sorted(line for line in kept if "Exception" not in line)
