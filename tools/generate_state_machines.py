"""Writes `docs/reference/state-machines.md` from the tables of the controller.

python tools/generate_state_machines.py            writes the page
python tools/generate_state_machines.py --check    says whether it is stale
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from klamm.controller.states import strategies
from klamm.controller.states.tables import MACHINES, Machine

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "state-machines.md"

HEAD = """# State machines

Generated from `TRANSITIONS` in `topic_states.py`, `partition_states.py` and `replica_states.py` and
from `STRATEGIES` in `strategies.py`, all in `src/klamm/controller/states/`; a test fails when this
page is stale.

A transition that has no row is refused: the topic, partition or replica stays where it is. A rule
sees one frozen view and says what the transition needs, or why it cannot be made; that is stored,
then taken into memory, and only then told to brokers (`machines.py` and `topic_machine.py` there).
Nothing else sets a state: a test walks the source to prove it.

Every transition is a line of the ledger, and the lines about one thing are a chain: each begins
where the one before ended. A new controller knows what is stored and not what was written down, so
its first line about a thing begins with the word `found` instead of a state. Of what it finds as it
should be, it says nothing. `klamm audit` reports a pair that is not in these tables as an illegal
transition, and a line that does not join as a broken chain.
"""

Table = Mapping[tuple[Any, Any], Callable[..., Any]]


def section(machine: Machine) -> str:
    title = f"{machine.entity.capitalize()}s"
    table = machine.transitions
    found = ", ".join(str(s) for s in machine.states if s in machine.found and s != machine.unsaid)
    return (
        f"\n## {title}\n\n{diagram(machine)}\n{rows(table)}\n"
        f"A new controller finds one {machine.unsaid}, or says that it found it: {found}.\n"
    )


def diagram(machine: Machine) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    # The diagram's own names have no spaces.
    names = {state: str(state).title().replace(" ", "") for state in machine.states}
    if all(" " not in state for state in machine.states):
        names = {state: str(state) for state in machine.states}
    lines += [f'    state "{s}" as {name}' for s, name in names.items() if name != s]
    lines.append(f"    [*] --> {names[machine.never]}")
    lines += [
        f"    {names[before]} --> {names[after]} : {rule.__name__}"
        for (before, after), rule in machine.transitions.items()
    ]
    return "\n".join([*lines, "```", ""])


def rows(transitions: Table) -> str:
    lines = ["| From | To | Rule | What it does |", "|---|---|---|---|"]
    for (before, after), rule in transitions.items():
        lines.append(f"| {before} | {after} | `{rule.__name__}` | {summary(rule)} |")
    return "\n".join(lines) + "\n"


def elections() -> str:
    lines = ["| Strategy | Function | Who wins |", "|---|---|---|"]
    for strategy, elect in strategies.STRATEGIES.items():
        lines.append(f"| {strategy} | `{elect.__name__}` | {summary(elect)} |")
    return "\n## Elections\n\n" + "\n".join(lines) + "\n"


def summary(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring on one line."""
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n")[0].split())


def page() -> str:
    return HEAD + "".join(map(section, MACHINES)) + elections()


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/reference/state-machines.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, say if it is stale")
    if parser.parse_args().check:
        fresh = PAGE.exists() and PAGE.read_text() == page()
        sys.stdout.write("" if fresh else "stale: state-machines.md\n")
        return 0 if fresh else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
