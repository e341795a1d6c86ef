"""Writes `docs/state-machines.md` from the tables of the controller.

python tools/generate_state_machines.py            writes the page
python tools/generate_state_machines.py --check    says whether it is stale
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from klamm.controller import election, partition_states, replica_states
from klamm.controller.states import PartitionState, ReplicaState

PAGE = Path(__file__).parent.parent / "docs" / "state-machines.md"

HEAD = """# State machines

Generated from `MOVES` in `src/klamm/controller/partition_states.py` and `replica_states.py` and
from `STRATEGIES` in `election.py`; a test fails when this page is stale.

A move that has no row is refused: the partition or replica stays where it is. What a move needs is
planned by its rule from one frozen view, stored, then taken into memory, and only then told to
brokers (`src/klamm/controller/machines.py`).
"""

Table = Mapping[tuple[Any, Any], Callable[..., Any]]


def section(title: str, states: type[StrEnum], moves: Table) -> str:
    return f"\n## {title}\n\n{diagram(states, moves)}\n{rows(moves)}"


def diagram(states: type[StrEnum], moves: Table) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    first = next(iter(states))
    lines.append(f"    [*] --> {first}")
    lines += [
        f"    {before} --> {after} : {rule.__name__}" for (before, after), rule in moves.items()
    ]
    return "\n".join([*lines, "```", ""])


def rows(moves: Table) -> str:
    lines = ["| From | To | Rule | What it does |", "|---|---|---|---|"]
    for (before, after), rule in moves.items():
        lines.append(f"| {before} | {after} | `{rule.__name__}` | {summary(rule)} |")
    return "\n".join(lines) + "\n"


def elections() -> str:
    lines = ["| Strategy | Function | Who wins |", "|---|---|---|"]
    for strategy, elect in election.STRATEGIES.items():
        lines.append(f"| {strategy} | `{elect.__name__}` | {summary(elect)} |")
    return "\n## Elections\n\n" + "\n".join(lines) + "\n"


def summary(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring on one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n")[0].split())


def page() -> str:
    return (
        HEAD
        + section("Partitions", PartitionState, partition_states.MOVES)
        + section("Replicas", ReplicaState, replica_states.MOVES)
        + elections()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/state-machines.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, say if it is stale")
    if parser.parse_args().check:
        fresh = PAGE.exists() and PAGE.read_text() == page()
        sys.stdout.write("" if fresh else "stale: state-machines.md\n")
        return 0 if fresh else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
