"""The drop-in's refusals: message, stream and exit code of each."""

from __future__ import annotations

import pytest

from klamm.cli.kafka.topics import parse

B = ["--bootstrap-server", "h:1"]
CREATE = [*B, "--create", "--topic", "t"]
DESCRIBE = [*B, "--describe"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Option"),
        (["--help"], "--bootstrap-server <server to connect to>"),
        (["--create", "--list"], "exactly one action"),
        ([*B], "exactly one action"),
        (["--list"], "--bootstrap-server must be specified"),
        ([*B, "--list", "--bogus"], "bogus is not a recognized option"),
        ([*B, "--create", "--topic"], "Option topic requires an argument"),
        ([*B, "--create"], 'Missing required argument "[topic]"'),
        ([*B, "--delete"], 'Missing required argument "[topic]"'),
        ([*B, "--alter", "--topic", "t"], 'Missing required argument "[partitions]"'),
        ([*B, "--alter", "--topic", "t", "--config", "a=b"], "kafka-configs"),
        ([*DESCRIBE, "--if-exists"], "--topic or --topic-id is required"),
        ([*DESCRIBE, "--config", "a=b"], '"[config]" can\'t be used with option "[describe]"'),
        ([*B, "--list", "--partitions", "2"], '"[partitions]" can\'t be used with option "[list]"'),
        (
            [*B, "--alter", "--topic", "t", "--partitions", "2", "--replication-factor", "1"],
            '"[replication-factor]" can\'t be used with option "[alter]"',
        ),
        (
            [*CREATE, "--replica-assignment", "0", "--partitions", "1"],
            '"[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        ([*CREATE, "--if-exists"], '"[if-exists]" can\'t be used with option "[create]"'),
        (
            [*B, "--list", "--if-not-exists"],
            '"[if-not-exists]" can\'t be used with option "[list]"',
        ),
        ([*CREATE, "--exclude-internal"], '"[exclude-internal]" can\'t be used with option'),
        (
            [*DESCRIBE, "--topics-with-overrides", "--unavailable-partitions"],
            '"[unavailable-partitions]" can\'t be used with option "[topics-with-overrides]"',
        ),
        (
            [*B, "--list", "--under-min-isr-partitions"],
            '"[under-min-isr-partitions]" can\'t be used',
        ),
        (
            [*B, "--list", "--delete-config", "x"],
            '"[delete-config]" can\'t be used with option "[list]"',
        ),
        (
            [*B, "--alter", "--topic", "t", "--partitions", "2", "--delete-config", "x"],
            '"[delete-config]" can\'t be used with option "[bootstrap-server]"',
        ),
        ([*B, "--list", "-x"], "x is not a recognized option"),
    ],
)
def test_a_command_line_that_makes_no_sense_exits_1(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(args)
    streams = capsys.readouterr()
    assert exit_.value.code == 1
    assert said in streams.err
    assert streams.out == ""


def test_the_version_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith("3.9.0 ")


def test_the_reports_go_together() -> None:
    both = [*DESCRIBE, "--under-replicated-partitions", "--unavailable-partitions"]
    assert "unavailable-partitions" in parse(both)


def test_values_come_with_a_blank_or_an_equals_sign() -> None:
    options = parse(["--bootstrap-server=h:1", "--create", "--topic=t", "--config", "a=b=c"])
    assert options.one("bootstrap-server") == "h:1"
    assert options.all("config") == ["a=b=c"]


def test_one_dash_is_as_good_as_two() -> None:
    options = parse(["-bootstrap-server", "h:1", "-create", "-topic", "t"])
    assert (options.one("bootstrap-server"), options.one("topic")) == ("h:1", "t")


@pytest.mark.parametrize("words", [["stray"], ["--", "--describe"]])
def test_words_of_no_option_are_ignored_aloud(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse([*B, "--list", *words]).given(["list", "describe"]) == ["list"]
    streams = capsys.readouterr()
    assert streams.out == ""
    assert words[-1] in streams.err


@pytest.mark.parametrize("text", ["x", "3.0", " 3", "", "99999999999"])
def test_a_number_is_digits_that_fit_32_bits(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = parse([*CREATE, "--partitions", text])
    with pytest.raises(SystemExit) as exit_:
        options.integer("partitions")
    assert exit_.value.code == 1
    assert f"Cannot parse argument '{text}' of option partitions" in capsys.readouterr().err
