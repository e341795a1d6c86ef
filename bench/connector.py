"""Spark's own Kafka connector, from Maven Central, to measure and compare with.

    python bench/connector.py        # prints the directory with its jars, or why there is none

The jars go into the user's cache, once. `KLAMM_CONNECTOR_JARS=DIR` names jars that are there
already.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from maven import CACHE, Missing, fetched

_POM = Path(__file__).with_name("connector.xml")


def jars() -> list[Path]:
    """The connector's jars."""
    given = os.environ.get("KLAMM_CONNECTOR_JARS")
    place = Path(given) if given else fetched(CACHE / "connector", _POM)
    found = sorted(place.glob("*.jar"))
    if not any("spark-sql-kafka" in jar.name for jar in found):
        raise Missing(f"{place} holds no spark-sql-kafka jar")
    return found


def version(found: list[Path]) -> str:
    """The connector's version, from the name of its jar."""
    return next(j.stem.rpartition("-")[2] for j in found if "spark-sql-kafka" in j.name)


if __name__ == "__main__":
    try:
        print(jars()[0].parent)
    except Missing as why:
        sys.exit(str(why))
