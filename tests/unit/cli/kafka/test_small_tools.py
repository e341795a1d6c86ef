"""The drop-ins with few flags: refusals with exit code 1, files and output."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from klamm.cli.kafka import leader_election, log_dirs
from klamm.cli.kafka.options import Options
from klamm.cli.kafka.records import delete_records, get_offsets
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from klamm.protocol.messages.elect_leaders import PartitionResult

B = ["--bootstrap-server", "h:1"]
ELECT = [*B, "--election-type", "preferred"]
ONE = 'Missing required argument "[bootstrap-server]"'

Parse = Callable[[list[str]], Options]


@pytest.mark.parametrize(
    ("parse", "args", "said"),
    [
        (get_offsets.parse, [], "Option"),
        (get_offsets.parse, ["--topic", "t"], "Missing required option(s) [bootstrap-server]"),
        (get_offsets.parse, ["--bootstrap-server", "h"], "Please provide valid host:port"),
        (get_offsets.parse, ["--bootstrap-server", "h:1,x"], "Please provide valid host:port"),
        (delete_records.parse, ["--offset-json-file", "f"], ONE),
        (delete_records.parse, B, 'Missing required argument "[offset-json-file]"'),
        (delete_records.parse, ["--help"], "This tool helps to delete records"),
        (log_dirs.parse, ["--describe"], ONE),
        (log_dirs.parse, B, 'Missing required argument "[describe]"'),
        (
            leader_election.parse,
            ["--all-topic-partitions"],
            "Missing required option(s): bootstrap-server, election-type",
        ),
        (leader_election.parse, ELECT, "One and only one of the following options is required"),
        (
            leader_election.parse,
            [*ELECT, "--topic", "t", "--all-topic-partitions"],
            "options is required: topic, all-topic-partitions, path-to-json-file",
        ),
        (leader_election.parse, [*ELECT, "--topic", "t"], "Missing required option(s): partition"),
        (
            leader_election.parse,
            [*ELECT, "--all-topic-partitions", "--partition", "0"],
            "Option partition is only allowed if topic is used",
        ),
        (
            leader_election.parse,
            [*B, "--election-type", "best", "--all-topic-partitions"],
            "Cannot parse argument 'best' of option election-type",
        ),
    ],
)
def test_a_command_line_that_makes_no_sense_exits_1(
    parse: Parse, args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(args)
    streams = capsys.readouterr()
    assert (exit_.value.code, streams.out) == (1, "")
    assert said in streams.err


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("latest", -1),
        ("earliest", -2),
        ("max-timestamp", -3),
        ("earliest-local", -4),
        ("latest-tiered", -5),
        ("-2", -2),
        ("1700000000000", 1_700_000_000_000),
    ],
)
def test_times_have_names_or_are_numbers(text: str, moment: int) -> None:
    assert get_offsets.moment_of(text) == moment


@pytest.mark.parametrize("text", ["", "soon", "1.5", "9" * 19, "9" * 5000])
def test_other_times_are_malformed(text: str) -> None:
    with pytest.raises(ValueError, match="Malformed time argument"):
        get_offsets.moment_of(text)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], "ab0 ab1 ab2 b0 b1"),
        (["--topic", "a.*"], "ab0 ab1 ab2"),
        (["--topic", "ab,b", "--partitions", "1,2"], "ab1 ab2 b1"),
        (["--topic-partitions", "ab:0-2,b:1"], "ab0 ab1 b1"),
        (["--topic-partitions", ":1-"], "ab1 ab2 b1"),
        (["--topic-partitions", "ab:-1"], "ab0"),
        (["--topic-partitions", "b"], "b0 b1"),
    ],
)
def test_partitions_are_chosen_by_patterns(words: list[str], chosen: str) -> None:
    keep = get_offsets.filter_of(get_offsets.parse([*B, *words]))
    every = [TopicPartition("ab", n) for n in range(3)] + [TopicPartition("b", n) for n in range(2)]
    assert " ".join(f"{tp.topic}{tp.partition}" for tp in every if keep(tp)) == chosen


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--topic-partitions", "a:b"], "Invalid rule specification: a:b"),
        (["--topic", "["], "is an invalid regex"),
        (["--partitions", "x"], "numeric partition ids, but received: x"),
    ],
)
def test_patterns_that_cannot_be_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        get_offsets.filter_of(get_offsets.parse([*B, *words]))


def test_a_file_names_an_offset_for_each_partition() -> None:
    entry = {"topic": "a", "partition": 0, "offset": -1}
    text = json.dumps({"partitions": [entry]})
    assert delete_records.offsets_of(text) == {TopicPartition("a", 0): -1}
    with pytest.raises(ValueError, match="duplicate topic partitions: a-0"):
        delete_records.offsets_of(json.dumps({"partitions": [entry, entry]}))
    with pytest.raises(ValueError, match="Missing partitions field"):
        delete_records.offsets_of("{}")


def test_a_file_names_partitions_to_elect_for() -> None:
    entry = {"topic": "a", "partition": 2}
    text = json.dumps({"partitions": [entry]})
    assert leader_election.partitions_of(text) == [TopicPartition("a", 2)]
    with pytest.raises(ValueError, match=r"duplicate partitions: \[a-2\]"):
        leader_election.partitions_of(json.dumps({"partitions": [entry, entry]}))
    with pytest.raises(ValueError, match='missing "partitions" field'):
        leader_election.partitions_of("{}")


def test_elections_are_told_in_three_groups() -> None:
    codes = (0, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 0)
    results = [
        (TopicPartition("a", at), PartitionResult(at, code, "it is down" if at == 2 else None))
        for at, code in enumerate(codes)
    ]
    lines, failed = leader_election.report("PREFERRED", results)
    assert failed == 1
    assert lines == [
        "Successfully completed leader election (PREFERRED) for partitions a-0, a-3",
        "Valid replica already elected for partitions a-1",
        "Error completing leader election (PREFERRED) for partition: a-2: "
        "org.apache.kafka.common.errors.PreferredLeaderNotAvailableException: it is down",
    ]


def test_directories_are_one_line_of_json() -> None:
    topics = [DescribeLogDirsTopic(n, [DescribeLogDirsPartition(0, 7, 0, False)]) for n in "ab"]
    found = {1: [DescribeLogDirsResult(0, "/d", topics)]}
    assert log_dirs.as_json(found, {"b"}) == (
        '{"brokers":[{"broker":1,"logDirs":[{"partitions":[{"partition":"b-0","size":7,'
        '"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/d"}]}],"version":1}'
    )
