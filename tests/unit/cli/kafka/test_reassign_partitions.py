"""The drop-in for reassignments: refusals, plans and reports."""

from __future__ import annotations

import json

import pytest

from klamm.cli.kafka import reassign_partitions as tool
from klamm.model.names import TopicPartition
from klamm.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment

B = ["--bootstrap-server", "h:1"]
FILE = ["--reassignment-json-file", "f"]
TP = TopicPartition("t", 0)
ENTRY = {"topic": "t", "partition": 0, "replicas": [1, 2]}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "This tool helps to move topic partitions"),
        (B, "exactly one action: --generate, --execute, --verify, --cancel, --list"),
        ([*B, "--list", "--cancel"], "exactly one action"),
        (["--list"], "Please specify --bootstrap-server"),
        ([*B, "--verify"], 'Missing required argument "[reassignment-json-file]"'),
        ([*B, "--generate"], 'Missing required argument "[topics-to-move-json-file]"'),
        ([*B, "--list", *FILE], '"[reassignment-json-file]" can\'t be used with action "[list]"'),
        ([*B, "--verify", *FILE, "--throttle", "1"], 'can\'t be used with action "[verify]"'),
    ],
)
def test_a_command_line_that_makes_no_sense_exits_1(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        tool.parse(args)
    streams = capsys.readouterr()
    assert (exit_.value.code, streams.out) == (1, "")
    assert said in streams.err


def test_a_plan_names_replicas_and_directories() -> None:
    entry = ENTRY | {"log_dirs": ["any", "/d"]}
    wanted = tool.wanted_of(json.dumps({"version": 1, "partitions": [entry]}))
    assert wanted == tool.Wanted({TP: (1, 2)}, {2: {TP: "/d"}})
    written = tool.as_json(wanted.replicas)
    assert written == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],'
        '"log_dirs":["any","any"]}]}'
    )
    assert tool.wanted_of(written) == ({TP: (1, 2)}, {})


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([ENTRY, ENTRY], "contains duplicate topic partitions: t-0"),
        ([ENTRY | {"replicas": [1, 1]}], "t-0 contains multiple entries for 1"),
        ([ENTRY | {"replicas": ["1"]}], "must be a list of numbers"),
        ([ENTRY | {"replicas": [True]}], "must be a list of numbers"),
        ([ENTRY | {"log_dirs": ["any"]}], r"Size of replicas list \[1, 2\] is different"),
    ],
)
def test_a_plan_that_cannot_be(entries: list[object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tool.wanted_of(json.dumps({"partitions": entries}))


def test_moves_are_told_with_what_comes_and_goes() -> None:
    assert tool.move_lines({}) == ["No partition reassignments found."]
    move = OngoingPartitionReassignment(0, [1, 2], [2], [])
    assert tool.move_lines({TP: move}) == [
        "Current partition reassignments:",
        "t-0: replicas: 1,2. adding: 2.",
    ]


def test_a_verdict_for_each_partition() -> None:
    others = [TopicPartition("t", n) for n in (1, 2)]
    wanted = dict.fromkeys([TP, *others], (1,))
    now = {TP: (1,), others[0]: (1, 2), others[1]: (2, 3)}
    assert tool.verdict_lines(wanted, now, {others[0]}) == [
        "Status of partition reassignment:",
        "Reassignment of partition t-0 is completed.",
        "Reassignment of partition t-1 is still in progress.",
        "There is no active reassignment of partition t-2, but replica set is 2,3 rather than 1.",
    ]


def test_a_rate_that_is_no_number_is_told_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_:
        tool.app(args=[*B, "--execute", *FILE, "--throttle", "x"], prog_name="")
    assert exit_.value.code == 1
    assert capsys.readouterr().out == "Error: Cannot parse argument 'x' of option throttle\n"
