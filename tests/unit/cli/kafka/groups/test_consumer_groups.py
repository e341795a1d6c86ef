"""The drop-in for consumer groups: refusals, tables, resets."""

from __future__ import annotations

import pytest

from klamm.cli.groups.views import GroupView, MemberView
from klamm.cli.kafka.groups import reports as group_reports
from klamm.cli.kafka.groups import resets as group_resets
from klamm.cli.kafka.groups.consumer_groups import chosen, parse
from klamm.model.names import TopicPartition

B = ["--bootstrap-server", "h:1"]
RESET = [*B, "--reset-offsets", "--group", "g"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "This tool helps to list all consumer groups"),
        (["--list"], 'Missing required argument "[bootstrap-server]"'),
        (B, "Command must include exactly one action: --list, --describe, --delete"),
        ([*B, "--list", "--delete", "--all-groups"], "exactly one action"),
        ([*B, "--describe"], "Option [describe] takes one of these options"),
        ([*B, "--describe", "--group", "g", "--members", "--offsets"], "at most one of these"),
        ([*B, "--describe", "--group", "g", "--state", "Empty"], "does not take a value for"),
        ([*B, "--list", "--members"], "Option(s) [members] are unavailable"),
        ([*B, "--describe", "--group", "g", "--type"], "Option(s) [type] are unavailable"),
        ([*B, "--delete"], "Option [delete] takes one of these options"),
        ([*B, "--delete", "--group", "g", "--topic", "t"], "topic-specific offset deletion"),
        ([*B, "--delete-offsets", "--group", "g"], "Option [delete-offsets] takes"),
        ([*B, "--list", "--group", "g"], '"[group]" can\'t be used with option "[list]"'),
        ([*B, "--describe", "--group", "g", "--all-groups"], 'with option "[all-groups]"'),
        ([*RESET, "--dry-run", "--execute"], "only accepts one of [execute] and [dry-run]"),
        ([*B, "--reset-offsets"], "Option [reset-offsets] takes one of these options"),
        (
            [*RESET, "--to-latest", "--to-earliest"],
            '"[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
    ],
)
def test_a_command_line_that_makes_no_sense_exits_1(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(args)
    streams = capsys.readouterr()
    assert (exit_.value.code, streams.out) == (1, "")
    assert said in streams.err


def test_states_may_be_left_out() -> None:
    assert parse([*B, "--list", "--state"]).one("state") == ""
    assert parse([*B, "--state", "--list"]).one("state") == ""
    assert parse([*B, "--list", "--state", "stable,empty"]).one("state") == "stable,empty"


def test_states_are_spelt_as_they_are() -> None:
    assert chosen("stable, EMPTY", ("Empty", "Stable"), "state") == ["Stable", "Empty"]
    with pytest.raises(group_resets.Misused, match=r"Invalid state list 'x'\. Valid states are: A"):
        chosen("x", ("A",), "state")


def test_offsets_are_a_table_with_the_widths_of_kafka() -> None:
    row = group_reports.Row("g", TopicPartition("t", 0), 4, 10)
    assert group_reports.offset_lines([row]) == [
        "",
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  "
        "LAG             CONSUMER-ID     HOST            CLIENT-ID",
        "g               t               0          4               10              "
        "6               -               -               -",
    ]
    unknown = group_reports.Row("g", TopicPartition("t", 0), None, 10)
    assert unknown.cells[3:6] == ("-", "10", "-")


def test_members_have_instances_where_one_has_a_name() -> None:
    plain = MemberView("m", None, "c", "/h", {"b": [2, 10], "a": []})
    titles, row = group_reports.member_lines(
        GroupView("g", "classic", "Stable", "range", [plain]), verbose=True
    )[1:]
    assert titles.split() == [
        "GROUP",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "ASSIGNMENT",
    ]
    assert row.split() == ["g", "m", "/h", "c", "2", "(10,2)"]
    fixed = MemberView("m", "i", "c", "/h", {})
    lines = group_reports.member_lines(
        GroupView("g", "classic", "Stable", "range", [fixed]), verbose=False
    )
    assert "GROUP-INSTANCE-ID" in lines[1]
    assert lines[2].split() == ["g", "m", "i", "/h", "c", "0"]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H2M3S", 3_723_000),
        ("P1DT0.5S", 86_400_500),
        ("-PT1S", -1000),
        ("pt1m", 60_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert group_resets.duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "PT1D", "P" + "9" * 5000 + "D"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be parsed to a Duration"):
        group_resets.duration_ms(text)


def test_moments_are_utc_unless_a_zone_is_named() -> None:
    assert group_resets.moment_of("1970-01-01T00:00:01.500") == 1500
    assert group_resets.moment_of("1970-01-01T01:00:00.000+0100") == 0
    for wrong in ("yesterday", "1970-01-01", "1970-13-01T00:00:00.000"):
        with pytest.raises(ValueError, match="Error parsing timestamp"):
            group_resets.moment_of(wrong)


def test_topics_may_name_partitions() -> None:
    assert group_resets.named("t:0,2") == [TopicPartition("t", 0), TopicPartition("t", 2)]
    for wrong in ("t:", "t:x", "t:0:1", "t:-1"):
        with pytest.raises(group_resets.Misused):
            group_resets.named(wrong)


def test_a_plan_is_read_as_it_was_exported() -> None:
    plan = {"g h": {TopicPartition("t", 1): 7}}
    assert group_resets.csv_lines(plan, alone=True) == ["t,1,7"]
    written = group_resets.csv_lines(plan, alone=False)
    assert written == ['"g h",t,1,7']
    assert group_resets.read_csv(written[0], None) == plan
    assert group_resets.read_csv("t,1,7\n", "g h") == plan
    for wrong in ("t,1", "t,1,-7", "t,1,7"):
        with pytest.raises(ValueError, match="line 1 is not"):
            group_resets.read_csv(wrong, None)


@pytest.mark.parametrize(("name", "text"), [("shift-by", "x"), ("to-offset", "9" * 30)])
def test_a_number_that_is_none_is_a_failure_of_the_command(name: str, text: str) -> None:
    options = parse([*RESET, f"--{name}", text])
    with pytest.raises(ValueError, match=f"Cannot parse argument '{text}' of option {name}"):
        options.number(name)
