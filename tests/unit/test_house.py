"""The shape of the house, by the numbers of `tools/house.py`."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools/house.py"


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_modules_import_each_other_in_a_circle(house: ModuleType) -> None:
    assert house.knots(house.imports(house.modules())) == []


def test_only_those_who_run_brokers_import_the_server(house: ModuleType) -> None:
    graph = house.imports(house.modules())
    users = {name for name, used in graph.items() if house.SERVER in used}
    assert users == {
        "klamm.app.one_broker",
        "klamm.app.one_process",
        "klamm.app.scraping",
        "klamm.metrics.families",
        "klamm.metrics.server",
    }


def test_a_circle_is_found_also_where_only_the_type_checker_sees_it(
    house: ModuleType, tmp_path: Path
) -> None:
    room = tmp_path / "klamm"
    room.mkdir()
    (room / "a.py").write_text("from klamm import b\n")
    seen = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from klamm import a\n"
    (room / "b.py").write_text(seen)
    (room / "c.py").write_text("from klamm import a\n")
    assert house.knots(house.imports(house.modules(tmp_path))) == [["klamm.a", "klamm.b"]]


LINES_MAX = 500
FUNCTION_MAX = 60
# A loop over records: a call for each number in a record would double what a record costs.
LOOPS = {"klamm.protocol.record_scan.scan": 73}


def test_no_file_is_too_long_to_read(house: ModuleType) -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in house.modules().items()}
    assert {n: count for n, count in lines.items() if count > LINES_MAX} == {}


def test_no_function_is_longer_than_a_screen(house: ModuleType) -> None:
    lengths = house.functions(house.modules())
    assert {n: count for count, n in lengths if count > LOOPS.get(n, FUNCTION_MAX)} == {}


def test_no_docstring_begins_as_a_riddle(house: ModuleType) -> None:
    """A noun and a verb: "The number of watches", not "How many watches there are"."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    riddles = [
        (name, text.splitlines()[0])
        for name, path in house.modules().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
        if text.split(maxsplit=1)[0] in {"How", "What", "Where", "Who"}
    ]
    assert riddles == []


def test_few_names_stand_for_two_things(house: ModuleType) -> None:
    counts = house.class_names(house.modules())
    shared = sorted(name for name, count in counts.items() if count > 1 and name[0] != "_")
    # Most are one thing on two sides of a wire. A new one needs another word.
    assert len(shared) <= 32, shared
