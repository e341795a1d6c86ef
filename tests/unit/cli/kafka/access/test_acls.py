"""Command lines of kafka-acls: what Kafka's own tool says to each is what is held here."""

from __future__ import annotations

import pytest

from klamm.cli.kafka.access.acls import app, parse, wanted_of
from klamm.security.authorization.acls import (
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

HERE = ("--bootstrap-server", "127.0.0.1:1")
ADD = (*HERE, "--add", "--allow-principal", "User:a")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "This tool helps to manage acls on kafka."),
        ((*HERE, "--help"), "This tool helps to manage acls on kafka."),
        (
            (*HERE, "--topic", "t"),
            "Command must include exactly one action: --list, --add, --remove.",
        ),
        ((*HERE, "--add", "--list"), "Command must include exactly one action"),
        (("--list",), 'Missing required argument "[bootstrap-server]"'),
        ((*HERE, "--authorizer", "x", "--list"), "Only one of --bootstrap-server or --authorizer"),
        (("--authorizer", "x", "--list"), "klamm answers for its ACLs through its brokers"),
        ((*ADD, "--operation", "Read"), "You must provide at least one resource: --topic <topic>"),
        ((*HERE, "--remove"), "You must provide at least one resource: --topic <topic>"),
        (
            (*HERE, "--add", "--topic", "t"),
            "You must specify one of: --allow-principal, --deny-pri",
        ),
        (
            (*ADD, "--topic", "t", "--resource-pattern-type", "any"),
            "A '--resource-pattern-type' value of 'ANY' is not valid when adding acls.",
        ),
        (
            (*ADD, "--topic", "t", "--operation", "ClusterAction"),
            "ResourceType TOPIC only supports operations All, Read, Write",
        ),
        ((*ADD, "--topic", "t", "--operation", "Foo"), "ResourceType TOPIC only supports"),
        (
            (*ADD, "--topic", "t", "--producer", "--operation", "Read"),
            'Option "[producer]" can\'t be used with option "[operation]"',
        ),
        (
            (*HERE, "--add", "--topic", "t", "--producer", "--deny-principal", "User:a"),
            'Option "[producer]" can\'t be used with option "[deny-principal]"',
        ),
        ((*ADD, "--producer"), "With --producer you must specify a --topic"),
        ((*ADD, "--consumer", "--topic", "t"), "With --consumer you must specify a --topic and a"),
        ((*ADD, "--topic", "t", "--idempotent"), "The --idempotent option is only available if"),
        (
            (*ADD, "--topic", "t", "--principal", "User:b"),
            "The --principal option is only availabl",
        ),
        (
            (*HERE, "--list", "--allow-principal", "User:a"),
            'Option "[list]" can\'t be used with option "[allow-principal]"',
        ),
        ((*HERE, "--list", "--bogus"), "bogus is not a recognized option"),
        ((*ADD, "--topic"), "Option topic requires an argument"),
    ],
)
def test_wrong_usage_is_told_on_stderr_with_1(
    args: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app(args=args, prog_name="klamm kafka-acls")
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (1, "")
    assert says in said.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            (*ADD, "--topic", "t", "--resource-pattern-type", "foo"),
            "Cannot parse argument 'foo' of option resource-pattern-type",
        ),
        (
            (*HERE, "--add", "--topic", "t", "--allow-principal", "a"),
            "expected a string in format principalType:principalName but got a",
        ),
        ((*HERE, "--list", "--principal", "b"), "expected a string in format principalType"),
    ],
)
def test_some_mistakes_are_told_on_stdout_as_there(
    args: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app(args=args, prog_name="klamm kafka-acls")
    assert ended.value.code == 1
    assert capsys.readouterr().out.startswith(f"Error while executing ACL command: {says}")


def test_a_producer_and_a_consumer_at_once() -> None:
    options = parse(
        [
            *ADD,
            "--producer",
            "--idempotent",
            "--consumer",
            "--topic",
            "t",
            "--group",
            "g",
            "--transactional-id",
            "x",
            "--resource-pattern-type",
            "prefixed",
        ]
    )
    found = {
        (pattern.type.name, pattern.name, pattern.pattern.name): {
            entry.operation.name for entry in entries
        }
        for pattern, entries in wanted_of(options).items()
    }
    assert found == {
        ("TOPIC", "t", "PREFIXED"): {"WRITE", "CREATE", "DESCRIBE", "READ"},
        ("GROUP", "g", "PREFIXED"): {"READ"},
        ("TRANSACTIONAL_ID", "x", "PREFIXED"): {"WRITE", "DESCRIBE"},
        ("CLUSTER", "kafka-cluster", "LITERAL"): {"IDEMPOTENT_WRITE"},
    }


def test_entries_are_the_product_of_what_was_named() -> None:
    options = parse(
        [
            *ADD,
            "--allow-host",
            "h",
            "--allow-host",
            "i",
            "--deny-principal",
            "User:b",
            "--operation",
            "Create",
            "--operation",
            "alter",
            "--cluster",
        ]
    )
    cluster = Pattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    both = (Operation.CREATE, Operation.ALTER)
    assert wanted_of(options) == {
        cluster: {
            *(Acl("User:a", host, one, Permission.ALLOW) for host in "hi" for one in both),
            *(Acl("User:b", "*", one, Permission.DENY) for one in both),
        }
    }
