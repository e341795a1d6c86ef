"""Jars from Maven Central, in the user's cache: complete or absent.

They are fetched next to their place and then renamed, once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "klamm"
_FETCH_SECONDS = 300


class Missing(Exception):
    """Why something that is compared with is not there."""


def fetched(place: Path, pom: Path, *properties: str) -> Path:
    """The directory of the jars that a pom names."""
    if place.is_dir():
        return place
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing("there is no mvn on this machine")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as half:
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += [f"-D{name}" for name in properties]
        try:
            done = subprocess.run(
                [*command, "-DincludeScope=runtime", f"-DoutputDirectory={half}/jars"],
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
