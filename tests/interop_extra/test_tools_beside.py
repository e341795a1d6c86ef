"""Drop-ins beside the Java tools of 3.9: the same command line, exit code and lines."""

from __future__ import annotations

import json
import re
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.test_kafka_tools import write
from interop_extra.kafka import java, main_class
from interop_extra.toolbox import HERE, RUN_TIMEOUT
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


# Lines that are told in other words, and why; docs/reference/compatibility.md has them, too.
_TABLE = "each partition has a line of its own"
_TERSE = "Java's tool prints the exception"
_SPACE = "Java's tool forgets the end of a line"
OTHERWISE = {
    "consumer-groups --delete-offsets --group shell --topic empty": _TABLE,
    "consumer-groups --delete-offsets --group nope --topic full": _TABLE,
    "consumer-groups --delete-offsets --group shell --topic nope": _TABLE,
    "consumer-groups --delete-offsets --group shell --topic full:9": _TABLE,
    "consumer-groups --reset-offsets --group shell --topic full --to-latest --dry-run": _TABLE,
    "consumer-groups --reset-offsets --group shell --topic full --to-earliest --dry-run": _TABLE,
    "consumer-groups --reset-offsets --group second --topic full:0 --to-offset 3 --execute": _TABLE,
    "consumer-groups --reset-offsets --group shell --topic full --to-datetime yesterday --dry-run "
    "--export": _TERSE,
    "consumer-groups --reset-offsets --group shell --topic full --by-duration soon --dry-run "
    "--export": "the text that is no duration is named",
    "consumer-groups --reset-offsets --group shell --topic full:9 --to-earliest --dry-run "
    "--export": "Java's tool asks for five seconds",
    "consumer-groups --reset-offsets --group shell --from-file FILES/offsets-bad --dry-run "
    "--export": _TERSE,
    "consumer-groups --reset-offsets --group shell --from-file FILES/absent --dry-run "
    "--export": _TERSE,
    "console-producer --topic full --property nonsense": "no setting is ignored",
    "reassign-partitions --generate --topics-to-move-json-file FILES/topics-nope "
    "--broker-list 0": _TERSE,
    "reassign-partitions --execute --reassignment-json-file FILES/not-json": _TERSE,
    "reassign-partitions --execute --reassignment-json-file FILES/nowhere": _TERSE,
    "reassign-partitions --execute --reassignment-json-file FILES/partition-nine": _TERSE,
    "reassign-partitions --cancel --reassignment-json-file FILES/good": _SPACE,
}


class Said(NamedTuple):
    """How a tool ended, and what it printed."""

    code: int
    out: str
    err: str


class Kafka:
    """Kafka's own tools, all in one JVM: starting one for each line would take most of the time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java(VERSION, str(HERE / "java" / "Tools.java")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name: str, *words: str) -> Said:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join([main_class(VERSION, name), *words]) + "\n")
        self._process.stdin.flush()
        code, *texts = self._process.stdout.readline().split()
        out, err = (b64decode(text).decode() if text != "-" else "" for text in texts)
        return Said(int(code), out, err)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(RUN_TIMEOUT)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    running = Kafka()
    yield running
    running.close()


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
    cluster: Cluster, kafka: Kafka, files: Path, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    name, *words = line.replace("FILES", str(files)).split()
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    theirs = kafka.run(f"kafka-{name}", *where, *words)
    capfd.readouterr()
    with pytest.MonkeyPatch.context() as patch, Path("/dev/null").open() as nothing:
        patch.setattr("sys.stdin", nothing)
        code = main([f"kafka-{name}", *where, *words])
    ours = capfd.readouterr()
    is_same = (code, said(ours.out)) == (theirs.code, said(theirs.out))
    assert is_same == (line not in OTHERWISE), (code, ours, theirs)


def said(text: str) -> list[str]:
    """What a tool said, without the order, the traces and the exceptions of Java."""
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    kept = (line for line in lines if line and not re.match(r"at |Caused by: |\.\.\. ", line))
    return sorted(in_order(line) for line in kept if "Exception" not in line)


def in_order(line: str) -> str:
    """JSON of log directories, in which Java gives partitions in the order of a hash map."""
    if not line.startswith('{"brokers"'):
        return line
    found = json.loads(line)
    for broker in found["brokers"]:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda log: log["partition"])
    return json.dumps(found)
