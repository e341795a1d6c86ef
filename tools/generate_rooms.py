"""Draws the rooms of the house in `docs/explanation/architecture.md`, from the imports themselves.

python tools/generate_rooms.py            writes the drawing and the table between the markers
python tools/generate_rooms.py --check    says whether they are stale

A room is a folder of `src/klamm`, or a module beside the folders. An arrow says that a room imports
another; the drawing leaves out arrows that follow from others, the table has all of them.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from house import PACKAGE, SOURCE, imports, knots, modules

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md"
BEGIN: Final = "<!-- rooms: begin (python tools/generate_rooms.py) -->"
END: Final = "<!-- rooms: end -->"

Graph = Mapping[str, frozenset[str]]


def rooms(source: Path = SOURCE) -> dict[str, frozenset[str]]:
    """Which rooms each room imports."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    for name, others in imports(modules(source)).items():
        room = _room(name)
        used[room] |= {_room(other) for other in others} - {room, ""}
    graph = {room: frozenset(others) for room, others in sorted(used.items()) if room}
    for knot in knots({room: set(others) for room, others in graph.items()}):
        raise SystemExit(f"rooms import each other in a circle: {', '.join(knot)}")
    return graph


def _room(module: str) -> str:
    """The first word after the package; '' for the package itself."""
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def reach(graph: Graph, start: str) -> frozenset[str]:
    """Every room that can be reached from one."""
    found: set[str] = set()
    left = list(graph[start])
    while left:
        room = left.pop()
        if room not in found:
            found.add(room)
            left += graph[room]
    return frozenset(found)


def arrows(graph: Graph) -> list[tuple[str, str]]:
    """The imports that do not follow from others: what a reader needs to see."""
    reached = {room: reach(graph, room) for room in graph}
    return [
        (room, other)
        for room in graph
        for other in sorted(graph[room])
        if not any(other in reached[between] for between in graph[room] - {other})
    ]


def depths(graph: Graph) -> dict[str, int]:
    """How many rooms lie below each one, on the longest way down."""
    known: dict[str, int] = {}

    def depth(room: str) -> int:
        if room not in known:
            known[room] = 1 + max(map(depth, graph[room]), default=-1)
        return known[room]

    for room in graph:
        depth(room)
    return known


def summary(room: str, source: Path = SOURCE) -> str:
    """The first sentence of the room's docstring."""
    at = source / PACKAGE / room
    path = at / "__init__.py" if at.is_dir() else at.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def drawing(graph: Graph, source: Path = SOURCE) -> str:
    """A Mermaid flowchart and a table."""
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"    {_box(room, source)}" for room in graph]
    lines += [f"    {room} --> {other}" for room, other in arrows(graph)]
    lines += ["```", "", "| Room | What it does | Imports |", "|---|---|---|"]
    depth = depths(graph)
    for room in sorted(graph, key=lambda name: (-depth[name], name)):
        used = ", ".join(sorted(graph[room], key=lambda name: (-depth[name], name)))
        lines.append(f"| `{_label(room, source)}` | {summary(room, source)} | {used or '-'} |")
    return "\n".join(lines)


def _box(room: str, source: Path) -> str:
    label = _label(room, source)
    return f'{room}["{label}"]' if label.endswith("/") else f'{room}("{label}")'


def _label(room: str, source: Path) -> str:
    return f"{room}/" if (source / PACKAGE / room).is_dir() else f"{room}.py"


def page(text: str) -> str:
    """The page with a fresh drawing between its markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE.name} lacks the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{drawing(rooms())}\n{END}{after}"


def main() -> int:
    """Write the drawing, or with --check compare it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    old = PAGE.read_text()
    new = page(old)
    if asked.check:
        if new != old:
            sys.stderr.write(f"{PAGE.name} is stale: run python tools/{Path(__file__).name}\n")
        return int(new != old)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
