"""The table of checks names tests that exist, and leaves no check out."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("checks.txt")
TESTS = Path(__file__).parents[2]
COUNT = 80
REASON = "not here:"


def table() -> dict[int, list[str]]:
    """The lines below each check."""
    read: dict[int, list[str]] = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("  "):
            read[max(read)].append(line.strip())
        elif line and not line.startswith("#"):
            number = int(line.split()[0])
            assert number == len(read) + 1, f"check {number} stands in the wrong place"
            read[number] = []
    return read


@cache
def named_in(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((TESTS / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_no_check_is_left_out() -> None:
    assert list(table()) == list(range(1, COUNT + 1))


@pytest.mark.parametrize("number", range(1, COUNT + 1))
def test_what_a_check_names_exists(number: int) -> None:
    shown = [line for line in table()[number] if not line.startswith(REASON)]
    missing = [
        line for line in shown if line.partition("::")[2] not in named_in(line.partition("::")[0])
    ]
    assert missing == []
    here = [line for line in shown if not line.startswith("interop_extra/")]
    assert here, "no test that always runs shows this"
