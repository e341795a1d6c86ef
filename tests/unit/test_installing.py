"""Hints name what works where they are read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from klamm import installing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///src/klamm", "dir_info": {"editable": True}}, "-e '/src/klamm[spark]'"),
        ({"url": "file:///my%20src", "dir_info": {}}, "'/my src[spark]'"),
        (
            {"url": "file:///tmp/klamm-1.whl", "archive_info": {}},
            "'klamm[spark] @ file:///tmp/klamm-1.whl'",
        ),
        ({}, "'klamm[spark]'"),
    ],
)
def test_the_command_fits_the_origin(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, object], command: str
) -> None:
    class Found:
        @staticmethod
        def read_text(_name: str) -> str:
            return json.dumps(origin)

    monkeypatch.setattr(installing, "distribution", lambda _name: Found)
    assert installing.install_command("spark").endswith(f" -m pip install {command}")
    assert installing.install_command("spark").startswith(sys.executable)


def test_no_text_takes_an_index_for_granted() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    guilty = [
        str(page.relative_to(ROOT)) for page in pages if "pip install 'klamm" in page.read_text()
    ]
    assert guilty == []
