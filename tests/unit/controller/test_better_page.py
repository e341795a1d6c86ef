"""The page of what klamm does better: every weakness has its row, and every row its proof."""

import re
from pathlib import Path

import pytest

from klamm.model.settings.broker_klamm import KLAMM

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "explanation" / "better-than-kafka.md").read_text()
# Number, setting and tests of each row.
ROWS = [
    (cells[1], cells[4].strip("`"), cells[5])
    for line in TEXT.splitlines()
    if len(cells := [cell.strip() for cell in line.split("|")]) == 7 and cells[1].isdigit()
]
TESTS: dict[str, set[str]] = {}  # by page; two rooms may have one of the same name
for path in (ROOT / "tests").rglob("test_*.py"):
    found = re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    TESTS.setdefault(path.name, set()).update(found)


def test_all_weaknesses_are_there_in_order() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 49))


@pytest.mark.parametrize("row", ROWS, ids=[number for number, _, _ in ROWS])
def test_what_a_row_names_exists(row: tuple[str, str, str]) -> None:
    _, setting, proof = row
    named = re.findall(r"`(\w+\.py)::(test_\w+)`", proof)
    assert named, "a row without a test is a claim"
    assert proof == ", ".join(f"`{page}::{test}`" for page, test in named)
    assert [(page, test) for page, test in named if test not in TESTS.get(page, ())] == []
    assert setting in {"", *(definition.name for definition in KLAMM)}
