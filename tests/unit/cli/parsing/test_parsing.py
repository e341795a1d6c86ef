"""Command lines read by signatures: every way to write one, and a sentence for every mistake."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

from klamm.cli.parsing.app import App, Command
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.parsing.words import HelpWanted
from klamm.model.errors import UsageError


class Shade(StrEnum):
    """A choice."""

    LIGHT = "light"
    DARK = "dark"


def paint(
    thing: str,
    others: Annotated[list[str] | None, Argument(help="more things")] = None,
    coats: Annotated[int, Option("--coats", "-c", min=1, max=99, help="how many")] = 2,
    shade: Annotated[Shade, Option("--shade", envvar="TEST_SHADE")] = Shade.DARK,
    quick: Annotated[bool, Option("--quick", "-q")] = False,
    careful: Annotated[bool, Option("--careful/--careless")] = True,
    dry: bool = True,
    label: Annotated[list[str] | None, Option("--label", "-l")] = None,
    every: float = 1.0,
    at: datetime | None = None,
    into: Path | None = None,
    store: Annotated[str | None, Option("--store", bare="own")] = None,
) -> None:
    """Paint things.

    Example: klamm paint door
    """


PAINT = Command(paint)


def read(*words: str) -> dict[str, Any]:
    return PAINT.read(words)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["door"], {"thing": "door", "others": None, "coats": 2, "shade": Shade.DARK}),
        (["door"], {"quick": False, "careful": True, "dry": True, "label": None, "store": None}),
        (["door", "a", "b"], {"thing": "door", "others": ["a", "b"]}),
        (["--coats", "3", "door", "-q", "a"], {"coats": 3, "quick": True, "others": ["a"]}),
        (["--coats=3", "door"], {"coats": 3}),
        (["door", "-c3"], {"coats": 3}),
        (["door", "-c=3"], {"coats": 3}),
        (["door", "-qc3"], {"quick": True, "coats": 3}),
        (["door", "-c", "3", "-c", "4"], {"coats": 4}),
        (["door", "-l", "a", "--label=b"], {"label": ["a", "b"]}),
        (["door", "--label", "-x"], {"label": ["-x"]}),
        (["door", "--label", ""], {"label": [""]}),
        (["door", "--careless"], {"careful": False}),
        (["door", "--careless", "--careful"], {"careful": True}),
        (["door", "--no-dry"], {"dry": False}),
        (["--", "-q", "--coats"], {"thing": "-q", "others": ["--coats"]}),
        (["-"], {"thing": "-"}),
        (["door", "--every", ".5"], {"every": 0.5}),
        (["door", "--at", "2026-05-01"], {"at": datetime(2026, 5, 1)}),  # noqa: DTZ001 - as typed
        (["door", "--into", "a b/ü"], {"into": Path("a b/ü")}),
        (["door", "--shade", "light"], {"shade": Shade.LIGHT}),
        (["door", "--store"], {"store": "own"}),
        (["door", "--store", "--quick"], {"store": "own", "quick": True}),
        (["door", "--store", "zk:1"], {"store": "zk:1"}),
    ],
)
def test_words_become_values(words: list[str], found: dict[str, object]) -> None:
    values = read(*words)
    assert {name: values[name] for name in found} == found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "THING is missing"),
        (["door", "--colour", "x"], "there is no option --colour"),
        (["door", "--caots", "3"], "there is no option --caots, did you mean --coats?"),
        (["door", "-z"], "there is no option -z"),
        (["door", "-qz"], "there is no option -qz"),
        (["door", "--coats"], "--coats needs a value: INTEGER"),
        (["door", "--coats", "--quick"], "--coats needs a value: INTEGER"),
        (["door", "--coats", "x"], "--coats takes a whole number, not 'x'"),
        (["door", "--coats", "1_0"], "--coats takes a whole number, not '1_0'"),
        (["door", "--coats", "٣"], "--coats takes a whole number, not '٣'"),
        (["door", "--coats", ""], "--coats takes a whole number, not ''"),
        (["door", "--coats", "9" * 40], "--coats takes a whole number, not"),
        (["door", "--coats", "0"], "--coats is at least 1, not 0"),
        (["door", "--coats", "100"], "--coats is at most 99, not 100"),
        (["door", "--every", "nan"], "--every takes a number, not 'nan'"),
        (["door", "--every", "inf"], "--every takes a number, not 'inf'"),
        (["door", "--quick=yes"], "--quick takes no value"),
        (["door", "--shade", "Dark"], "--shade is one of light, dark, not 'Dark'"),
        (["door", "--at", "soon"], "--at takes a time such as 2026-05-01T12:00:00, not 'soon'"),
        (["door", "--into", ""], "--into takes a path, not ''"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(*words)
    assert str(refused.value).startswith(sentence)


def test_the_environment_comes_after_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SHADE", "light")
    assert read("door")["shade"] is Shade.LIGHT
    assert read("door", "--shade", "dark")["shade"] is Shade.DARK
    monkeypatch.setenv("TEST_SHADE", "grey")
    with pytest.raises(UsageError, match="TEST_SHADE is one of light, dark, not 'grey'"):
        read("door")
    monkeypatch.setenv("TEST_SHADE", "")
    assert read("door")["shade"] is Shade.DARK


def test_one_argument_too_many_is_refused() -> None:
    def show(name: str) -> None: ...

    with pytest.raises(UsageError, match="'b' is one argument too many"):
        Command(show).read(["a", "b"])


@pytest.mark.parametrize("words", [["-h"], ["--help"], ["door", "-qh"], ["--coats", "x", "-h"]])
def test_help_wins_over_mistakes_in_values(words: list[str]) -> None:
    with pytest.raises(HelpWanted):
        read(*words)


def test_help_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    PAINT.run(["--help"], "klamm paint")
    said = capsys.readouterr().out
    assert "usage: klamm paint [OPTIONS] THING [OTHERS]..." in said
    assert "-c, --coats INTEGER" in said
    assert "[default: 2]" in said
    assert "TEST_SHADE;" in said
    assert "--careful, --careless" in said
    assert max(map(len, said.splitlines()[1:])) <= 40


def test_a_group_chooses_among_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    app, seen = App("Do this or that."), []

    @app.command()
    def this_one(name: str) -> None:
        """Do this."""
        seen.append(name)

    @app.command("that")
    def that_(name: str) -> None:
        """Do that."""

    app(args=["this-one", "x"], prog_name="klamm do")
    assert seen == ["x"]
    with pytest.raises(UsageError, match="there is no klamm do thta, did you mean that"):
        app(args=["thta"], prog_name="klamm do")
    with pytest.raises(UsageError, match=r"NAME is missing \(klamm do that --help shows"):
        app(args=["that"], prog_name="klamm do")
    for args, code in ([], 2), (["--help"], 0):
        with pytest.raises(SystemExit) as left:
            app(args=args, prog_name="klamm do")
        assert left.value.code == code
    assert capsys.readouterr().out.count("Do that.") == 2
