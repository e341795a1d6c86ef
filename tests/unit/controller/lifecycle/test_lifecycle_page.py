"""The page of a topic's life names files that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_every_file_it_names_exists() -> None:
    text = (ROOT / "docs" / "explanation" / "lifecycle.md").read_text()
    named = set(re.findall(r"`((?:src|tests|tools)/[\w/.]+)`", text))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_nothing_was_left_to_fill_in() -> None:
    text = (ROOT / "docs" / "explanation" / "lifecycle.md").read_text()
    assert re.findall(r"\{[A-Z_]+\}", text) == []
