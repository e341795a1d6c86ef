"""The drop-in's refusals, and how it reads what is to be set."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.kafka.configs import Entity, parse, parse_additions, parse_removals

B = ["--bootstrap-server", "h:1"]
CLIENTS = ["--entity-type", "clients"]
ALTER = [*B, "--alter", "--entity-type", "topics", "--entity-name", "t"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Option"),
        (["--help"], "--entity-type <type>"),
        ([*B, "--topic", "t"], "exactly one action"),
        ([*B, "--alter", "--describe", "--topic", "t"], "exactly one action"),
        (["--describe", "--topic", "t"], "--bootstrap-server"),
        (["--describe", "--zookeeper", "h:2181", "--topic", "t"], "use --bootstrap-server"),
        ([*B, "--describe"], "At least one entity type"),
        ([*B, "--describe", "--entity-type", "cats"], "Invalid entity type cats"),
        ([*B, "--describe", "--entity-type", "topics", "--topic", "t"], "one way"),
        (
            [*B, "--describe", "--topic", "t", "--add-config", "a=b"],
            '"[describe]" can\'t be used with option "[add-config]"',
        ),
        ([*B, "--alter", "--topic", "t"], "At least one of --add-config"),
        ([*ALTER, "--add-config", "a=b", "--add-config-file", "f"], "Only one of --add-config"),
        ([*B, "--alter", "--entity-type", "topics", "--add-config", "a=b"], "entity name must be"),
        ([*B, "--alter", "--broker", "x", "--add-config", "a=b"], "must be an integer"),
        ([*B, "--describe", "--entity-type", "broker-loggers"], "entity name must be"),
        (
            [*B, "--describe", "--entity-type", "topics", "--entity-type", "topics"],
            "Duplicate entity type",
        ),
        (
            [*B, "--describe", "--entity-type", "topics", "--entity-type", "users"],
            "Only users and clients",
        ),
        ([*B, "--describe", "--ip", "no such host"], "valid IP or resolvable host"),
        (
            [*B, "--describe", "--entity-type", "users", "--entity-name", "u", "--entity-default"],
            "needs an entity type",
        ),
        (
            [*B, "--describe", "--entity-type", "topics", "--entity-default"],
            "no default entity of topics",
        ),
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


def test_only_the_options_themselves_bring_the_list_of_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for args, lists_options in (([*B], True), ([*B, "--describe"], False)):
        with pytest.raises(SystemExit):
            parse(args)
        assert ("Description" in capsys.readouterr().err) == lists_options


@pytest.mark.parametrize(
    ("args", "entities"),
    [
        (["--topic", "t"], [Entity("topics", "t")]),
        (["--entity-type", "topics"], [Entity("topics", None)]),
        (["--entity-type", "brokers", "--entity-default"], [Entity("brokers", "")]),
        (["--broker-defaults"], [Entity("brokers", "")]),
        (["--user", "u", "--client-defaults"], [Entity("users", "u"), Entity("clients", "")]),
        (
            ["--entity-type", "users", "--entity-default", *CLIENTS, "--entity-name", "c"],
            [Entity("users", ""), Entity("clients", "c")],
        ),
        (
            ["--entity-type", "users", "--entity-name", "u", *CLIENTS],
            [Entity("users", "u"), Entity("clients", None)],
        ),
        (["--ip", "127.0.0.1"], [Entity("ips", "127.0.0.1")]),
    ],
)
def test_what_it_is_about(args: list[str], entities: list[Entity]) -> None:
    assert parse([*B, "--describe", *args])[1] == entities


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("a=b,c=[d,e],f=", {"a": "b", "c": "d,e", "f": ""}),
        ("cleanup.policy=[compact,delete]", {"cleanup.policy": "compact,delete"}),
    ],
)
def test_additions(text: str, pairs: dict[str, str]) -> None:
    options, _ = parse([*ALTER, "--add-config", text])
    assert parse_additions(options) == pairs


@pytest.mark.parametrize("text", ["", "a", "a=b=c", "a b=c", "=x"])
def test_additions_that_are_none(text: str) -> None:
    options, _ = parse([*ALTER, "--add-config", text])
    with pytest.raises(SystemExit):
        parse_additions(options)


def test_additions_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "more.properties"
    file.write_text("# why\n\nretention.ms = 5\ncleanup.policy=compact,delete\n")
    options, _ = parse([*ALTER, "--add-config-file", str(file)])
    assert parse_additions(options) == {"retention.ms": "5", "cleanup.policy": "compact,delete"}


def test_removals() -> None:
    options, _ = parse([*ALTER, "--delete-config", "a,b.c"])
    assert parse_removals(options) == ["a", "b.c"]
