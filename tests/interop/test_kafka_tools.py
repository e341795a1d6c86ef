"""The drop-ins for Kafka's tools, against one cluster: output and exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from klamm import Cluster
from klamm.cli.__main__ import main


class Said(NamedTuple):
    """What a tool printed, and its exit code."""

    code: int
    out: str
    err: str


Tool = Callable[..., Said]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("full", partitions=2, replication_factor=1)
        write(running, "full", *[f"value {at}" for at in range(10)])
        yield running


def write(cluster: Cluster, topic: str, *lines: str) -> None:
    """Records in the first partition of a topic."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin(*lines))
        words = [topic, "--partition", "0", "-b", cluster.bootstrap_servers]
        assert main(["produce", *words]) == 0


def stdin(*lines: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))


@pytest.fixture
def tool(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    def call(name: str, *words: str) -> Said:
        capsys.readouterr()
        code = main([f"kafka-{name}", "--bootstrap-server", cluster.bootstrap_servers, *words])
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def file(tmp_path: Path) -> Callable[[object], str]:
    def write(content: object) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(content))
        return str(path)

    return write


def test_offsets(tool: Tool) -> None:
    assert tool("get-offsets", "--topic", "full") == (0, "full:0:10\nfull:1:0\n", "")
    early = tool("get-offsets", "--topic-partitions", "full:0", "--time", "earliest")
    assert early == (0, "full:0:0\n", "")
    # A moment after the last record has no offset, and no line.
    assert tool("get-offsets", "--topic", "full", "--time", "9999999999999") == (0, "", "")
    nothing = tool("get-offsets", "--topic", "nope")
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err.startswith("Error occurred: Could not match any topic-partitions")


def test_records_are_deleted_up_to_an_offset(
    cluster: Cluster, tool: Tool, file: Callable[[object], str]
) -> None:
    cluster.create_topic("cut", partitions=1, replication_factor=1)
    write(cluster, "cut", *"abc")
    wanted = [
        {"topic": "cut", "partition": 0, "offset": 2},
        {"topic": "nope", "partition": 0, "offset": 2},
    ]
    said = tool("delete-records", "--offset-json-file", file({"partitions": wanted, "version": 1}))
    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[:3] == [
        "Executing records delete operation",
        "Records delete operation completed:",
        "partition: cut-0\tlow_watermark: 2",
    ]
    assert lines[3].startswith(
        "partition: nope-0\terror: org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
    )
    assert tool("delete-records", "--offset-json-file", "/nope").code == 1


def test_elections(tool: Tool, file: Callable[[object], str]) -> None:
    kind = ("--election-type", "preferred")
    done = tool("leader-election", *kind, "--topic", "full", "--partition", "0")
    assert done == (0, "Valid replica already elected for partitions full-0\n", "")
    wanted = {"partitions": [{"topic": "nope", "partition": 7}]}
    failed = tool("leader-election", *kind, "--path-to-json-file", file(wanted))
    assert (failed.code, failed.err) == (1, "1 replica(s) could not be elected\n")
    assert failed.out.startswith(
        "Error completing leader election (PREFERRED) for partition: nope-7: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
    )
    assert tool("leader-election", *kind, "--all-topic-partitions").code == 0


def test_directories(tool: Tool) -> None:
    said = tool("log-dirs", "--describe", "--topic-list", "full")
    first, second, found = said.out.splitlines()
    assert (said.code, first) == (0, "Querying brokers for log directories information")
    assert second == "Received log directory information from brokers 0,1"
    brokers = json.loads(found)["brokers"]
    names = [p["partition"] for b in brokers for d in b["logDirs"] for p in d["partitions"]]
    assert sorted(names) == ["full-0", "full-1"]
    strange = tool("log-dirs", "--describe", "--broker-list", "0,9")
    assert strange == (
        1,
        "",
        "ERROR: The given brokers do not exist from --broker-list: 9. "
        "Current existent brokers: 0,1\n",
    )


