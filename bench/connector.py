"""Spark's own Kafka connector, from Maven Central, to measure and compare with.

    python bench/connector.py        # prints the directory with its jars, or why there is none

The jars go into the user's cache, once, and are complete or absent: they are fetched next to their
place and then renamed. `KLAMM_CONNECTOR_JARS=DIR` names jars that are there already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_POM = Path(__file__).with_name("connector.xml")
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "klamm"
_FETCH_SECONDS = 300


class Missing(Exception):
    """Why there is no connector."""


def jars() -> list[Path]:
    """The connector's jars."""
    given = os.environ.get("KLAMM_CONNECTOR_JARS")
    place = Path(given) if given else _fetched(_CACHE / "connector")
    found = sorted(place.glob("*.jar"))
    if not any("spark-sql-kafka" in jar.name for jar in found):
        raise Missing(f"{place} holds no spark-sql-kafka jar")
    return found


def version(found: list[Path]) -> str:
    """The connector's version, from the name of its jar."""
    return next(j.stem.rpartition("-")[2] for j in found if "spark-sql-kafka" in j.name)


def _fetched(place: Path) -> Path:
    if place.is_dir():
        return place
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing("there is no mvn on this machine")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".connector-") as half:
        command = [maven, "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [*command, f"-DoutputDirectory={half}/jars"],
                capture_output=True,
                text=True,
                timeout=_FETCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Missing(f"the jars did not arrive within {_FETCH_SECONDS} s") from None
        if done.returncode != 0:
            words = (done.stdout or done.stderr).strip().splitlines() or ["no reason given"]
            raise Missing(f"Maven cannot fetch the jars: {words[0]}")
        (Path(half) / "jars").rename(place)
    return place


if __name__ == "__main__":
    try:
        print(jars()[0].parent)
    except Missing as why:
        sys.exit(str(why))
