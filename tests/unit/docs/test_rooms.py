"""The drawing of the rooms follows the imports."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
sys.path.insert(0, str(TOOLS))

import generate_rooms  # noqa: E402


def house(tmp_path: Path, **files: str) -> Path:
    """A small package: `a__b` is the module `a/b.py`."""
    for name, text in files.items():
        path = tmp_path / "klamm" / Path(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_drawing_in_the_docs_is_not_stale() -> None:
    tool = [sys.executable, str(TOOLS / "generate_rooms.py"), "--check"]
    ran = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_an_arrow_that_follows_from_others_is_left_out(tmp_path: Path) -> None:
    source = house(
        tmp_path,
        top="import klamm.middle.page\nimport klamm.low",
        middle__page="from klamm.low import x",
        low="x = 1",
    )
    graph = generate_rooms.rooms(source)
    assert graph == {"low": frozenset(), "middle": {"low"}, "top": {"low", "middle"}}
    assert generate_rooms.arrows(graph) == [("middle", "low"), ("top", "middle")]
    assert generate_rooms.depths(graph) == {"low": 0, "middle": 1, "top": 2}


def test_rooms_in_a_circle_cannot_be_drawn(tmp_path: Path) -> None:
    source = house(tmp_path, a="import klamm.b", b="import klamm.a")
    with pytest.raises(SystemExit, match="circle: a, b"):
        generate_rooms.rooms(source)


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(SystemExit, match="lacks the markers"):
        generate_rooms.page("# Architecture\n")
