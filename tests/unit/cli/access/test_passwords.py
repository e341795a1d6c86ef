from __future__ import annotations

import io
from pathlib import Path

import pytest

from klamm.cli.access.passwords import password_from
from klamm.model.errors import UsageError


def test_from_a_file_a_pipe_or_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text("s p ü\nand more\n")
    assert password_from(file, draws=False) == ("s p ü", False)
    for given in (None, Path("-")):
        monkeypatch.setattr("sys.stdin", io.StringIO("piped\n"))
        assert password_from(given, draws=False) == ("piped", False)
    drawn, is_drawn = password_from(None, draws=True)
    assert is_drawn
    assert len(drawn) >= 24
    assert drawn != password_from(None, draws=True)[0]


@pytest.mark.parametrize("text", ["", "\n", "a\tb\n", "x" * 1025])
def test_what_is_no_password(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(UsageError, match="password") as caught:
        password_from(None, draws=False)
    assert "a\tb" not in str(caught.value)


def test_two_sources_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be used together"):
        password_from(tmp_path / "p", draws=True)
    with pytest.raises(UsageError, match="cannot be read"):
        password_from(tmp_path / "p", draws=False)
