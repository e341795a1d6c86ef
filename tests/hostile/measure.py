"""Runs attacks at full size against one or two source trees, in turns, and writes what was seen.

    python tests/hostile/measure.py --out RESULT.json --src before=OLD/src --src after=src [NAMES]

Each attack has a fresh cluster. Trees take turns at every attack, so that a busy hour of the
machine hurts both alike. A result that is already in the file is kept: a run that was cut short
goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile.catalogue import CATALOGUE, SETTINGS, Entry
from hostile.target import target


def measure(entry: Entry, *, smoke: bool) -> dict[str, Any]:
    """What one attack did to a fresh cluster."""
    sizes = entry.smoke if smoke else entry.full
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        keywords = {"settings": SETTINGS, **entry.target}
        with target(Path(place) / entry.name, **keywords) as running:
            try:
                outcome = entry.run(running, **(sizes or entry.full))
            except Exception as fault:  # noqa: BLE001 - an attack that cannot go on is a result too
                return {"failed": f"{type(fault).__name__}: {fault}"[:300], "load": load}
            readable = _readable(running)
    return {
        **outcome.seen.summary(),
        "broken": outcome.broken[:10],
        "facts": dict(list(outcome.facts.items())[:20]),
        "errors": [line[:300] for line in outcome.seen.errors[:3]],
        "records_lost": readable,
        "load": round(load, 2),
    }


def _readable(running: Any) -> int | None:
    """How many acknowledged records of the healthy user are gone, None when nobody can tell."""
    running.stop_user()
    try:
        return len(running.lost_records())
    except Exception:  # noqa: BLE001 - a cluster that does not answer any more
        return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--src", action="append", metavar="LABEL=PATH", default=[])
    parser.add_argument("--smoke", action="store_true", help="at the sizes of the smoke")
    parser.add_argument("--again", action="store_true", help="replace results that are there")
    asked = parser.parse_args()
    results = json.loads(asked.out.read_text()) if asked.out.exists() else {"attacks": {}}
    for name in asked.names or CATALOGUE:
        for text in asked.src or ["after="]:
            label, _, path = text.partition("=")
            row = results["attacks"].setdefault(name, {})
            if label in row and not asked.again:
                continue
            os.environ["KLAMM_HOSTILE_SRC"] = path
            began = time.monotonic()
            row[label] = measure(CATALOGUE[name], smoke=asked.smoke)
            took = time.monotonic() - began
            asked.out.write_text(json.dumps(results, indent=1) + "\n")
            brief = {k: v for k, v in row[label].items() if k not in ("facts", "errors")}
            sys.stdout.write(f"{name} {label} {took:.1f} s {brief}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