def test_groups(cluster: Cluster, tool: Tool, tmp_path: Path) -> None:
    groups = ("consumer-groups", "--group", "shell")
    reset = (*groups, "--reset-offsets", "--topic", "full")
    dry = tool(*reset, "--to-latest")
    assert dry.err.startswith("WARN: No action will be performed")
    assert tool("consumer-groups", "--list") == (0, "", "")
    done = tool(*reset, "--to-offset", "4", "--execute")
    rows = [line.split() for line in done.out.splitlines()]
    assert rows == [
        [],
        ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
        ["shell", "full", "0", "4"],
        ["shell", "full", "1", "0"],  # there is no more in it
    ]
    assert tool("consumer-groups", "--list").out == "shell\n"
    listed = tool("consumer-groups", "--list", "--state", "--type").out.splitlines()
    assert [line.split() for line in listed] == [
        ["GROUP", "TYPE", "STATE"],
        ["shell", "Classic", "Empty"],
    ]
    assert tool("consumer-groups", "--list", "--state", "Stable").out.split() == ["GROUP", "STATE"]
    described = tool(*groups, "--describe")
    assert described.err == "\nConsumer group 'shell' has no active members.\n"
    assert described.out.splitlines()[2].split() == [
        "shell",
        "full",
        "0",
        "4",
        "10",
        "6",
        "-",
        "-",
        "-",
    ]
    state = tool(*groups, "--describe", "--state").out.splitlines()
    assert state[2].split()[-2:] == ["Empty", "0"]
    assert "(0)" in state[2] or "(1)" in state[2]
    assert tool(*groups, "--describe", "--members").out.split()[0] == "GROUP"

    plan = tmp_path / "plan.csv"
    exported = tool(*reset, "--shift-by", "-1", "--export", "--dry-run")
    assert exported.out == "full,0,3\nfull,1,0\n\n"
    plan.write_text(exported.out.strip() + "\n")
    assert tool(*groups, "--reset-offsets", "--from-file", str(plan), "--execute").code == 0
    current = tool(*groups, "--reset-offsets", "--all-topics", "--to-current", "--dry-run")
    assert current.out.split()[4:8] == ["shell", "full", "0", "3"]
    early = tool(*reset[:-1], "full:0", "--by-duration", "P1D", "--dry-run")
    assert early.out.split()[4:] == ["shell", "full", "0", "0"]

    gone = tool(*groups, "--delete-offsets", "--topic", "full:0")
    assert gone.out.startswith("Request succeed for deleting offsets with topic full:0 group shell")
    assert gone.out.split()[-3:] == ["full", "0", "Successful"]
    deleted = tool(*groups, "--delete")
    said = "Deletion of requested consumer groups ('shell') was successful.\n"
    assert deleted == (0, said, "")


def test_groups_that_are_not_there(tool: Tool) -> None:
    # As in Kafka the exit code is 0.
    absent = ("consumer-groups", "--group", "nope")
    assert tool(*absent, "--describe") == (
        0,
        "\nError: Consumer group 'nope' does not exist.\n",
        "",
    )
    failed = tool(*absent, "--delete")
    assert failed.code == 0
    assert "\nError: Deletion of some consumer groups failed:\n* Group 'nope'" in failed.out
    assert "errors.GroupIdNotFoundException" in failed.out
    wrong = tool(*absent, "--reset-offsets", "--topic", "gone", "--to-latest", "--dry-run")
    assert wrong.out.startswith("\nError: Executing consumer group command failed due to ")
    useless = tool(*absent, "--reset-offsets", "--topic", "full", "--dry-run")
    assert useless.code == 1
    assert "requires one of the following scenarios" in useless.err


