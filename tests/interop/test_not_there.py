"""What is not there: the same words and the same exit code from every command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm import Cluster
from klamm.cli.__main__ import main

TOPIC = "there is no topic 'nope'"
GROUP = "there is no group 'nope'"
BROKER = "there is no broker 9, or it is down; live brokers: 0"

ABSENT = [
    ("topics describe nope", TOPIC),
    ("topics alter nope --partitions 3", TOPIC),
    ("topics alter nope --config retention.ms=5", TOPIC),
    ("topics alter nope --unset retention.ms", TOPIC),
    ("topics delete nope", TOPIC),
    ("topics delete nope --wait", TOPIC),
    ("topics explain nope", TOPIC),
    ("topics freeze nope", TOPIC),
    ("topics unfreeze nope", TOPIC),
    ("topics copy nope other", TOPIC),
    ("story nope", TOPIC),
    ("consume nope", TOPIC),
    ("consume here --partition 7", "there is no partition here-7"),
    ("produce here --partition 7", "there is no partition here-7"),
    ("configs get -t nope", TOPIC),
    ("configs get -t here no.such.setting", "there is no setting 'no.such.setting'"),
    ("configs set -t nope retention.ms=5", TOPIC),
    ("configs unset -t nope retention.ms", TOPIC),
    ("groups describe nope", GROUP),
    ("groups delete nope", GROUP),
    ("groups reset nope -t here --to-earliest --execute", GROUP),
    ("brokers describe 9", BROKER),
    ("brokers drain 9", BROKER),
    ("brokers dirs 9", BROKER),
    ("reassign plan nope --brokers 0", TOPIC),
    ("reassign plan here --brokers 0,9", BROKER),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("here", partitions=2, replication_factor=1)
        yield running


@pytest.mark.parametrize(("line", "words"), ABSENT)
def test_absent(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    code = main([*line.split(), "-b", cluster.bootstrap_servers])
    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    assert said.err.startswith(f"klamm: {words}")


@pytest.mark.parametrize("line", sorted({*(line for line, _ in ABSENT), "status", "groups list"}))
def test_no_cluster(capsys: pytest.CaptureFixture[str], line: str) -> None:
    code = main([*line.split(), "-b", "127.0.0.1:1"])
    said = capsys.readouterr()
    assert code == 1
    assert said.err.startswith("klamm: no broker can be reached: 127.0.0.1:1")


def test_a_reset_shows_first_and_makes_no_group(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["groups", "reset", "new", "-t", "here", "--to-earliest", "--execute"]
    assert main([*line, "-b", cluster.bootstrap_servers]) == 1
    assert main(["groups", "list", "-b", cluster.bootstrap_servers]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b'{"k', "line 2: this is not JSON"),
        (b"[1]", "line 2: the record must be an object, not a list"),
        (b'{"kee": 1}', "line 2: the record has no field 'kee'; it may have key, key_base64"),
        (b'{"partition": "1"}', "line 2: field 'partition' must be a whole number, not a text"),
        (b'{"value_base64": "!"}', "line 2: field 'value_base64' is not base64"),
        (b'{"headers": [{"value": "x"}]}', "line 2: each of 'headers' needs a field 'name'"),
        (b'{"partition": 9}', "line 2: there is no partition here-9: it has 2"),
    ],
)
def test_wrong_json_is_told_by_line_and_field(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: bytes,
    words: str,
) -> None:
    import io
    import sys

    class Input:
        buffer = io.BytesIO(b'{"value": {"a": 1}}\n' + given + b"\n")

    monkeypatch.setattr(sys, "stdin", Input)
    code = main(["produce", "here", "-f", "json", "-b", cluster.bootstrap_servers])
    assert code in (1, 2)
    assert capsys.readouterr().err.startswith(f"klamm: {words}")


def test_settings_that_were_not_set_are_said(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    reach = ["-b", cluster.bootstrap_servers]
    assert main(["configs", "set", "-t", "here", "retention.ms=5", *reach]) == 0
    capsys.readouterr()
    assert main(["configs", "unset", "-t", "here", "retention.ms", "flush.ms", *reach]) == 0
    assert capsys.readouterr().out == "flush.ms was not set\nunset retention.ms\n"
    assert main(["topics", "alter", "here", "--unset", "retention.ms", *reach]) == 0
    assert capsys.readouterr().out == "retention.ms was not set\naltered topic here\n"
