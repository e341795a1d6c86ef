"""The picture of the README: its script runs, and what it shows is what one gets."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "draw_cast.py"
sys.path.insert(0, str(SCRIPT.parent))

from draw_cast import ALONE, CLUSTER, COMMANDS, PICTURE, shown  # noqa: E402

pytestmark = pytest.mark.interop


def by_command(lines: list[str]) -> dict[str, list[str]]:
    """What came after each typed line, numbers and names drawn by lot aside."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("$ "):
            found[line[2:]] = []
        elif line:
            without = re.sub(r"\(id \S+\)", "(id)", line)
            found[list(found)[-1]].append(" ".join(re.sub(r"\d+", "N", without).split()))
    return found


def test_it_shows_what_one_gets(tmp_path: Path) -> None:
    tried = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no network of one's own here: {tried.stderr.strip()}")
    fresh = tmp_path / "cast.svg"
    subprocess.run([sys.executable, SCRIPT, fresh], check=True)
    now, drawn = by_command(shown(fresh)), by_command(shown(PICTURE))
    assert list(now) == list(drawn) == [CLUSTER, *COMMANDS]
    # How far the cluster is with the death, and who controls it, is not the same each time.
    for command in (CLUSTER, *COMMANDS[:4]):
        assert now[command] == drawn[command]
    for command in COMMANDS[4:]:
        assert now[command]
        assert now[command][0].split()[0] == drawn[command][0].split()[0]


def test_it_names_nothing_of_the_machine_it_was_drawn_on() -> None:
    text = "\n".join(shown(PICTURE))
    assert "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094" in text
    assert re.findall(r"(?:^|\s)/\w+", text) == []
