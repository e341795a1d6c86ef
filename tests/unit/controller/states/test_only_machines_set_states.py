"""Nobody but the machines sets a state: a walk over the source proves it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[4] / "src" / "klamm"
# They run the tables; the others ask them.
MACHINES = {"machines.py", "topic_machine.py"}
STATES = {"state", "replica_states"}
# Fields by which the machines say which topics are on their way out, and where a partition is.
INDEXES = {"deletions", "unled"}
CHANGING = {"update", "pop", "popitem", "clear", "setdefault", "__setitem__", "__delitem__"}


def set_in(source: str) -> Iterator[str]:
    """What a module sets of a state, as text with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if name in STATES:
                yield f"{node.lineno}: sets .{name}"
            case ast.Subscript(value=ast.Attribute(attr=name), ctx=ast.Store() | ast.Del()) if (
                name in STATES | INDEXES
            ):
                yield f"{node.lineno}: sets an item of .{name}"
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name), attr=method)) if (
                name in STATES | INDEXES and method in CHANGING
            ):
                yield f"{node.lineno}: calls .{name}.{method}"
            case ast.Call(func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__")):
                yield f"{node.lineno}: calls setattr"
            case ast.Call(func=ast.Name(id="Partition" | "Topic"), keywords=keywords) if any(
                k.arg in STATES for k in keywords
            ):
                yield f"{node.lineno}: makes one in a state"


def modules() -> Iterator[Path]:
    """Every module that can have a partition or a topic of the controller in its hands."""
    for path in sorted(SOURCE.rglob("*.py")):
        knows = "klamm.controller.context" in path.read_text() or "core.context" in path.read_text()
        if "controller" in path.relative_to(SOURCE).parts or knows:
            yield path


def test_only_the_machines_set_states() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{what}"
        for path in modules()
        if path.name not in MACHINES
        for what in set_in(path.read_text())
    }
    # The context keeps its collections: it files partitions and drops topics when told to.
    kept = {what for what in found if "context.py" in what and "calls" in what}
    assert {what.partition("calls ")[2] for what in kept} == {
        ".deletions.pop",
        ".unled.pop",
        ".unled.setdefault",
    }
    assert found - kept == set()


def test_the_walk_meets_the_machines_and_others() -> None:
    names = {path.name for path in modules()}
    assert {"machines.py", "topic_machine.py", "deletion.py", "controlling.py"} <= names
    for name in MACHINES:
        (path,) = [path for path in modules() if path.name == name]
        assert list(set_in(path.read_text()))


@pytest.mark.parametrize(
    "line",
    [
        "partition.state = X",
        "a.state, b = X, Y",
        "partition.replica_states[broker] = X",
        "del topic.partitions[0].replica_states[broker]",
        "partition.replica_states.update(states)",
        "for p.state in states: pass",
        "context.deletions[name] = X",
        "setattr(partition, 'state', X)",
        "object.__setattr__(partition, 'state', X)",
        "Partition(id, assignment, state=X)",
    ],
)
def test_the_walk_finds_what_sets_a_state(line: str) -> None:
    assert list(set_in(line))


@pytest.mark.parametrize("line", ["x = partition.state", "p.replica_states.get(b)", "state = X"])
def test_the_walk_lets_pass_what_reads_one(line: str) -> None:
    assert not list(set_in(line))
