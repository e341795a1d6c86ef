"""The house in numbers: files per folder, who imports the server, import knots, longest functions.

    python tools/house.py            # a table for people
    python tools/house.py --json     # the same for programs

An import under TYPE_CHECKING counts like any other: a knot that only the type checker sees is
still one that a reader has to untie.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).parents[1] / "src"
PACKAGE: Final = "klamm"
SERVER: Final = "klamm.broker.server"
FOLDERS_SHOWN: Final = 12


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(paths: Mapping[str, Path]) -> dict[str, set[str]]:
    """Which modules of the package each module imports, wherever the import stands."""
    return {name: set(_imported(path, paths)) - {name} for name, path in paths.items()}


def _imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


def knots(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle, the largest first (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        on_stack.add(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in on_stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            knot = []
            while not knot or knot[-1] != name:
                knot.append(stack.pop())
                on_stack.discard(knot[-1])
            if len(knot) > 1:
                found.append(sorted(knot))

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return sorted(found, key=len, reverse=True)


def functions(paths: Mapping[str, Path]) -> list[tuple[int, str]]:
    """Every function with the length of its body in lines, the longest first.

    A signature does not count: that of a command is a list of its options.
    """
    lengths = []
    for name, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None, name
                lengths.append((node.end_lineno - node.body[0].lineno + 1, f"{name}.{node.name}"))
    return sorted(lengths, reverse=True)


def class_names(paths: Mapping[str, Path]) -> Counter[str]:
    """How many classes have each name, messages of the wire left out."""
    names: Counter[str] = Counter()
    for name, path in paths.items():
        if ".protocol.messages" not in name:
            tree = ast.parse(path.read_text())
            names.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return names


def measure(source: Path = SOURCE) -> dict[str, Any]:
    """All the numbers."""
    paths = modules(source)
    graph = imports(paths)
    folders: defaultdict[str, int] = defaultdict(int)
    for path in paths.values():
        folders[str(path.parent.relative_to(source))] += path.name != "__init__.py"
    lengths = functions(paths)
    tied = knots(graph)
    repeated = {name: count for name, count in class_names(paths).items() if count > 1}
    lines = {name: len(path.read_text().splitlines()) for name, path in paths.items()}
    return {
        "modules": len(paths),
        "lines": sum(lines.values()),
        "files per folder": dict(sorted(folders.items(), key=lambda item: -item[1])),
        "modules that import the server": sum(SERVER in used for used in graph.values()),
        "knots": len(tied),
        "modules in knots": sum(map(len, tied)),
        "largest knot": len(tied[0]) if tied else 0,
        "longest functions": lengths[:3],
        "median function": lengths[len(lengths) // 2][0],
        "longest file": max((count, name) for name, count in lines.items()),
        "class names used more than once": dict(sorted(repeated.items())),
    }


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--source", type=Path, default=SOURCE)
    asked = parser.parse_args()
    numbers = measure(asked.source)
    if asked.json:
        sys.stdout.write(json.dumps(numbers, indent=1) + "\n")
        return
    for name, value in numbers.items():
        if name == "files per folder":
            value = {at: value[at] for at in list(value)[:FOLDERS_SHOWN]}
        sys.stdout.write(f"{name:34} {value}\n")


if __name__ == "__main__":
    main()
