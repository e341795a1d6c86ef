"""Profiles are kept for their owner, and count only where nobody named a cluster."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from klamm.cli import profiles, reach
from klamm.cli.__main__ import main
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, new_app
from klamm.cli.reach import Reach


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("KLAMM_PROFILE", "KLAMM_BOOTSTRAP_SERVER", "KLAMM_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def reached(*args: str) -> Reach:
    """The place a command with these arguments goes to."""
    found: list[Reach] = []
    app = new_app("")

    @app.command()
    def look(bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
        found.append(bootstrap_server)

    app(args=list(args), prog_name="look")
    return found[0]


def create(name: str, *more: str) -> None:
    assert main(["profile", "create", name, "-b", "there:1", *more]) == 0


def test_a_flag_wins_over_the_environment_that_over_a_profile_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert reached().servers == DEFAULT_BOOTSTRAP.servers
    create("test", "-X", "client.id=x", "--use")
    assert reached() == Reach("there:1", ("client.id=x",))
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", "env:1")
    assert reached() == Reach("env:1"), "another cluster must not get a profile's secrets"
    assert reached("-b", "flag:1") == Reach("flag:1")


def test_a_profile_may_be_named_for_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    create("one")
    create("two", "--use")
    monkeypatch.setenv("KLAMM_PROFILE", "one")
    found = profiles.in_use()
    assert found is not None
    assert found.name == "one"


def test_the_file_is_for_its_owner_alone(home: Path) -> None:
    create("test", "-X", "sasl.password=secret")
    file = home / "config" / "klamm" / "profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_secrets_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    create("test", "-X", "sasl.password=secret", "--use")
    assert main(["profile", "show", "test"]) == 0
    assert main(["profile", "list", "-o", "json"]) == 0
    said = capsys.readouterr().out
    assert "secret" not in said
    assert "sasl.password=..." in said


def test_removing_and_choosing(capsys: pytest.CaptureFixture[str]) -> None:
    create("test")
    assert main(["profile", "use", "nope"]) == 1
    assert main(["profile", "use", "test"]) == 0
    assert main(["profile", "remove", "test"]) == 0
    assert profiles.in_use() is None
    assert main(["profile", "remove", "test"]) == 1
    assert "there is no profile 'test'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["create", "a/b", "-b", "x:1"],
        ["create", "a", "-b", "nonsense"],
        ["create", "a", "-b", "x:1", "-X", "/no/such/file"],
    ],
)
def test_nonsense_is_refused_and_nothing_kept(args: list[str]) -> None:
    assert main(["profile", *args]) == 2
    assert not profiles.path().exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"profiles": {"a": 1}})])
def test_a_broken_file_is_said(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    profiles.path().parent.mkdir(parents=True)
    profiles.path().write_text(text)
    assert main(["profile", "list"]) == 2
    assert str(profiles.path()) in capsys.readouterr().err


def test_reach_is_what_commands_get() -> None:
    assert reach.reach_of("x:1") == Reach("x:1")
