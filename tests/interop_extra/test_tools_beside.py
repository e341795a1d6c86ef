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
FILES: dict[str, object] = {
    "good": {"partitions": [{"topic": "full", "partition": 0, "replicas": [0]}], "version": 1},
    "twice": {"partitions": [{"topic": "full", "partition": 0, "replicas": [0, 0]}]},
    "away": {"partitions": [{"topic": "full", "partition": 0, "replicas": [9]}]},
    "empty": {"partitions": []},
    "cut": {"partitions": [{"topic": "full", "partition": 0, "offset": 2}], "version": 1},
    "cut-twice": {"partitions": [{"topic": "full", "partition": 0, "offset": 2}] * 2},
    "new": {"version": 2, "partitions": []},
}
LINES = """
get-offsets --topic full
get-offsets --topic full --time earliest
get-offsets --topic full --time -1
get-offsets --topic full --time -3
get-offsets --topic full --time soon
get-offsets --topic full --partitions 1
get-offsets --topic full --partitions x
get-offsets --topic-partitions full:0
get-offsets --topic-partitions full:0-1
get-offsets --topic-partitions full:0 --topic full
get-offsets --topic nope
get-offsets --topic f.* --exclude-internal-topics
delete-records
delete-records --offset-json-file FILES/cut
delete-records --offset-json-file FILES/cut-twice
delete-records --offset-json-file FILES/new
leader-election --all-topic-partitions
leader-election --election-type preferred
leader-election --election-type preferred --topic full
leader-election --election-type preferred --topic full --partition 0
leader-election --election-type preferred --partition 0 --all-topic-partitions
leader-election --election-type best --all-topic-partitions
leader-election --election-type preferred --all-topic-partitions
leader-election --election-type preferred --path-to-json-file FILES/good
log-dirs
log-dirs --describe --topic-list full
log-dirs --describe --topic-list nope
log-dirs --describe --broker-list 0,9
log-dirs --describe --broker-list x
consumer-groups
consumer-groups --list
consumer-groups --list --state
consumer-groups --list --type --state
consumer-groups --list --state Stable
consumer-groups --list --state bogus
consumer-groups --list --type classic
consumer-groups --list --group shell
consumer-groups --describe
consumer-groups --describe --group shell
consumer-groups --describe --group shell --offsets
consumer-groups --describe --group shell --members
consumer-groups --describe --group shell --members --verbose
consumer-groups --describe --group shell --state
consumer-groups --describe --group shell --members --state
consumer-groups --describe --all-groups
consumer-groups --describe --group nope
consumer-groups --delete
consumer-groups --delete --group nope
consumer-groups --delete-offsets --group shell
consumer-groups --reset-offsets --to-latest --topic full
consumer-groups --reset-offsets --group shell --topic full
consumer-groups --reset-offsets --group shell --to-latest --dry-run
consumer-groups --reset-offsets --group shell --topic full --to-latest --export --dry-run
consumer-groups --reset-offsets --group shell --topic full --shift-by -2 --export --dry-run
consumer-groups --reset-offsets --group shell --topic full --to-offset 99 --export --dry-run
consumer-groups --reset-offsets --group shell --topic full:0 --by-duration P1D --export --dry-run
consumer-groups --reset-offsets --group shell --all-topics --to-current --export --dry-run
consumer-groups --reset-offsets --group shell --topic full:x --to-latest --dry-run
reassign-partitions
reassign-partitions --list
reassign-partitions --list --cancel
reassign-partitions --verify
reassign-partitions --verify --reassignment-json-file FILES/good
reassign-partitions --verify --reassignment-json-file FILES/away --preserve-throttles
reassign-partitions --execute --reassignment-json-file FILES/good
reassign-partitions --execute --reassignment-json-file FILES/twice
reassign-partitions --execute --reassignment-json-file FILES/away
reassign-partitions --execute --reassignment-json-file FILES/empty
reassign-partitions --cancel --reassignment-json-file FILES/good --preserve-throttles
reassign-partitions --list --throttle 5
console-consumer
console-consumer --topic full --include full
console-consumer --topic full --offset 3
console-consumer --topic full --partition 0 --offset earliest --max-messages 2
console-consumer --topic full --partition 0 --offset 4 --max-messages 1 --property print.offset=true
console-consumer --topic full --partition 0 --offset x --max-messages 1
console-consumer --topic full --from-beginning --timeout-ms 3000 --property print.key=true
console-producer
console-producer --topic full --property parse.key=true
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("full", partitions=2, replication_factor=1)
        write(running, "full", *[f"value {at}" for at in range(10)])
        reset = ["--reset-offsets", "--to-offset", "4", "--execute"]
        where = ["--bootstrap-server", running.bootstrap_servers]
        of = ["--group", "shell", "--topic", "full"]
        assert main(["kafka-consumer-groups", *where, *reset, *of]) == 0
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (place / name).write_text(json.dumps(content))
    return place


@pytest.mark.parametrize("line", LINES.strip().splitlines())
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
