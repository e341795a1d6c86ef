"""The shape of the house, by the numbers of `tools/house.py`."""

from __future__ import annotations

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
    assert users == {"klamm.app", "klamm.metrics.families", "klamm.metrics.server"}


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
