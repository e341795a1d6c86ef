"""Writes `docs/reference/cli.md` from the commands themselves.

python tools/generate_cli_reference.py            writes the page
python tools/generate_cli_reference.py --check    says whether it is stale
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from commands import Leaf, Param, leaves

from klamm.cli.__main__ import SECTIONS

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

HEAD: Final = """# Command line

Generated from the commands in `src/klamm/cli`; a test fails when this page is stale.

`klamm COMMAND --help` prints the same in a terminal. Exit codes: 0 done, 1 tried and failed,
2 asked wrongly, 130 interrupted. The tools that carry Kafka's names use Kafka's exit codes.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, commands in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for name, command in commands.items():
            summary = command.summary
            parts.append(f"\n### klamm {name}\n\n{summary[0].upper()}{summary[1:]}.\n")
            parts += [_leaf(leaf) for leaf in leaves(name, command.module)]
    return "".join(parts)


def _leaf(leaf: Leaf) -> str:
    words = " ".join(("klamm", *leaf.words))
    arguments = [param.value for param in leaf.params if not param.names]
    options = ["[OPTIONS]"] if any(param.names for param in leaf.params) else []
    text = [f"\n#### {words}\n"] if len(leaf.words) > 1 else []
    text.append(f"\n```\n{' '.join([words, *arguments, *options])}\n```\n")
    if leaf.help:
        text.append(f"\n{leaf.help}\n")
    if leaf.params:
        rows = [_row(param) for param in leaf.params]
        text.append("\n| Option | Default | Meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(text)


def _row(param: Param) -> str:
    names = ", ".join(f"`{name}`" for name in param.names)
    left = " ".join(filter(None, (names, f"`{param.value}`" if param.value else "")))
    default = "" if param.default in (None, False) else f"`{param.default}`"
    env = f" (environment: `{param.env}`)" if param.env else ""
    return f"| {_cell(left)} | {_cell(default)} | {_cell(param.help)}{env} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page, or with --check compare it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    text = page()
    if asked.check:
        stale = not PAGE.exists() or PAGE.read_text() != text
        if stale:
            sys.stderr.write(f"{PAGE.name} is stale: run python tools/{Path(__file__).name}\n")
        return int(stale)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
