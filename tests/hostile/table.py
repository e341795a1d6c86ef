"""Renders the results of `measure` into the table of docs/explanation/hardening.md.

python tests/hostile/table.py bench/results/hostile-DATE.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile.catalogue import CATALOGUE

P99_GOAL_MS: Final = 250
PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "hardening.md"
_BEGIN: Final = "<!-- attacks: begin -->"
_END: Final = "<!-- attacks: end -->"


def table(results: dict[str, dict[str, Any]]) -> str:
    """The rows, before and after side by side."""
    rows = [
        "| Attack | Healthy p99 / max, before | after | Memory, before | after "
        "| Outcome before | after |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        old, new = row.get("before", {}), row.get("after", {})
        cells = [f"`{name}`", _wait(old), _wait(new), _memory(old), _memory(new)]
        rows.append("| " + " | ".join([*cells, _outcome(name, old), _outcome(name, new)]) + " |")
    return "\n".join(rows)


def _wait(seen: dict[str, Any]) -> str:
    if seen.get("p99_ms") is None:
        return "none" if seen and "failed" not in seen else ""
    return f"{_ms(seen['p99_ms'])} / {_ms(seen['max_ms'])}"


def _ms(value: float) -> str:
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


def _memory(seen: dict[str, Any]) -> str:
    value = seen.get("memory_mb")
    return "" if value is None else f"+{value:.0f} MB"


def _outcome(name: str, seen: dict[str, Any]) -> str:
    if not seen:
        return ""
    if "failed" in seen:
        return "the attack could not end"
    faults = list(dict.fromkeys(text.split(":")[0] for text in seen["broken"]))[:2]
    if not seen["alive"]:
        faults.append("the process died")
    if not seen["answered"]:
        faults.append("the healthy user is locked out")
    if seen["errors_logged"] and not faults and not CATALOGUE[name].may_complain:
        faults.append(f"{seen['errors_logged']} faults in the log")
    if (seen["p99_ms"] or 0) > P99_GOAL_MS:
        faults.append("others wait")
    if seen["memory_mb"] > CATALOGUE[name].memory_goal_mb:
        faults.append("more memory than the goal")
    return "; ".join(faults).replace("|", "/") or "holds"


def main(path: str) -> None:
    text = PAGE.read_text()
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    made = table(json.loads(Path(path).read_text())["attacks"])
    PAGE.write_text(f"{head}{_BEGIN}\n{made}\n{_END}{tail}")


if __name__ == "__main__":
    main(sys.argv[1])