def test_records_go_in_and_come_out(
    cluster: Cluster, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("talk", partitions=1, replication_factor=1)
    lines = ["h:1,i:NIL\tk\tv", "h:2\tNIL\tNIL", "h:3\tk\t"]
    monkeypatch.setattr("sys.stdin", stdin(*lines))
    wanted = ("parse.key=true", "parse.headers=true", "null.marker=NIL")
    settings = [word for text in wanted for word in ("--property", text)]
    codec = ("--compression-codec", "--sync", "--request-required-acks", "all")
    assert tool("console-producer", "--topic", "talk", *settings, *codec) == (0, "", "")

    shown = ("print.key=true", "print.headers=true", "print.offset=true", "key.separator=|")
    settings = [word for text in shown for word in ("--property", text)]
    group = ("--topic", "talk", "--group", "listeners", "--timeout-ms", "500")
    read = tool("console-consumer", *group, "--from-beginning", "--max-messages", "2", *settings)
    assert read == (
        0,
        "Offset:0|h:1,i:null|k|v\nOffset:1|h:2|null|null\n",
        "Processed a total of 2 messages\n",
    )
    # Who does not want to commit leaves the group where it was.
    shy = ("--consumer-property", "enable.auto.commit=false", "--max-messages", "1")
    assert tool("console-consumer", *group, *shy).code == 0
    # The group goes on where it was, and waits for more in vain.
    rest = tool("console-consumer", *group, "--property", "print.partition=true")
    assert (rest.code, rest.out) == (0, "Partition:0\t\n")
    assert rest.err.endswith("Processed a total of 1 messages\n")
    one = ("--topic", "talk", "--partition", "0", "--offset", "1", "--max-messages", "1")
    timed = tool("console-consumer", *one, "--property", "print.timestamp=true")
    assert timed.out.startswith("CreateTime:1")
    assert timed.out.endswith("\tnull\n")


def test_what_the_consoles_refuse(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tool("console-consumer", "--topic", "nope")
    assert absent.code == 1
    assert "there is no topic or partition 'nope'" in absent.err
    monkeypatch.setattr("sys.stdin", stdin("no tab"))
    words = ("console-producer", "--topic", "full", "--property", "parse.key=true")
    wrong = tool(*words)
    assert wrong == (1, "", "No key separator found on line number 1: 'no tab'\n")


def test_replicas_move(cluster: Cluster, tool: Tool, file: Callable[[object], str]) -> None:
    tool("topics", "--create", "--topic", "mover", "--replica-assignment", "0")
    cluster.wait_for_topic("mover", partitions=1)
    reassign = "reassign-partitions"
    topics = file({"topics": [{"topic": "mover"}], "version": 1})
    proposed = tool(
        reassign, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1"
    )
    lines = proposed.out.splitlines()
    assert (proposed.code, lines[0], lines[3]) == (
        0,
        "Current partition replica assignment",
        "Proposed partition reassignment configuration",
    )
    plan = ("--reassignment-json-file", file(json.loads(lines[4])))
    before = tool(reassign, "--verify", *plan, "--preserve-throttles").out.splitlines()
    assert before == [
        "Status of partition reassignment:",
        "There is no active reassignment of partition mover-0, but replica set is 0 rather than 1.",
    ]
    started = tool(reassign, "--execute", *plan, "--throttle", "100000000")
    assert started.code == 0
    assert started.out.splitlines()[2:3] == [lines[1]]
    assert "The inter-broker throttle limit was set to 100000000 B/s\n" in started.out
    assert started.out.endswith("Successfully started partition reassignment for mover-0\n")
    cluster.wait_until(
        lambda view: (at := view.partition("mover", 0)) is not None and at.replicas == (1,)
    )
    assert tool(reassign, "--verify", *plan).out.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition mover-0 is completed.",
        "Clearing broker-level throttles on brokers 0,1",
        "Clearing topic-level throttles on topic mover",
    ]
    assert tool(reassign, "--list") == (0, "No partition reassignments found.\n", "")
    cancelled = tool(reassign, "--cancel", *plan, "--preserve-throttles")
    assert cancelled.out.startswith("None of the specified partition reassignments are active.")


@pytest.mark.parametrize(
    ("topic", "replicas", "said"),
    [
        ("full", [9], "Error: Unknown broker id 9\n"),
        ("nope", [0], "Error: Unable to find partition: nope-0\n"),
        ("full", [0, 0], "Error: Partition replica lists may not contain duplicate entries: "),
    ],
)
def test_moves_that_cannot_be(
    tool: Tool, file: Callable[[object], str], topic: str, replicas: list[int], said: str
) -> None:
    move = {"topic": topic, "partition": 0, "replicas": replicas}
    plan = file({"version": 1, "partitions": [move]})
    refused = tool("reassign-partitions", "--execute", "--reassignment-json-file", plan)
    assert (refused.code, refused.err) == (1, "")
    assert refused.out.startswith(said)
