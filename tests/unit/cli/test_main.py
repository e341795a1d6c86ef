"""The dispatcher: cheap help, one sentence for a failure, the exit codes."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from klamm.cli import __main__ as cli
from klamm.model.errors import StoreUnavailable, UsageError

HEAVY = ("typer", "pydantic", "rich", "kio", "asyncio", "klamm.app", "klamm.broker", "klamm.client")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom klamm.cli.__main__ import main\nmain(['--help'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_is_quick() -> None:
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "klamm.cli", "--help"], capture_output=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # The processor's time and the best of a few: a busy machine says nothing of the command.
    assert min(once() for _ in range(5)) < 0.150


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert f"  {name} " in said
        assert command.summary in said


def test_no_command_at_all_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: klamm" in capsys.readouterr().out


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docter"]) == 2
    assert "did you mean 'doctor'?" in capsys.readouterr().err


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version", "--bogus"]) == 2
    assert "there is no option --bogus" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main([name, "--help"])
    said = capsys.readouterr()
    # Kafka's own tools print their usage on stderr and exit 1.
    assert code == (1 if name.startswith("kafka-") else 0)
    assert name in (said.out + said.err)


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UsageError("port 9092 is taken"), 2, "klamm: port 9092 is taken"),
        (StoreUnavailable("the store is gone"), 1, "klamm: the store is gone"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (OSError(13, "Permission denied", "/a b"), 1, "klamm: /a b: Permission denied"),
        (ZeroDivisionError("by zero"), 1, "unexpected ZeroDivisionError: by zero"),
        (SystemExit(5), 5, ""),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_failure_is_one_sentence_and_a_code(
    error: BaseException,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def app(*, args: Sequence[str], prog_name: str) -> None:
        raise error

    monkeypatch.setattr("klamm.cli.version.app", app)
    assert cli.main(["version"]) == code
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 1


def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app(*, args: Sequence[str], prog_name: str) -> None:
        raise UsageError("no")

    monkeypatch.setattr("klamm.cli.version.app", app)
    assert cli.main(["--debug", "version"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_terminal_without_a_letter_shows_its_code(tmp_path: Path) -> None:
    data = tmp_path / "d\u00e4ta"
    data.mkdir()
    (data / "store.db").touch()
    done = subprocess.run(
        [sys.executable, "-m", "klamm.cli", "data", "show", "--data", data],
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "d\\xe4ta" in done.stdout + done.stderr
    assert "Unicode" not in done.stderr


def test_a_reader_that_left_hears_no_complaint() -> None:
    shell = f"{sys.executable} -m klamm.cli version | true"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stderr == ""
